"""Self-check questions: what each keeps to, so that every notebook program can draw it.

A question is a text cell `check-<topic>` with a `<details class="choice right">` (or `wrong`)
for each choice: HTML in its summary and, after a blank line, Markdown that gives the reason.
Its opening says what is asked for: to choose, to compute, to order, or to find the line.
"""

import re
from collections import Counter

from bs4 import Tag
from nbformat import NotebookNode

from tools.book.cells import Broken, drawn
from tools.book.chapters import Chapter

ASKS = "**Check yourself.** "
COMPUTE = "**Check yourself: compute.** "
OPENINGS = (
    ASKS,
    COMPUTE,
    "**Check yourself: order.** ",
    "**Check yourself: find the line.** ",
)
VERDICTS = {"Right.": "right", "No.": "wrong"}
# What every notebook program's sanitizer lets pass.
ALLOWED = {*"details summary p strong em code pre ol ul li".split()}


def questions(chapter: Chapter) -> list[NotebookNode]:
    return [cell for cell in chapter.notebook.cells if cell.source.startswith(OPENINGS)]


def feedback(choice: Tag) -> str:
    return " ".join(paragraph.get_text() for paragraph in choice("p"))


def is_right(choice: Tag) -> bool:
    return feedback(choice).startswith("Right.")


def named(chapter: Chapter) -> Broken:
    for cell in chapter.notebook.cells:
        if cell.id.startswith("check-") != cell.source.startswith(OPENINGS):
            words = ", ".join(f"'{opening.strip()}'" for opening in OPENINGS)
            yield (
                cell,
                f"a question begins with one of {words}, and its cell is called check-...",
            )


def answerable(chapter: Chapter) -> Broken:
    """Different choices, one of them right, and not the longest: the ignorant would take it."""
    for cell in questions(chapter):
        found = drawn(cell)("details")
        choices = {choice.summary.get_text().strip(): choice for choice in found}
        right = [answer for answer, choice in choices.items() if is_right(choice)]
        if len(choices) < len(found) or "" in choices:
            yield cell, f"empty or equal choices: {list(choices)}; make each another"
        elif len(choices) < 3 or len(right) != 1:
            yield (
                cell,
                f"{len(choices)} choices, {len(right)} right; give three or more, one right",
            )
        elif not cell.source.startswith(COMPUTE):  # a number is as long as it is
            wrong = max(len(answer) for answer in choices if answer not in right)
            if (size := len(right[0])) > wrong:
                sizes = f"{size} characters, the others up to {wrong}"
                yield (
                    cell,
                    f"the right choice is the longest ({sizes}); say more in a wrong one",
                )


def in_changing_places(chapter: Chapter) -> Broken:
    """No place of the right choice can be learned."""
    found = questions(chapter)
    rights = [[is_right(choice) for choice in drawn(cell)("details")] for cell in found]
    places = Counter(right.index(True) for right in rights if True in right)
    for place, times in places.items():
        if len(found) > 1 and 2 * times > len(found):
            yield (
                None,
                f"choice {place + 1} is right in {times} of {len(found)} questions; vary it",
            )


def readable(chapter: Chapter) -> Broken:
    """Each choice says why, in tags and attributes that all programs show; none is `open`."""
    for cell in questions(chapter):
        page = drawn(cell)
        for choice in page("details"):
            verdict, _, why = feedback(choice).partition(" ")
            strong = choice.strong and choice.strong.get_text()
            if (
                strong != verdict
                or VERDICTS.get(verdict) not in choice["class"]
                or not why
            ):
                says = (
                    "does not say '**Right.**' or '**No.**', as its class does, and why"
                )
                yield (
                    cell,
                    f"the choice '{choice.summary.get_text()}' {says}; write both",
                )
        found = [tag.name for tag in page(True) if tag.name not in ALLOWED]
        found += [
            name
            for choice in page("details")
            for name in choice.attrs
            if name != "class"
        ]
        if found:
            yield (
                cell,
                f"some notebook programs drop or misuse: {', '.join(found)}; take it out",
            )
        for code in page("code"):
            code.decompose()
        if undrawn := re.findall(r".{0,20}[`*]", page.get_text()):
            yield (
                cell,
                f"Markdown where only HTML is read: {undrawn[0]}; write <code> or <em>",
            )


QUESTION_RULES = (named, answerable, in_changing_places, readable)
