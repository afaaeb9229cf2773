"""Self-check questions: what each keeps to, so that every notebook program can draw it.

A question is a text cell `check-<topic>` with a `<details class="choice right">` (or `wrong`)
for each choice: HTML in its summary and, after a blank line, Markdown that gives the reason.
Its opening says what is asked for: to choose, to compute, to order, or to find the line.
"""

import re
from collections import Counter

from bs4 import BeautifulSoup, Tag
from nbformat import NotebookNode

from tools.book.cells import cell_html
from tools.book.chapters import Chapter, Fault, Faults
from tools.book.grammar import SELF_CHECK

CHOOSE = "**Check yourself.** "
COMPUTE = "**Check yourself: compute.** "
ORDER = "**Check yourself: order.** "
FIND_THE_LINE = "**Check yourself: find the line.** "
OPENINGS = (CHOOSE, COMPUTE, ORDER, FIND_THE_LINE)

VERDICTS = {"Right.": "right", "No.": "wrong"}
# What every notebook program's sanitizer lets pass.
ALLOWED_TAGS = set("details summary p strong em code pre ol ul li".split())


def questions(chapter: Chapter) -> list[NotebookNode]:
    return [cell for cell in chapter.notebook.cells if cell.source.startswith(OPENINGS)]


def feedback(choice: Tag) -> str:
    """Return the verdict and the reason that a choice unfolds."""
    return " ".join(paragraph.get_text() for paragraph in choice("p"))


def is_right(choice: Tag) -> bool:
    return feedback(choice).startswith("Right.")


def named(chapter: Chapter) -> Faults:
    """A cell is called `check-...` if and only if it is a question."""
    for cell in chapter.notebook.cells:
        if cell.id.startswith(SELF_CHECK) != cell.source.startswith(OPENINGS):
            openings = ", ".join(f"'{opening.strip()}'" for opening in OPENINGS)
            name = f"its cell is called {SELF_CHECK}..."
            yield Fault(cell, f"a question begins with one of {openings}, and {name}")


def answerable(chapter: Chapter) -> Faults:
    """The choices differ, and one is right: not the longest, which a guess would take."""
    for cell in questions(chapter):
        answers = []
        right = []
        for choice in cell_html(cell)("details"):
            answer = choice.summary.get_text().strip()
            answers.append(answer)
            if is_right(choice):
                right.append(answer)

        if "" in answers or len(set(answers)) < len(answers):
            yield Fault(
                cell,
                f"empty or equal choices: {answers}",
                "let each say something else",
            )
        elif len(answers) < 3 or len(right) != 1:
            yield Fault(
                cell,
                f"{len(answers)} choices, {len(right)} right",
                "give three or more, one right",
            )
        elif not cell.source.startswith(COMPUTE):  # a number is as long as it is
            *_, second, longest = sorted(answers, key=len)
            size = len(longest)
            others = len(second)
            if longest == right[0] and others < size:
                sizes = f"{size} characters, the others up to {others}"
                yield Fault(
                    cell,
                    f"the right choice is the longest ({sizes})",
                    "say more in a wrong one",
                )


def in_changing_places(chapter: Chapter) -> Faults:
    """The right choice does not stand in the same place in most questions."""
    counts: Counter[int] = Counter()  # of questions, by the number of the right choice
    total = 0
    for cell in questions(chapter):
        total += 1
        for number, choice in enumerate(cell_html(cell)("details"), start=1):
            if is_right(choice):
                counts[number] += 1
                break
    if total < 2:
        return
    for number, count in counts.items():
        if 2 * count > total:
            words = f"choice {number} is right in {count} of {total} questions"
            yield Fault(None, words, "vary it")


def readable(chapter: Chapter) -> Faults:
    """Each choice says why, in tags and attributes that all programs show; none is `open`."""
    for cell in questions(chapter):
        html = cell_html(cell)
        for choice in html("details"):
            if not _gives_a_reason(choice):
                name = f"the choice '{choice.summary.get_text()}'"
                lacks = "does not say '**Right.**' or '**No.**', as its class does"
                yield Fault(cell, f"{name} {lacks}, and why", "write both")
        if dropped := _dropped_by_programs(html):
            words = f"some notebook programs drop or misuse: {', '.join(dropped)}"
            yield Fault(cell, words, "take it out")

        for code in html("code"):
            code.decompose()
        if undrawn := re.search(r".{0,20}[`*]", html.get_text()):
            words = f"Markdown where only HTML is read: {undrawn[0]}"
            yield Fault(cell, words, "write <code> or <em>")


def _gives_a_reason(choice: Tag) -> bool:
    verdict, _, reason = feedback(choice).partition(" ")
    if not reason or VERDICTS.get(verdict) not in choice["class"]:
        return False
    return choice.strong is not None and choice.strong.get_text() == verdict


def _dropped_by_programs(html: BeautifulSoup) -> list[str]:
    """Return the names of tags and attributes that not every notebook program shows."""
    names = [tag.name for tag in html(True) if tag.name not in ALLOWED_TAGS]
    for choice in html("details"):
        names += [name for name in choice.attrs if name != "class"]
    return names


QUESTION_RULES = (named, answerable, in_changing_places, readable)
