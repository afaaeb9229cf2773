"""What predictions keep to: asked before the cell that answers them, given away by nothing."""

import ast
import re

from nbformat import NotebookNode

from tools.book.cells import comments, has_assert, syntax_tree
from tools.book.chapters import Chapter, Fault, Faults
from tools.book.grammar import (
    ANSWER,
    PREDICT,
    PREDICTED,
    QUESTION,
    answer_text,
    framed_answer,
)
from tools.book.length import reading_path
from tools.book.notebooks import tags
from tools.book.predictions import Prediction, is_question, predictions

# Words that say nothing about which choice is right.
SMALL_WORDS = set("and are but for has its not than that the with".split())


def asked_alone(chapter: Chapter) -> Faults:
    """A prediction has a cell of its own, and its id and its opening both say so."""
    for cell in chapter.notebook.cells:
        if cell.cell_type != "markdown":
            continue
        asks = is_question(cell)
        if cell.id.startswith(QUESTION) != asks:
            opening = f"a prediction begins with '{PREDICT.strip()}'"
            yield Fault(cell, f"{opening}, its cell is called {QUESTION}...")
        if cell.source.count("**Predict") > asks:
            yield Fault(
                cell,
                "'**Predict' within a text",
                f"give it a cell {QUESTION}... of its own",
            )


def choices_can_be_buttons(chapter: Chapter) -> Faults:
    """The page can make buttons of the choices: they take one line each, and they differ."""
    for prediction in predictions(chapter):
        cell, choices = prediction.question, prediction.choices
        paragraphs_and_lists = prediction.question_html(True, recursive=False)
        blocks = [tag.name for tag in paragraphs_and_lists]
        if blocks not in (["p"], ["p", "ul"]):
            yield Fault(
                cell,
                f"holds {', '.join(blocks)}",
                "one paragraph, then at most one list of choices",
            )
            continue

        texts = [" ".join(choice.get_text().split()) for choice in choices]
        if "" in texts or len(set(texts)) < len(texts):
            yield Fault(
                cell, f"empty or equal choices: {texts}", "let each say something else"
            )
        for choice in choices:
            if "\n" in choice.get_text().strip() or choice(["p", "ul", "pre"]):
                yield Fault(
                    cell,
                    "a choice of several lines",
                    "write '- ' and one line for each",
                )
                break
        if any(choice("strong") for choice in choices):
            yield Fault(cell, "a choice in bold gives the answer away", "mark none")


def answered_next(chapter: Chapter) -> Faults:
    """The next cell shows the thing itself, with no assert and no comment to give it away."""
    question = None  # the prediction just above
    for cell in chapter.notebook.cells:
        answers = PREDICTED in tags(cell)
        if question and not answers:
            yield _not_answered(question)
        if answers and question and cell.cell_type == "code":
            yield from _shows_the_answer(chapter, cell)
        elif answers:
            words = f"has the tag '{PREDICTED}' and no prediction above it"
            yield Fault(cell, words, "drop it, or ask")
        question = cell if is_question(cell) else None
    if question:
        yield _not_answered(question)


def _not_answered(question: NotebookNode) -> Fault:
    return Fault(
        question,
        "the next cell does not answer it",
        f"tag the code that does '{PREDICTED}'",
    )


def _shows_the_answer(chapter: Chapter, cell: NotebookNode) -> Faults:
    tree = syntax_tree(chapter, cell)
    if has_assert(tree):
        yield Fault(cell, "asserts what was asked", "assert it in the next code cell")
    hints = comments(cell)
    if hints:
        words = f"a comment may give the answer away: '{hints[0]}'"
        yield Fault(cell, words, "say it afterwards")
    if not tree.body or not isinstance(tree.body[-1], ast.Expr):
        yield Fault(
            cell, "shows nothing", "end it in an expression, the thing that was asked"
        )


def explained(chapter: Chapter) -> Faults:
    """Each is answered in words, and one of its choices is named as the right one."""
    for prediction in predictions(chapter):
        answer, right = prediction.answer, prediction.right_choice
        count = len(prediction.choices)
        if answer is None:
            yield Fault(
                prediction.question,
                "no answer",
                f"write it below what it printed, in a text cell {ANSWER}...",
            )
        elif answer_text(answer.source) is None:
            yield Fault(
                answer,
                "the answer is in plain sight",
                f"put it in {framed_answer('...')!r}",
            )
        elif count and (right is None or right >= count):
            yield Fault(
                answer,
                f"names none of the {count} choices",
                "let it begin with '**The second.** ' or its like",
            )
        elif not count and right is not None:
            yield Fault(
                answer,
                "names a choice where there are none",
                "let it begin with the reason",
            )


def not_given_away(chapter: Chapter) -> Faults:
    """No text above a prediction in its section holds words that only its right choice has."""
    path = list(reading_path(chapter))
    for prediction in predictions(chapter):
        if prediction.question not in path or prediction.answer is None:
            continue
        right, marks = _marks_of_choices(prediction)
        if right is None or right >= len(marks) or not marks[right]:
            continue
        for text in _texts_above(path, prediction.question):
            words = _words(text.source)
            named = [mark for mark in marks if mark and mark <= words]
            # A text that names several choices gives none of them away.
            if named == [marks[right]]:
                told = ", ".join(sorted(marks[right]))
                yield Fault(
                    prediction.question,
                    f"'{text.id}' above it gives the answer away: {told}",
                    "say it below",
                )


def _marks_of_choices(prediction: Prediction) -> tuple[int | None, list[set[str]]]:
    """Return which choice is right, and the words that each has and no other.

    Where there are no choices, the figures in the answer stand for the only one.
    """
    if not prediction.choices:
        first_sentence = prediction.explanation.partition(". ")[0]
        asked = _figures(prediction.question.source)
        return 0, [_figures(first_sentence) - asked]

    choices = [_words(choice.get_text()) for choice in prediction.choices]
    marks = []
    for index, words in enumerate(choices):
        others = set().union(*choices[:index], *choices[index + 1 :])
        marks.append(words - others)
    return prediction.right_choice, marks


def _texts_above(path: list[NotebookNode], cell: NotebookNode) -> list[NotebookNode]:
    """Return the texts above a cell in its section, the heading first."""
    section: list[NotebookNode] = []
    for other in path[: path.index(cell)]:
        if other.cell_type != "markdown":
            continue
        if other.source.startswith("#"):
            section = []
        section.append(other)
    return section


def _words(text: str) -> set[str]:
    words = {word.lower() for word in re.findall(r"[a-zA-Z]{3,}", text)}
    return (words - SMALL_WORDS) | _figures(text)


def _figures(text: str) -> set[str]:
    return set(re.findall(r"\d+(?:[.,]\d+)*", text))


PREDICTION_RULES = (
    asked_alone,
    choices_can_be_buttons,
    answered_next,
    explained,
    not_given_away,
)
