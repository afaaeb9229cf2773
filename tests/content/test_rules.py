"""Each rule of the chapters finds what breaks it, and names the file, the cell and what to do.

That the chapters of this book keep the rules is a stage of `make test`.
"""

import shutil

import pytest
from helpers import ROOT, code, prose, run_tool, write
from making import display, keep, make_book, text

from tools.book.book import Book
from tools.book.chapters import FOLDED
from tools.book.grammar import framed_answer
from tools.rules.budgets import BUDGETS
from tools.rules.questions import CHOOSE, COMPUTE
from tools.rules.rules import OPENING, broken_rules
from tools.rules.sight import EXCEPTIONS

TITLE = prose("title", "\n\n".join(["# First", *OPENING]))


# Questions with choices.


def fold(kind, summary, text):
    return f'<details class="{kind}">\n<summary>{summary}</summary>\n\n{text}\n\n</details>'


def choice(answer, verdict="No."):
    kind = "right" if verdict == "Right." else "wrong"
    return fold(f"choice {kind}", answer, f"**{verdict}** And this is why.")


A = choice("A")
B = choice("B", "Right.")
C = choice("C")


def question(*choices, opening=CHOOSE, id="check-it"):
    return prose(id, "\n\n".join([f"{opening}What is it?", *choices]))


def altered(old, new):
    """Return a sound question, less one thing."""
    return prose("check-it", question(A, B, C).source.replace(old, new))


# Predictions, each a question, the cell that answers it and the answer in words.


def prediction(text, id="predict-it"):
    return prose(id, f"**Predict.** Where?\n\n{text}")


def answering(source, id="shown-it"):
    return code(id, source, ["predicted"])


QUESTION = prediction("- on the CPU\n- on the GPU")
ANSWER = answering("X.device")
PLAIN_REASON = prose("answer-it", "**The second.** It was made there.")
REASON = prose("answer-it", framed_answer(PLAIN_REASON.source))
OTHER_ANSWER = prose("answer-it", framed_answer("**The third.** So."))
OPEN_QUESTION = prose("predict-it", "**Predict.** Why?")


def folded(id, source, *tags, title="# @title Checks\n"):
    """Return a cell that is folded in every program."""
    cell = code(id, title + source, tags)
    cell.metadata |= FOLDED
    return cell


# What a rule says, and the cells that break it: the line names the last of them.
BROKEN = [
    ("13 lines, 12 at most; split it", code("a", "x = 1\n" * 13)),
    ("86 characters, 76 at most", code("a", "x" * 86)),
    ("assert in it", code("a", "x # assert", tags=["nbval-ignore-output"])),
    ("no reader can install", code("a", "%time pass\nfrom tools.book import book")),
    ("print '≈'", code("a", "f'done: measured {done:.6f} s'")),
    ("folded without a title", folded("a", "assert X", "checks", title="")),
    ("'# @title Checks'", folded("a", "assert X", "checks", title="# @title So\n")),
    ("folded on the page alone", code("a", "# @title Checks\nassert X", ["checks"])),
    ("checks nothing", folded("a", "X.device", "checks")),
    ("keep one", folded("a", "assert X", "checks", "hide-cell")),
    ("begin with '# @title Helper code'", folded("a", "x", "hide-input", title="")),
    ("'../book/glossary.md#gpu' is dead", prose("a", "[A](../book/glossary.md#gpu)")),
    ("its link to '#more' is dead", prose("a", "See [below](#more).")),
]
BROKEN_QUESTIONS = [
    ("called check-...", question(A, B, C, id="quiz")),
    ("begins with one of", prose("check-it", "Something else.")),
    ("2 choices, 1 right", question(A, B)),
    ("equal choices", question(A, B, A)),
    ("is the longest", question(A, choice("By far", "Right."), C)),
    ("does not say", question(A, B, choice("C", "Well."))),
    ("and why", altered(" And this is why.", "")),
    ("misuse: script", question(choice("A<script>reveal()</script>"), B, C)),
    ("misuse: open", altered('wrong"', 'wrong" open')),
    ("Markdown where only HTML", altered("</summary>\n\n", "</summary>\n")),
]
BROKEN_PREDICTIONS = [
    ("called predict-", prediction("- a\n- b", id="where")),
    ("cell predict-... of its own", prose("so", "So.\n\n**Predict.** Where?")),
    ("one paragraph", prediction("1. here\n2. there")),
    ("equal choices", prediction("- here\n- here")),
    ("in bold", prediction("- **here**\n- there")),
    ("does not answer it", QUESTION),
    ("no answer; write it", QUESTION),
    ("no prediction above", ANSWER),
    ("no prediction above", QUESTION, ANSWER, REASON, answering("X", id="more")),
    ("asserts what was", QUESTION, answering("assert X.is_cpu\nX.device")),
    ("a comment may give", QUESTION, answering("X.device  # cpu")),
    ("shows nothing", QUESTION, answering("place = X.device")),
    ("in plain sight", QUESTION, ANSWER, PLAIN_REASON),
    ("names none of the 2", QUESTION, ANSWER, OTHER_ANSWER),
    ("begin with the reason", OPEN_QUESTION, ANSWER, REASON),
]
SOUND = (
    code("measured", "measured = {1: 2}"),
    QUESTION,
    ANSWER,
    REASON,
    prose("predict-that", "**Predict.** How many?"),
    answering("X is Y", id="that"),
    prose("answer-that", framed_answer("One, as no copy was made.")),
    folded("that-holds", "assert X is Y", "checks"),
    prose(
        "away", "A [page](https://a.b/c.html), `[code](x.md)`, ![f](data:image/png)."
    ),
    question(A, B, C, id="check-one"),
    question(B, A, C, id="check-two"),
    question(choice("4"), A, choice("9", "Right."), opening=COMPUTE, id="check-three"),
)


def faults(root, *cells, opening=TITLE, printed=None, **metadata):
    """Return the rules that a chapter breaks, with what its cells have printed, if anything."""
    write(root, "first", opening, *cells, code("last", "1"), **metadata)
    for recorded in (root / "outputs").glob("*/first.ipynb"):
        recorded.unlink()
    if printed:
        keep(root, "first", "cpu", printed)
    book = Book(root)
    chapter = book.chapters["first"]
    return broken_rules(chapter, book)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return make_book(tmp_path_factory.mktemp("rules") / "book")


ALL_BROKEN = BROKEN + BROKEN_QUESTIONS + BROKEN_PREDICTIONS


@pytest.mark.parametrize("broken", ALL_BROKEN, ids=lambda row: row[0])
def test_a_rule_names_the_cell_that_breaks_it(root, broken):
    words, *cells = broken
    place = f"notebooks/first.ipynb: cell {len(cells)} ('{cells[-1].id}'): "
    lines = faults(root, *cells)
    of_cell = [line for line in lines if line.startswith(place)]
    assert words in "\n".join(of_cell), lines


def test_a_sound_chapter_breaks_no_rule(root):
    assert faults(root, *SOUND) == []


def test_a_chapter_opens_with_a_title(root):
    opening = prose("title", "# T\n\n**What you need.**")
    [line] = faults(root, *SOUND, opening=opening)
    assert "opens without a title and **What you will do.**" in line


def test_the_right_choice_is_not_always_the_same(root):
    same = [question(A, B, C, id=f"check-{n}") for n in range(3)]
    [line] = faults(root, *same)
    expected = "choice 2 is right in 3 of 3 questions; vary it"
    assert line == f"notebooks/first.ipynb: {expected}"


ABOVE = prose("above", "## Here\n\nA CPU has memory, of 8 GB; a GPU has its own.")


def test_an_answer_follows_what_was_printed(root):
    check = folded("held", "assert X", "checks")
    assert faults(root, ABOVE, QUESTION, ANSWER, check, REASON) == []


def test_an_open_prediction_needs_an_answer_too(root):
    answered = QUESTION, ANSWER, REASON
    why = prose("predict-more", "**Predict.** Why?"), answering("2", id="more")
    [line] = faults(root, *answered, *why)
    advice = "no answer; write it below what it printed, in a text cell answer-..."
    assert line.endswith(advice)


def test_no_answer_is_given_away_above_its_prediction(root):
    cells = prediction("- 4 GB of it\n- 8 GB of it"), ANSWER, REASON
    [line] = faults(root, ABOVE, *cells)
    reason = "'above' above it gives the answer away: 8; say it below"
    assert line.endswith(f"('predict-it'): {reason}")
    # In another section it may stand.
    assert faults(root, ABOVE, prose("other", "## Another section"), *cells) == []


def faults_of_length(root, minutes, *cells):
    """Return the rules that a chapter breaks that says how many minutes it takes."""
    how_long = f"**How long.** {minutes} minutes, plus the exercises."
    title = TITLE.source.replace("# First", f"# First\n\n{how_long}")
    return faults(root, *cells, opening=prose("title", title))


def test_a_chapter_is_as_long_as_it_says(root):
    deeper = prose("deep", "## Deeper: more\n\n" + "word " * 999)
    assert faults_of_length(root, 1, deeper) == []
    [line] = faults_of_length(root, 1, prose("on", "word " * 400))
    assert line.endswith("says another time; write '**How long.** 3 minutes, plus ...'")


def test_a_chapter_keeps_to_its_budget(root, monkeypatch):
    monkeypatch.setitem(BUDGETS, "first", {"words": 10, "minutes": 2})
    *_, words, minutes = faults_of_length(root, 3, prose("on", "word " * 400))
    assert "words on its path, 10 at most" in words
    assert "takes 3 minutes, 2 at most" in minutes


def test_an_address_of_the_site_names_a_page(root):
    shutil.copy(ROOT / "_config.yml", root)
    site = Book(root).repository.site
    sound = prose("sound", f"[There]({site}notebooks/second.html#x), [here]({site}).")
    [line] = faults(root, sound, prose("wrong", f"[There]({site}book/hardwear.html)"))
    (root / "_config.yml").unlink()
    assert "('wrong'): links to 'book/hardwear', which is no page of the site" in line


HELPER = folded("help", "x = 1\n" * 5, "hide-input", title="# @title Helper code\n")
SHOWN = code("shown", "x = 1\n" * 5)


def test_most_of_the_code_is_in_sight(root, monkeypatch):
    checks = folded("holds", "assert x\n" * 9, "checks")
    [line] = faults(root, SHOWN, HELPER, checks)
    # Of eleven lines, the last cell's too.
    assert ": 54 % of its lines of code are in sight, 85 at least; " in line
    monkeypatch.setitem(EXCEPTIONS, "first", 54)
    assert faults(root, SHOWN, HELPER, checks) == []
    [line] = faults(root, SHOWN, checks)
    assert line.endswith("in sight; take it out of tools/rules/sight.yml")


def test_a_folded_repeat_of_what_an_earlier_chapter_showed_is_left_out(small_book):
    first = code("first", "import math\n\ndef half(x):\n    return x / 2  # as shown")
    write(small_book, "first", TITLE, first, code("last", "half(1)"))
    known = "import math\n\n\ndef half(x):\n    return x / 2\n"
    repeat = folded("again", known, "hide-cell", title="# @title Again\n")
    more = folded("more", known + "y = 1", "hide-cell", title="# @title More\n")
    for cell, in_sight in (repeat, True), (more, False):
        write(small_book, "second", TITLE, cell, code("last", "half(2)"))
        book = Book(small_book)
        lines = broken_rules(book.chapters["second"], book)
        assert any("lines of code are in sight" in line for line in lines) != in_sight
    # Nothing is left out of the chapter that comes first.
    write(small_book, "first", TITLE, repeat, code("last", "half(1)"))
    book = Book(small_book)
    [line] = broken_rules(book.chapters["first"], book)
    assert ": 25 % of its lines of code are in sight" in line


TIME, NO_TIME = text("≈ 8.1 ms\n"), text("8.1 ms\n")
DRAWN_TIME = display("<svg><!-- time ≈ --></svg>", "image/svg+xml")


@pytest.mark.parametrize(("tags", "printed"), [(["times"], TIME), ([], NO_TIME)])
def test_a_cell_with_times_has_their_tag(root, tags, printed):
    cell = code("show", "print(x)", tags)
    assert faults(root, cell, printed={"show": [printed]}) == []


@pytest.mark.parametrize(
    ("tags", "printed", "fault"),
    [
        ([], DRAWN_TIME, "without the tag 'times'"),
        (["times"], NO_TIME, "has the tag 'times' and shows no '≈'"),
    ],
)
def test_times_without_their_tag_or_a_tag_without_times(root, tags, printed, fault):
    cell = code("show", "print(x)", tags)
    [line] = faults(root, cell, printed={"show": [printed]})
    assert fault in line
    # Of a cell that was never executed it is not known what it prints.
    assert faults(root, cell) == []


def test_the_command_says_a_line_for_each_broken_rule(small_book):
    write(small_book, "first", prose("title", "# First"), code("long", "x = 1\n" * 13))
    run = run_tool(small_book, "rules")
    assert run.returncode == 1
    fault = "cell 1 ('long'): 13 lines, 12 at most; split it"
    assert f"notebooks/first.ipynb: {fault}\n" in run.stderr


# Chapters of symptoms: a heading, a cell that shows it, the cause, and a cell with the fix.

CAUSE = "**Cause.** It is.\n\n**Fix.** Move it. Read on: [There](https://a.b/#there)."
ERROR = "Traceback (most recent call last):\nRuntimeError: No way\n"
OTHER = "RuntimeError: Other\n"
SYMPTOM = {
    "group": prose("group", "## There"),
    "title": prose("one", "### `No way`"),
    "shown": code("one-shown", "1"),
    "cause": prose("one-cause", CAUSE),
    "cured": code("one-cured", "2"),
}
QUOTE = "**Quoted** from [it](https://a.b).\n\n```text\nE: No way\n```"
# One that is quoted, because it cannot be shown.
QUOTED = {
    "shown": prose("one-shown", QUOTE),
    "cured": prose("one-cured", "`way()`"),
}
NEVER_READ_ON = prose("one-cause", CAUSE.partition(" Read")[0])


def symptom_faults(root, shows=ERROR, cures="2\n", **changes):
    """Return the rules that a symptom breaks, with other cells, or without one, by None.

    `shows` and `cures` are what its two cells of code have printed.
    """
    cells = [cell for cell in (SYMPTOM | changes).values() if cell]
    printed = {"one-shown": [text(shows)], "one-cured": [text(cures)]}
    return faults(root, *cells, printed=printed, kind="symptoms")


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("more than a heading", {"title": prose("one", "### `No way`\n\nIt fails.")}),
        ("not followed by", {"cured": None}),
        ("is not '**Quoted**", QUOTED | {"title": prose("one", "### `Another`")}),
        ("is not '**Cause.**", {"cause": NEVER_READ_ON}),
        ("another symptom", {"more": prose("more", "### `No way`")}),
        ("does not print the heading's words", {"shows": OTHER}),
        ("stand in the heading as code", {"shows": "No way\n"}),
        ("prints an error", {"cures": ERROR}),
        ("prints nothing", {"cures": ""}),
    ],
)
def test_a_symptom_that_is_not_whole_is_named(root, words, changes):
    assert words in "\n".join(symptom_faults(root, **changes))


SLOW = {"title": prose("one", "### It is slow"), "shows": "3 waits\n"}


@pytest.mark.parametrize("changes", [{}, SLOW, QUOTED], ids=["error", "slow", "quoted"])
def test_a_sound_symptom_breaks_no_rule(root, changes):
    assert symptom_faults(root, **changes) == []


# Chapters of outcomes: a heading for each operation, and a program that tries it.


def operation_faults(root, id, printed):
    cells = prose("add-title", "### Add"), code(id, "1")
    return faults(root, *cells, printed={id: [text(printed)]}, kind="outcomes")


def test_an_operation_has_a_program_that_tells_its_outcome(root):
    assert operation_faults(root, "add", "moves\n") == []
    assert "says 'oops' on" in operation_faults(root, "add", "oops\n")[0]
    assert "no code cell 'add'" in operation_faults(root, "sum", "raises\n")[0]
