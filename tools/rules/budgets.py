"""A chapter takes as long as it says, and no longer than its budget in `budgets.yml`."""

from tools.book.chapters import MAIN, Chapter, Fault, Faults
from tools.book.grammar import HOW_LONG
from tools.book.length import length
from tools.files import read_beside

BUDGETS = read_beside(__file__, "budgets.yml")


def within_budget(chapter: Chapter) -> Faults:
    if chapter.framework != MAIN:
        return  # it says what that in the main framework says
    title = chapter.notebook.cells[0]
    budget = BUDGETS.get(chapter.name)
    if not budget and "**How long.**" not in title.source:
        return  # of puzzles and symptoms each reader takes a few

    actual = length(chapter)
    if HOW_LONG.findall(title.source) != [str(actual.minutes)]:
        sentence = f"**How long.** {actual.minutes} minutes, plus ..."
        yield Fault(title, "says another time", f"write '{sentence}'")

    for name, most in (budget or {}).items():
        number = getattr(actual, name)
        if number <= most:
            continue
        if name == "minutes":
            excess = f"takes {number} minutes, {most} at most"
        else:
            excess = f"{number:,} {name} on its path, {most:,} at most"
        yield Fault(None, excess, "cut, or fold as Deeper")
