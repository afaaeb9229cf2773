"""What every chapter keeps to. A broken rule is one line: the cell, what is wrong, what to do."""

import re
from itertools import chain

from tools.book.book import Book
from tools.book.cells import Broken
from tools.book.chapters import ABOUT, TIMES, Chapter
from tools.book.code import has_assert, syntax_tree
from tools.book.figures import broken_figures
from tools.book.notebooks import tags
from tools.book.recordings import Recording
from tools.rules.frameworks import open_sections, unlike
from tools.rules.length import within_budget
from tools.rules.outcomes import shown_outcomes
from tools.rules.predictions import PREDICTION_RULES
from tools.rules.questions import QUESTION_RULES
from tools.rules.symptoms import shown_symptoms, whole_symptoms

OPENING = ("**What you will do.**", "**What you will learn.**", "**What you need.**")
OURS = re.compile(r"^\s*(?:from|import) (book|tools|kernels|tests|helpers)\b", re.M)
LINES, WIDTH = 12, 76


def broken_rules(chapter: Chapter, book: Book) -> list[str]:
    """A line for each place where a chapter, or what it printed, breaks a rule, by rule."""
    cells = enumerate(chapter.notebook.cells)
    places = {cell.id: f": cell {number} ('{cell.id}')" for number, cell in cells}
    recordings, (first, *others) = (
        book.recordings_of(chapter),
        book.editions(chapter.page),
    )
    found = [rule(chapter) for rule in (faults_of_code, *RULES[chapter.kind])]
    found += [
        rule(chapter, recordings) for rule in (times_without_tag, *SHOWN[chapter.kind])
    ]
    found += [broken_figures(chapter, book.root)]
    if others:
        found += [unlike(chapter, first), open_sections(chapter)]
    broken = ((places[cell.id] if cell else "", fault) for cell, fault in chain(*found))
    return [f"{chapter.where}{place}: {fault}" for place, fault in broken]


def faults_of_code(chapter: Chapter) -> Broken:
    for cell in chapter.code_cells:
        lines = [] if "hide-input" in tags(cell) else cell.source.splitlines()
        if len(lines) > LINES:
            yield cell, f"{len(lines)} lines, {LINES} at most; split it"
        for line in (line for line in lines if len(line) > WIDTH):
            yield (
                cell,
                f"a line of {len(line)} characters, {WIDTH} at most: {line[:30]}...",
            )
        ignored = (
            "nbval-ignore-output" in tags(cell) or "NBVAL_IGNORE_OUTPUT" in cell.source
        )
        if ignored and not has_assert(syntax_tree(chapter, cell)):
            yield cell, "its output is not compared; assert in it what must hold"
        if match := OURS.search(cell.source):
            yield cell, f"imports '{match[1]}', which no reader can install"
        # Code does not know whether its clock is a real one.
        if re.search(r"\bmeasured:? +[{\d]", cell.source):
            yield (
                cell,
                f"prints 'measured' before a time that may be modelled; print '{ABOUT}'",
            )


def opening(chapter: Chapter) -> Broken:
    first = chapter.notebook.cells[0]
    places = [first.source.find(words) for words in OPENING]
    if not first.source.startswith("# ") or -1 in places or places != sorted(places):
        yield first, f"opens without a title and {', '.join(OPENING)}, in this order"


def times_without_tag(chapter: Chapter, recordings: list[Recording]) -> Broken:
    """The cells that have shown times, as they are now, have the tag that says so, and no others
    do; and a time of a modelled clock says that it is modelled."""
    for cell in chapter.code_cells:
        recorded = [made for made in recordings if cell.id in made.cells]
        shown = [
            (made.runner.times, str(made.cells[cell.id].outputs)) for made in recorded
        ]
        shows, tagged = (
            any(ABOUT in outputs for _, outputs in shown),
            TIMES in tags(cell),
        )
        if shows and not tagged:
            yield cell, f"shows '{ABOUT}' without the tag '{TIMES}'; add it"
        if recorded and tagged and not shows:
            yield (
                cell,
                f"has the tag '{TIMES}' and shows no '{ABOUT}'; print it before each time",
            )
        if any(
            times and ABOUT in said and "modelled" not in said for times, said in shown
        ):
            yield (
                cell,
                f"shows '{ABOUT}' and 'modelled' nowhere, where times are; print it, too",
            )


LESSON = opening, within_budget, *PREDICTION_RULES, *QUESTION_RULES
# By the kind of a chapter: what holds of its text, and of what it has printed.
RULES = {
    "lesson": LESSON,
    "symptoms": [whole_symptoms],
    "puzzles": [opening],
    "outcomes": [],
}
SHOWN = {
    "symptoms": [shown_symptoms],
    "outcomes": [shown_outcomes],
    "lesson": [],
    "puzzles": [],
}
