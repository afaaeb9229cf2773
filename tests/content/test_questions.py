"""Questions: every choice explains itself, in any notebook program, by keyboard, offline."""

import re
from collections import Counter

import pytest
from bs4 import BeautifulSoup
from helpers import CHAPTERS, ROOT, notebook, prose, read
from markdown_it import MarkdownIt

MARKDOWN = MarkdownIt("commonmark")  # HTML up to a blank line, then Markdown: as Jupyter draws it
ASKS = "**Check yourself.** "
VERDICTS = {"Right.": "right", "No.": "wrong"}
KEPT = {"details", "summary", "p", "strong", "em", "code"}  # by every program's sanitizer


def questions(chapter):
    return [cell for cell in chapter.cells if cell.source.startswith(ASKS)]


def drawn(question):
    return BeautifulSoup(MARKDOWN.render(question.source), "html.parser")


def choices(question):
    return drawn(question)("details")


def feedback(choice):
    return " ".join(paragraph.get_text() for paragraph in choice("p"))


def is_right(choice):
    return feedback(choice).startswith("Right.")


def asks_nothing(question):
    asked = drawn(question).p.get_text()
    return [] if asked.endswith("?") and question.id.startswith("check-") else [asked]


def wrong_numbers(question):
    found = choices(question)
    faults = [f"{len(found)} choices"] if len(found) not in (3, 4) else []
    right = sum(map(is_right, found))
    return faults if right == 1 else [*faults, f"{right} right choices"]


def repeated_answers(question):
    answers = [choice.summary.get_text() for choice in choices(question)]
    return sorted({answer for answer in answers if not answer or answers.count(answer) > 1})


def choices_unexplained(question):
    """Choices without a verdict in their first word, or with nothing to say after it."""
    found = [(feedback(choice), choice) for choice in choices(question)]
    return [
        text
        for text, choice in found
        if len(text) < 30
        or choice.strong is None
        or not text.startswith(choice.strong.get_text() + " ")
        or VERDICTS.get(choice.strong.get_text()) not in choice["class"]
    ]


def html_that_some_drop(question):
    """Tags and attributes that not every notebook program keeps; `open` would give answers away."""
    found = [tag.name for tag in drawn(question)(True) if tag.name not in KEPT]
    for choice in choices(question):
        found += [name for name in choice.attrs if name != "class"]
    return found


def markdown_undrawn(question):
    """Backticks and stars that a reader would see: Markdown where only HTML is read."""
    page = drawn(question)
    for code in page("code"):
        code.decompose()
    return re.findall(r".{0,20}[`*]", page.get_text())


def few_questions(chapter):
    number = len(questions(chapter))
    return [] if number >= 4 else [f"{number} questions"]


def one_place_for_the_right_choice(chapter):
    found = [[is_right(one) for one in choices(each)].index(True) for each in questions(chapter)]
    places = Counter(found)
    return [place for place, times in places.items() if 2 * times > len(found)]


def questions_after_the_last_section(chapter):
    summary = next(i for i, cell in enumerate(chapter.cells) if "## Summary" in cell.source)
    return [cell.id for cell in questions(chapter) if chapter.cells.index(cell) > summary]


LONG = "What the wrong idea is, and why it is one."


def choice(answer, verdict, text=LONG, kind=None, attributes=""):
    kind = kind or VERDICTS.get(verdict, "wrong")
    return (
        f'<details class="choice {kind}"{attributes}>\n<summary>{answer}</summary>\n\n'
        f"**{verdict}** {text}\n\n</details>"
    )


def question(*changed, asked="What is it?", id="check-it"):
    """A sound question, its choices replaced by those given."""
    sound = [choice("A", "No."), choice("B", "Right."), choice("C", "No.")]
    return prose(id, "\n\n".join([ASKS + asked, *changed, *sound[len(changed) :]]))


def chapter_of(*cells):
    return notebook(*cells, prose("summary", "## Summary"))


# Each rule with questions that break it, to show that the rule is one.
RULES = {
    asks_nothing: [question(asked="Think about it."), question(id="quiz")],
    wrong_numbers: [
        question(choice("A", "Right.")),
        question(choice("A", "No."), choice("B", "No.")),
        prose("check-it", ASKS + "What?\n\n" + choice("A", "Right.") + "\n\n" + choice("B", "No.")),
    ],
    repeated_answers: [question(choice("B", "No.")), question(choice("", "No."))],
    choices_unexplained: [
        question(choice("A", "No.", "It is not.")),
        question(choice("A", "Well.")),
        question(choice("A", "No.", kind="right")),
        prose("check-it", question().source.replace("**No.**", "No.")),
    ],
    html_that_some_drop: [
        question(choice("A", "No.", LONG + "<script>reveal()</script>")),
        question(choice("<input type='radio'>A", "No.")),
        question(choice("A", "No.", attributes=" open")),
        question(choice("A", "No.", attributes=' name="one"')),
    ],
    markdown_undrawn: [
        question(choice("`A`", "No.")),
        prose("check-it", question().source.replace("</summary>\n\n", "</summary>\n")),
    ],
}
CHAPTER_RULES = {
    few_questions: [chapter_of(question(), question(), question())],
    one_place_for_the_right_choice: [chapter_of(*[question()] * 4)],
    questions_after_the_last_section: [notebook(prose("summary", "## Summary"), question())],
}


@pytest.mark.parametrize("name", CHAPTERS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_questions_keep_the_rule(rule, name):
    found = {each.id: rule(each) for each in questions(read(ROOT / "notebooks" / f"{name}.ipynb"))}
    assert {id: faults for id, faults in found.items() if faults} == {}


@pytest.mark.parametrize("name", CHAPTERS)
@pytest.mark.parametrize("rule", CHAPTER_RULES, ids=lambda rule: rule.__name__)
def test_chapter_keeps_the_rule(rule, name):
    assert rule(read(ROOT / "notebooks" / f"{name}.ipynb")) == []


@pytest.mark.parametrize(
    ("rule", "broken"),
    [(rule, one) for rule, cases in (RULES | CHAPTER_RULES).items() for one in cases],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_rule_finds_what_breaks_it(rule, broken):
    assert rule(broken) != []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_sound_question_breaks_no_rule(rule):
    assert rule(question()) == []


def test_no_question_is_told_by_its_id_only():
    for name in CHAPTERS:
        chapter = read(ROOT / "notebooks" / f"{name}.ipynb")
        told = [cell.id for cell in chapter.cells if cell.id.startswith("check-")]
        assert told == [cell.id for cell in questions(chapter)]
