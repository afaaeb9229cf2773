"""Each rule of the chapters finds what breaks it, and names the file, the cell and what to do.

That the chapters of this book keep the rules is a stage of `make test`.
"""

import pytest
from helpers import (
    ROOT,
    assert_one_line,
    code,
    display,
    keep,
    make_book,
    prose,
    run_tool,
    text,
    write,
)

from tools.book.book import Book
from tools.rules.questions import ASKS, COMPUTE
from tools.rules.rules import ATTEMPT, OPENING, broken_rules, dead_links

TITLE = prose("title", "\n\n".join(["# First", *OPENING]))
END = prose("summary", "## Summary\n\n## Exercises")


def fold(kind, summary, text):
    return f'<details class="{kind}">\n<summary>{summary}</summary>\n\n{text}\n\n</details>'


def choice(answer, verdict="No.", kind=None):
    kind = kind or {"Right.": "right"}.get(verdict, "wrong")
    return fold(f"choice {kind}", answer, f"**{verdict}** And this is why.")


A, B, C = choice("A"), choice("B", "Right."), choice("C")


def question(*choices, opening=ASKS, id="check-it"):
    return prose(id, "\n\n".join([f"{opening}What is it?", *choices]))


def altered(old, new):
    cell = question(A, B, C)
    cell.source = cell.source.replace(old, new)
    return cell


ASKED = prose("predict-it", "**Predict.** Where is `X`?\n\n- on the CPU\n- on the GPU")
ANSWER = code("answer-it", "X.device", ["predicted"])


def asks(text, id="predict-it"):
    return prose(id, f"**Predict.** Where?\n\n{text}")


def answered(source):
    return ASKED, code("answer-it", source, ["predicted"])


WIDE = f"x = '{'y' * 80}'"
# What a rule says, and the cells that break it: the line names the last of them.
BREAKS = [
    ("13 lines, 12 at most; split it", code("a", "x = 1\n" * 13)),
    ("86 characters, 76 at most", code("a", WIDE)),
    (
        "in an answer, 76 at most",
        prose("exercise-1", "**1. One.** *Recall.* Write it."),
        prose("solution-1", fold("solution", "A solution", f"```python\n{WIDE}\n```")),
    ),
    ("catching it in 'attempt'", code("a", "# NBVAL_RAISES_EXCEPTION\nx")),
    ("assert in it", code("a", "x # assert", tags=["nbval-ignore-output"])),
    ("no reader can install", code("a", "%time pass\nfrom tools.book import book")),
    ("no reader can install", code("a", "import tests.helpers")),
    ("print '≈'", code("a", "f'done: measured {done:.6f} s'")),
    ("another 'attempt'", code("attempt", "def attempt(function):\n    function()")),
    ("another 'attempt'", code("try", ATTEMPT)),
    ("called check-...", question(A, B, C, id="quiz")),
    ("begins with one of", prose("check-it", "Something else.")),
    ("2 choices, 1 right", question(A, B)),
    ("3 choices, 0 right", question(A, choice("B"), C)),
    ("3 choices, 2 right", question(A, B, choice("C", "Right."))),
    ("equal choices", question(A, B, A)),
    ("empty or", question(A, B, choice(""))),
    ("is the longest", question(A, choice("By far", "Right."), C)),
    ("does not say", question(A, B, choice("C", "Well."))),
    ("as its class does", question(A, B, choice("C", kind="right"))),
    ("and why", altered(" And this is why.", "")),
    ("misuse: script", question(choice("A<script>reveal()</script>"), B, C)),
    (
        "misuse: open",
        altered('class="choice wrong"', 'class="choice wrong" open'),
    ),
    ("Markdown where only HTML", question(choice("`A`"), B, C)),
    ("Markdown where only HTML", altered("</summary>\n\n", "</summary>\n")),
    ("called predict-", prose("predict-it", "What is it?")),
    ("called predict-", asks("- a\n- b", id="where")),
    ("cell predict-... of its own", prose("so", "So.\n\n**Predict.** Where?")),
    ("one paragraph", asks("1. here\n2. there")),
    ("equal choices", asks("- here\n- here")),
    ("several lines", asks("- here\n  or so\n- there")),
    ("in bold", asks("- **here**\n- there")),
    ("does not answer it", ASKED),
    ("no prediction above", code("a", "X.device", ["predicted"])),
    ("no prediction above", ASKED, ANSWER, prose("b", "So."), code("c", "X", ["predicted"])),
    ("asserts what was", *answered("assert X.is_cpu\nX.device")),
    ("a comment may give", *answered("X.device  # cpu")),
    ("shows nothing", *answered("place = X.device")),
]
SOUND = (
    *(code("attempt", ATTEMPT), code("measured", "measured = {1: 2}"), ASKED, ANSWER),
    *(prose("predict-that", "**Predict.** How many?"), code("that", "X is Y", ["predicted"])),
    *(question(A, B, C, id="check-one"), question(B, A, C, id="check-two")),
    question(choice("4 GB"), A, choice("12 GB", "Right."), opening=COMPUTE, id="check-three"),
)


def faults(root, *cells, opening=TITLE, ending=END, **metadata):
    """What the rules say of a chapter."""
    last = code("last", "1")
    write(root, "first", *filter(None, [opening, *cells, ending, last]), **metadata)
    book = Book(root)
    chapter = book.chapters["first"]
    return broken_rules(chapter, book.recordings_of(chapter), root)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A book whose first chapter each test writes anew."""
    return make_book(tmp_path_factory.mktemp("rules") / "book")


@pytest.mark.parametrize("broken", BREAKS, ids=lambda row: row[0])
def test_a_rule_names_the_cell_that_breaks_it(root, broken):
    words, *cells = broken
    place = f"notebooks/first.ipynb: cell {len(cells)} ('{cells[-1].id}'): "
    found = faults(root, *cells)
    assert any(line.startswith(place) and words in line for line in found), found


def test_a_sound_chapter_breaks_no_rule(root):
    assert faults(root, *SOUND) == []


def test_a_chapter_opens_and_ends_as_all_do(root):
    (line,) = faults(root, *SOUND, opening=prose("title", "# T\n\n**What you need.**"))
    assert "opens without a title and **What you will do.**" in line
    (line,) = faults(root, *SOUND, ending=None)
    assert line.endswith("end with Summary and Exercises")
    assert faults(root, *SOUND[:2], ending=None, kind="puzzles") == []


def test_the_place_of_the_right_choice_cannot_be_learned(root):
    same = [question(A, B, C, id=f"check-{n}") for n in range(3)]
    assert faults(root, *same) == [
        "notebooks/first.ipynb: choice 2 is right in 3 of 3 questions; vary it"
    ]


def test_no_puzzle_changes_what_another_one_uses(root):
    """Readers solve them in any order, and come back to one after others."""

    def puzzle(n, source):
        return prose(f"exercise-{n}", f"### {n}. One\n\n*Recall.* It."), code(f"answer-{n}", source)

    two = [*puzzle(1, "given = 1\nfirst = ..."), *puzzle(2, "second = ...")]
    assert faults(root, *two, ending=None, kind="puzzles") == []
    two[-1].source = "given = 2\nsecond = ..."
    (line,) = faults(root, *two, ending=None, kind="puzzles")
    assert line.startswith("notebooks/first.ipynb: cell 4 ('answer-2'): gives 'given' a value")


@pytest.mark.parametrize(
    ("tags", "printed", "fault"),
    [
        (["times"], text("≈ 8.1 ms\n"), None),
        ([], text("8.1 ms\n"), None),
        ([], text("≈ 8.1 ms\n"), "shows '≈' without the tag 'times'; add it"),
        ([], display(image_svg_xml="<svg><!-- time ≈ --></svg>"), "without the tag 'times'"),
        (["times"], text("8.1 ms\n"), "has the tag 'times' and shows no '≈'"),
    ],
)
def test_times_and_their_tag_go_together(root, tags, printed, fault):
    cell = code("show", "print(x)", tags)
    faults(root, cell)
    keep(root, "first", "cpu", {"show": [printed]})
    found = faults(root, cell)
    assert [fault in line for line in found] == ([True] if fault else [])
    assert faults(root, code("show", "print(y)", tags)) == []  # what that prints is not known


def test_dead_links_are_found_and_sound_ones_are_not():
    dead = ["../notebooks/none.ipynb", "none.md", "#no-such-heading", "glossary.md#no-such-heading"]
    sound = ["#title", "glossary.md#stream", "https://example.org/none"]
    links = [f"[there]({target})" for target in dead + sound]
    assert dead_links("\n\n".join(["# Title", *links]), ROOT / "book") == dead


def test_the_command_says_a_line_for_each_broken_rule_and_dead_link(small_book):
    write(small_book, "first", prose("title", "# First"), code("long", "x = 1\n" * 13))
    (small_book / "book" / "preface.md").write_text("# A book\n\n[There](none.md)\n")
    run = run_tool(small_book, "rules")
    assert run.returncode == 1
    (line,) = [line for line in run.stderr.splitlines() if "13 lines" in line]
    assert_one_line(line, "notebooks/first.ipynb: cell 1 ('long'): 13 lines, 12 at most; split it")
    assert "book/preface.md: the link 'none.md' leads nowhere" in run.stderr


# A page of one symptom.

CAUSE = "**Cause.** It is.\n\n**Cure.** Move it. Read on: [There](first.ipynb#there)."
ERROR = "Traceback (most recent call last):\n  Cell, line 1, in <module>\nRuntimeError: No way\n"
SYMPTOM = {
    "group": prose("group", "## There"),
    "one": prose("one", "### `No way`"),
    "shown": code("one-shown", "1"),
    "cause": prose("one-cause", CAUSE),
    "cured": code("one-cured", "2"),
}


def symptom(root, printed=(), **changed):
    """What the rules say of a symptom, with cells changed, or left out for None."""
    cells = [cell for cell in (SYMPTOM | changed).values() if cell]
    write(root, "first", prose("title", "# Symptoms"), *cells, kind="symptoms")
    printed = {"one-shown": ERROR, "one-cured": "2\n"} | dict(printed)
    keep(root, "first", "cpu", {id: [text(words)] for id, words in printed.items()})
    book = Book(root)
    chapter = book.chapters["first"]
    return broken_rules(chapter, book.recordings_of(chapter), root)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"one": prose("one", "### `No way`\n\nIt fails.")}, "more than a heading"),
        ({"cured": None}, "not followed by"),
        ({"cause": prose("one-cause", CAUSE.replace("**Cause.**", "So:"))}, "is not '**Cause.**"),
        ({"cause": prose("one-cause", CAUSE.partition(" Read")[0])}, "is not '**Cause.**"),
        ({"cause": prose("one-cause", CAUSE.replace("#there", "#none"))}, "leads nowhere"),
        ({"more": prose("more", "### `No way`")}, "another symptom"),
        (
            {"printed": {"one-shown": "RuntimeError: Another way\n"}},
            "does not print the heading's words",
        ),
        ({"printed": {"one-shown": "No way\n"}}, "stand in the heading as code"),
        ({"printed": {"one-cured": ERROR}}, "prints an error"),
        ({"printed": {"one-cured": ""}}, "prints nothing"),
    ],
)
def test_a_symptom_that_is_not_whole_is_named(root, changes, says):
    assert any(says in line for line in symptom(root, **changes))


def test_a_sound_symptom_breaks_no_rule(root):
    assert symptom(root) == []
    slow = {"one": prose("one", "### It is slow"), "printed": {"one-shown": "3 waits\n"}}
    assert symptom(root, **slow) == []
