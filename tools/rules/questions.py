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
COMPUTE, ORDER, FIND = (
    f"**Check yourself: {kind}.** " for kind in ("compute", "order", "find the line")
)
OPENINGS = (ASKS, COMPUTE, ORDER, FIND)
LINKING = {"then", "and", "first", "last", "finally"}  # words that say nothing of a step
VERDICTS = {"Right.": "right", "No.": "wrong"}
ALLOWED = {
    "details",
    "summary",
    "p",
    "strong",
    "em",
    "code",
    "pre",
    "ol",
    "ul",
    "li",
}  # by every program's sanitizer
LEAST, LEAST_REASON = 4, 30  # questions a chapter, characters a reason


def questions(chapter: Chapter) -> list[NotebookNode]:
    """The cells that hold a question."""
    return [cell for cell in chapter.notebook.cells if cell.source.startswith(OPENINGS)]


def feedback(choice: Tag) -> str:
    """What a choice says when it is opened."""
    return " ".join(paragraph.get_text() for paragraph in choice("p"))


def is_right(choice: Tag) -> bool:
    """True for the right choice."""
    return feedback(choice).startswith("Right.")


def asks(chapter: Chapter) -> Broken:
    """A question ends in a question mark, and its cell is called `check-...`."""
    for cell in questions(chapter):
        if not drawn(cell).p.get_text().endswith("?"):
            yield cell, "its first paragraph asks nothing; end it with a question mark"
    for cell in chapter.notebook.cells:
        if cell.id.startswith("check-") != cell.source.startswith(OPENINGS):
            words = ", ".join(f"'{opening.strip()}'" for opening in OPENINGS)
            yield cell, f"a question begins with one of {words}, and its cell is called check-..."


def numbers(chapter: Chapter) -> Broken:
    """Three or four different choices, one of them right."""
    for cell in questions(chapter):
        found = drawn(cell)("details")
        right = sum(map(is_right, found))
        if len(found) not in (3, 4) or right != 1:
            yield cell, f"{len(found)} choices, {right} of them right; give 3 or 4, one right"
        answers = [choice.summary.get_text() for choice in found]
        if "" in answers or len(set(answers)) < len(answers):
            yield cell, f"empty or equal choices: {answers}"


def reasons(chapter: Chapter) -> Broken:
    """Every choice says in its first word whether it is right, then why."""
    for cell in questions(chapter):
        for choice in drawn(cell)("details"):
            text, verdict = feedback(choice), choice.strong and choice.strong.get_text()
            if (
                len(text) < LEAST_REASON
                or verdict is None
                or not text.startswith(verdict + " ")
                or VERDICTS.get(verdict) not in choice["class"]
            ):
                yield (
                    cell,
                    f"the choice '{choice.summary.get_text()}' does not say "
                    "'**Right.**' or '**No.**', as its class does, and why",
                )


def plain_html(chapter: Chapter) -> Broken:
    """Only tags and attributes that every notebook program shows; `open` gives answers away."""
    for cell in questions(chapter):
        page = drawn(cell)
        found = [tag.name for tag in page(True) if tag.name not in ALLOWED]
        found += [name for choice in page("details") for name in choice.attrs if name != "class"]
        if found:
            yield cell, f"some notebook programs drop or misuse: {', '.join(found)}"
        for code in page("code"):
            code.decompose()
        if undrawn := re.findall(r".{0,20}[`*]", page.get_text()):
            yield cell, f"Markdown where only HTML is read: {undrawn[0]}"


def kinds(chapter: Chapter) -> Broken:
    """Some ask for more than a choice; what they ask for is what their choices are."""
    found = questions(chapter)
    if found and all(cell.source.startswith(ASKS) for cell in found):
        yield None, f"every question only asks to choose; begin one with '{COMPUTE.strip()}'"
    for cell in found:
        page = drawn(cell)
        answers = [choice.summary.get_text().strip() for choice in page("details")]
        if cell.source.startswith(COMPUTE):
            for answer in answers:
                if not re.search(r"\d", answer):
                    yield cell, f"the choice '{answer}' is no number, and one is to be computed"
        if cell.source.startswith(ORDER):
            steps = [set(words_of(answer)) for answer in answers]
            if steps and not all(each <= max(steps, key=len) for each in steps):
                yield cell, "its choices are not orders of the same steps; name them alike"
        if cell.source.startswith(FIND):
            program = "\n".join(block.get_text() for block in page.select("pre"))
            lines = [line.strip() for line in program.splitlines()]
            for choice, answer in zip(page("details"), answers, strict=True):
                code = "".join(each.get_text() for each in choice.summary("code"))
                if not names_line(answer, lines) if lines else code != answer:
                    yield (
                        cell,
                        f"the choice '{answer}' is no line of its program; quote one whole, in "
                        "<code>, or write 'line 2'",
                    )


def words_of(answer: str) -> list[str]:
    """The words of a choice that name steps."""
    return [word for word in re.findall(r"[\w.()]+", answer.casefold()) if word not in LINKING]


def names_line(answer: str, lines: list[str]) -> bool:
    """True if a choice is one of the lines, with its comment or without, or says its number."""
    if match := re.match(r"line (\d+)\b", answer, re.I):
        return 1 <= int(match[1]) <= len(lines)
    return answer in {*lines, *(line.partition("  #")[0].rstrip() for line in lines)}


def lengths(chapter: Chapter) -> Broken:
    """The right choice is not the longest: whoever knows nothing would take it."""
    for cell in questions(chapter):
        if cell.source.startswith(COMPUTE):  # a number is as long as it is
            continue
        length = {True: 0, False: 0}
        for choice in drawn(cell)("details"):
            long = len(choice.summary.get_text().strip())
            length[is_right(choice)] = max(length[is_right(choice)], long)
        if length[True] > length[False]:
            yield (
                cell,
                f"the right choice is the longest ({length[True]} characters, the others up to "
                f"{length[False]}); shorten it, or give a wrong one as much to say",
            )


def spread(chapter: Chapter) -> Broken:
    """Enough questions, before the summary, with the right choice in changing places."""
    found = questions(chapter)
    if len(found) < LEAST:
        yield None, f"{len(found)} questions, at least {LEAST}"
    rights = [[is_right(one) for one in drawn(each)("details")] for each in found]
    places = Counter(right.index(True) for right in rights if True in right)
    for place, times in places.items():
        if len(found) > 1 and 2 * times > len(found):
            yield None, f"choice {place + 1} is right in {times} of {len(found)} questions; vary it"
    cells = chapter.notebook.cells
    end = next((i for i, cell in enumerate(cells) if "## Summary" in cell.source), len(cells))
    for cell in cells[end:]:
        if cell in found:
            yield cell, "a question after the summary; ask it where its subject is"


QUESTION_RULES = (asks, numbers, reasons, plain_html, kinds, lengths, spread)
