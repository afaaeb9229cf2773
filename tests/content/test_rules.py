"""Each rule of the chapters finds what breaks it, and names the file, the cell and what to do.

That the chapters of this book keep the rules is a stage of `make test`.
"""

import pytest
from helpers import code, prose, run_tool, write
from making import display, keep, make_book, text

from tools.book.book import Book
from tools.rules.budgets import BUDGETS
from tools.rules.questions import CHOOSE, COMPUTE
from tools.rules.rules import OPENING, broken_rules

TITLE = prose("title", "\n\n".join(["# First", *OPENING]))


def fold(kind, summary, text):
    return f'<details class="{kind}">\n<summary>{summary}</summary>\n\n{text}\n\n</details>'


def choice(answer, verdict="No.", kind=None):
    kind = kind or {"Right.": "right"}.get(verdict, "wrong")
    return fold(f"choice {kind}", answer, f"**{verdict}** And this is why.")


A, B, C = choice("A"), choice("B", "Right."), choice("C")


def question(*choices, opening=CHOOSE, id="check-it"):
    return prose(id, "\n\n".join([f"{opening}What is it?", *choices]))


def altered(old, new):
    return prose("check-it", question(A, B, C).source.replace(old, new))


def asks(text, id="predict-it"):
    return prose(id, f"**Predict.** Where?\n\n{text}")


def answered(source):
    return ASKED, code("shown-it", source, ["predicted"])


ASKED = asks("- on the CPU\n- on the GPU")
_, ANSWER = answered("X.device")
TOLD = prose("answer-it", "**The second.** It was made there.")
# What a rule says, and the cells that break it: the line names the last of them.
BREAKS = [
    ("13 lines, 12 at most; split it", code("a", "x = 1\n" * 13)),
    ("86 characters, 76 at most", code("a", "x" * 86)),
    ("assert in it", code("a", "x # assert", tags=["nbval-ignore-output"])),
    ("no reader can install", code("a", "%time pass\nfrom tools.book import book")),
    ("print '≈'", code("a", "f'done: measured {done:.6f} s'")),
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
    ("called predict-", asks("- a\n- b", id="where")),
    ("cell predict-... of its own", prose("so", "So.\n\n**Predict.** Where?")),
    ("one paragraph", asks("1. here\n2. there")),
    ("equal choices", asks("- here\n- here")),
    ("in bold", asks("- **here**\n- there")),
    ("does not answer it", ASKED),
    ("no answer; write it", ASKED),
    ("no prediction above", code("a", "X.device", ["predicted"])),
    (
        "no prediction above",
        ASKED,
        ANSWER,
        prose("b", "So."),
        code("c", "X", ["predicted"]),
    ),
    ("asserts what was", *answered("assert X.is_cpu\nX.device")),
    ("a comment may give", *answered("X.device  # cpu")),
    ("shows nothing", *answered("place = X.device")),
    ("names none of the 2", ASKED, ANSWER, prose("answer-it", "**The third.** So.")),
    ("begin with the reason", prose("predict-it", "**Predict.** Why?"), ANSWER, TOLD),
]
SOUND = (
    *(code("measured", "measured = {1: 2}"), ASKED, ANSWER, TOLD),
    *(
        prose("predict-that", "**Predict.** How many?"),
        code("that", "X is Y", ["predicted"]),
    ),
    prose("answer-that", "One, as no copy was made."),
    *(question(A, B, C, id="check-one"), question(B, A, C, id="check-two")),
    question(
        choice("4 GB"), A, choice("12 GB", "Right."), opening=COMPUTE, id="check-three"
    ),
)


def faults(root, *cells, opening=TITLE, printed=None, **metadata):
    """What the rules say of a chapter, which has printed something or was never executed."""
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


@pytest.mark.parametrize("broken", BREAKS, ids=lambda row: row[0])
def test_a_rule_names_the_cell_that_breaks_it(root, broken):
    words, *cells = broken
    place = f"notebooks/first.ipynb: cell {len(cells)} ('{cells[-1].id}'): "
    found = faults(root, *cells)
    assert any(line.startswith(place) and words in line for line in found), found


def test_a_sound_chapter_breaks_no_rule(root):
    assert faults(root, *SOUND) == []
    (line,) = faults(root, *SOUND, opening=prose("title", "# T\n\n**What you need.**"))
    assert "opens without a title and **What you will do.**" in line
    same = [question(A, B, C, id=f"check-{n}") for n in range(3)]
    (line,) = faults(root, *same)
    assert (
        line == "notebooks/first.ipynb: choice 2 is right in 3 of 3 questions; vary it"
    )


def test_an_answer_in_words_is_there_and_is_not_given_away_above(root):
    held = code("held", "assert X", ["hide-cell"])
    above = prose("above", "## Here\n\nA CPU has memory, of 8 GB; a GPU has its own.")
    asked = ASKED, ANSWER, held, TOLD
    assert faults(root, above, *asked) == []
    more = prose("predict-more", "**Predict.** Why?"), code("b", "2", ["predicted"])
    (line,) = faults(root, *asked, *more)
    assert line.endswith(
        "no answer; write it below what it printed, in a text cell answer-..."
    )
    asked = asks("- 4 GB of it\n- 8 GB of it"), ANSWER, TOLD
    (line,) = faults(root, above, *asked)
    assert line.endswith(
        "('predict-it'): 'above' above it gives the answer away: 8; say it below"
    )
    assert faults(root, above, prose("other", "## Another section"), *asked) == []


def test_a_chapter_is_as_long_as_it_says_and_as_its_budget_says(root, monkeypatch):
    title, deep = TITLE.source, prose("deep", "## Deeper: more\n\n" + "word " * 999)

    def said(minutes, *cells):
        words = f"# First\n\n**How long.** {minutes} minutes, and the exercises.\n\n"
        return faults(
            root, *cells, opening=prose("title", title.replace("# First\n\n", words))
        )

    assert said(1, deep) == []
    (line,) = said(1, prose("on", "word " * 400))
    assert line.endswith("says another time; write '**How long.** 3 minutes, and ...'")
    monkeypatch.setitem(BUDGETS, "first", {"words": 10, "minutes": 2})
    *_, words, minutes = said(1, prose("on", "word " * 400))
    assert (
        "words on its path, 10 at most" in words
        and "takes 3 minutes, 2 at most" in minutes
    )


@pytest.mark.parametrize(
    ("tags", "printed", "fault"),
    [
        (["times"], text("≈ 8.1 ms\n"), None),
        ([], text("8.1 ms\n"), None),
        (
            [],
            display(image_svg_xml="<svg><!-- time ≈ --></svg>"),
            "without the tag 'times'",
        ),
        (["times"], text("8.1 ms\n"), "has the tag 'times' and shows no '≈'"),
    ],
)
def test_times_and_their_tag_go_together(root, tags, printed, fault):
    cell = code("show", "print(x)", tags)
    found = faults(root, cell, printed={"show": [printed]})
    assert [fault in line for line in found] == ([True] if fault else [])
    assert faults(root, cell) == []  # what it prints is not known


def test_the_command_says_a_line_for_each_broken_rule(small_book):
    write(small_book, "first", prose("title", "# First"), code("long", "x = 1\n" * 13))
    run = run_tool(small_book, "rules")
    assert run.returncode == 1
    assert (
        "notebooks/first.ipynb: cell 1 ('long'): 13 lines, 12 at most; split it\n"
        in run.stderr
    )


CAUSE = "**Cause.** It is.\n\n**Cure.** Move it. Read on: [There](first.ipynb#there)."
ERROR = "Traceback (most recent call last):\nRuntimeError: No way\n"
SYMPTOM = {
    "group": prose("group", "## There"),
    "one": prose("one", "### `No way`"),
    "shown": code("one-shown", "1"),
    "cause": prose("one-cause", CAUSE),
    "cured": code("one-cured", "2"),
}


QUOTED = {
    "shown": prose(
        "one-shown", "**Quoted** from [it](https://a.b).\n\n```text\nE: No way\n```"
    ),
    "cured": prose("one-cured", "`way()`"),
}


def symptom(root, printed=(), **changed):
    """What the rules say of a symptom, with cells changed, or left out for None."""
    cells = [cell for cell in (SYMPTOM | changed).values() if cell]
    printed = {"one-shown": ERROR, "one-cured": "2\n"} | dict(printed)
    printed = {id: [text(words)] for id, words in printed.items()}
    return faults(root, *cells, opening=TITLE, printed=printed, kind="symptoms")


@pytest.mark.parametrize(
    ("says", "changes"),
    [
        ("more than a heading", {"one": prose("one", "### `No way`\n\nIt fails.")}),
        ("not followed by", {"cured": None}),
        ("is not '**Quoted**", QUOTED | {"one": prose("one", "### `Another`")}),
        (
            "is not '**Cause.**",
            {"cause": prose("one-cause", CAUSE.partition(" Read")[0])},
        ),
        ("another symptom", {"more": prose("more", "### `No way`")}),
        (
            "does not print the heading's words",
            {"printed": {"one-shown": "RuntimeError: Other\n"}},
        ),
        ("stand in the heading as code", {"printed": {"one-shown": "No way\n"}}),
        ("prints an error", {"printed": {"one-cured": ERROR}}),
        ("prints nothing", {"printed": {"one-cured": ""}}),
    ],
)
def test_a_symptom_that_is_not_whole_is_named(root, says, changes):
    assert any(says in line for line in symptom(root, **changes))


def test_a_sound_symptom_breaks_no_rule(root):
    assert symptom(root) == []
    slow = {
        "one": prose("one", "### It is slow"),
        "printed": {"one-shown": "3 waits\n"},
    }
    assert symptom(root, **slow) == symptom(root, **QUOTED) == []


@pytest.mark.parametrize(
    ("says", "id", "printed"),
    [
        ("says 'oops' on", "add", "oops\n"),
        ("no code cell 'add'", "sum", "raises\n"),
        ("", "add", "moves\n"),
    ],
)
def test_an_operation_has_a_program_that_tells_what_happens(root, says, id, printed):
    cells = prose("add-title", "### Add"), code(id, "1")
    found = faults(
        root, *cells, opening=TITLE, printed={id: [text(printed)]}, kind="outcomes"
    )
    assert says in found[0] if says else found == []
