"""What every chapter keeps to. A broken rule is one line: the cell, what is wrong, what to do."""

import re
from collections.abc import Iterator

from nbformat import NotebookNode

from tools.book.book import Book
from tools.book.cells import has_assert, syntax_tree
from tools.book.chapters import Chapter, Fault, Faults
from tools.book.figures import link_figures
from tools.book.frameworks import disagreements, open_sections
from tools.book.grammar import (
    ABOUT,
    CHECKS,
    HIDDEN_CODE,
    NOT_COMPARED,
    SCRIPT_CELL,
    SETUP,
    TIMES,
    TITLE,
    Kind,
)
from tools.book.notebooks import tags
from tools.book.recordings import Recording
from tools.errors import BookError
from tools.rules.budgets import within_budget
from tools.rules.predictions import PREDICTION_RULES
from tools.rules.questions import QUESTION_RULES
from tools.rules.reference import shown_outcomes, shown_symptoms, whole_symptoms
from tools.rules.sight import SIGHT_RULES, code_in_sight, pages_that_are_there

OPENING = ("**What you will do.**", "**What you will learn.**", "**What you need.**")
OURS = re.compile(
    r"^\s*(?:from|import) (book|tools|kernels|tests|helpers)\b", re.MULTILINE
)
LINES, WIDTH = 12, 76  # of a cell of code


def broken_rules(chapter: Chapter, book: Book) -> list[str]:
    """Return a line for each place where a chapter, or what it printed, breaks a rule."""
    places = {}
    for number, cell in enumerate(chapter.notebook.cells):
        places[cell.id] = f": cell {number} ('{cell.id}')"

    lines = []
    for fault in _faults(chapter, book):
        place = places[fault.cell.id] if fault.cell else ""
        lines.append(f"{chapter.where}{place}: {fault}")
    return lines


def _faults(chapter: Chapter, book: Book) -> Iterator[Fault]:
    yield from faults_of_code(chapter)
    for rule in SIGHT_RULES:
        yield from rule(chapter)
    for rule in RULES_OF_TEXT[chapter.kind]:
        yield from rule(chapter)
    if chapter.kind == Kind.LESSON:
        yield from code_in_sight(chapter, book)

    recordings = book.recordings_of(chapter.name)
    yield from times_without_tag(chapter, recordings)
    for rule in RULES_OF_OUTPUT[chapter.kind]:
        yield from rule(chapter, recordings)

    yield from pages_that_are_there(chapter, book)
    yield from stale_figures(chapter, book)
    first, *others = book.chapters_on(chapter.page_name)
    if others:
        yield from disagreements(chapter, first)
        yield from open_sections(chapter)


def faults_of_code(chapter: Chapter) -> Faults:
    """A cell of code is short, runs for every reader, and is compared or asserts."""
    for cell in chapter.code_cells:
        if not {CHECKS, HIDDEN_CODE, SETUP} & set(tags(cell)):
            yield from _faults_of_size(cell)
        ignored = NOT_COMPARED in tags(cell) or "NBVAL_IGNORE_OUTPUT" in cell.source
        if ignored and not has_assert(syntax_tree(chapter, cell)):
            yield Fault(
                cell, "its output is not compared", "assert in it what must hold"
            )
        if match := OURS.search(cell.source):
            yield Fault(cell, f"imports '{match[1]}', which no reader can install")
        # Code does not know whether its clock is a real one.
        if re.search(r"\bmeasured:? +[{\d]", cell.source):
            yield Fault(
                cell,
                "prints 'measured' before a time that may be modelled",
                f"print '{ABOUT}'",
            )


def _faults_of_size(cell: NotebookNode) -> Faults:
    lines = cell.source.splitlines()
    if cell.source.startswith(TITLE):
        del lines[0]
    if len(lines) > LINES and cell.id != SCRIPT_CELL:
        yield Fault(cell, f"{len(lines)} lines, {LINES} at most", "split it")
    for line in lines:
        if len(line) > WIDTH:
            words = f"a line of {len(line)} characters, {WIDTH} at most"
            yield Fault(cell, f"{words}: {line[:30]}...")


def opening(chapter: Chapter) -> Faults:
    """A chapter opens with its title, and with what to do, to learn and to have."""
    first = chapter.notebook.cells[0]
    starts = [first.source.find(words) for words in OPENING]
    if not first.source.startswith("# ") or -1 in starts or starts != sorted(starts):
        words = f"opens without a title and {', '.join(OPENING)}, in this order"
        yield Fault(first, words)


def stale_figures(chapter: Chapter, book: Book) -> Faults:
    """Every figure is in `img/`, and the chapter carries it as it is there."""
    for cell in chapter.notebook.cells:
        try:
            link_figures(cell.source, chapter.where, book.root)
        except BookError as error:
            yield Fault(cell, str(error).removeprefix(f"{chapter.where}: "))


def times_without_tag(chapter: Chapter, recordings: list[Recording]) -> Faults:
    """The cells that have shown times, and no others, have the tag that says so.

    A time of a modelled clock says that it is modelled.
    """
    for cell in chapter.code_cells:
        tagged = TIMES in tags(cell)
        recorded = False
        shows_times = False
        claims_a_clock = False  # a modelled time that does not say so
        for recording in recordings:
            if cell.id not in recording.current_cells:
                continue
            recorded = True
            outputs = str(recording.current_cells[cell.id].outputs)
            if ABOUT in outputs:
                shows_times = True
                is_modelled = recording.runner.has_modelled_clock
                if is_modelled and "modelled" not in outputs:
                    claims_a_clock = True

        if shows_times and not tagged:
            yield Fault(cell, f"shows '{ABOUT}' without the tag '{TIMES}'", "add it")
        if recorded and tagged and not shows_times:
            yield Fault(
                cell,
                f"has the tag '{TIMES}' and shows no '{ABOUT}'",
                "print it before each time",
            )
        if claims_a_clock:
            yield Fault(
                cell,
                f"shows '{ABOUT}' and 'modelled' nowhere, where times are",
                "print it, too",
            )


# By the kind of a chapter: what its text keeps to, and what it has printed.
RULES_OF_TEXT = {
    Kind.LESSON: (
        opening,
        within_budget,
        *PREDICTION_RULES,
        *QUESTION_RULES,
    ),
    Kind.SYMPTOMS: (whole_symptoms,),
    Kind.PUZZLES: (opening,),
    Kind.OUTCOMES: (),
}
RULES_OF_OUTPUT = {
    Kind.LESSON: (),
    Kind.SYMPTOMS: (shown_symptoms,),
    Kind.PUZZLES: (),
    Kind.OUTCOMES: (shown_outcomes,),
}
