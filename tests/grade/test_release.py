"""`make release`: refuses what does not hold, and writes all or nothing."""

import errno
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import pytest
from classroom import (
    CHAPTER,
    DATA,
    KEY,
    Grader,
    StandIn,
    book_of_one,
    contents,
    write_master,
)
from helpers import ROOT, assert_one_line, edit, read, refused

from coursework import cli
from coursework.exercises.assignment import choice_of, make_drafts
from coursework.exercises.masters import copy_masters
from coursework.exercises.release import handout, release
from coursework.exercises.tasks import LateRule, draws_of
from coursework.exercises.verify import task
from coursework.grade.judge import judge
from coursework.grade.sandbox import TRIED
from coursework.grade.store import key_of
from tools import commands
from tools.book.book import Book
from tools.book.repository import make_repository
from tools.errors import BookError

KINDS = {f"{kind}/small.ipynb" for kind in ("student", "solution", "instructor")}
SOLVED, BLANK = "small/the solution of [1, 2]", "small/the blank edition"
WRONG = [
    f"small/wrong answer {n} of [{exercise}]"
    for n, exercise in ((1, 1), (2, 1), (1, 2))
]
TRIALS = [SOLVED, BLANK, *WRONG]
GIVEN, SLOW = (
    "import math\n\ntimes",
    "def slow(x):\n    return {{ factor }} * x\n\ntimes",
)
WROTE = "notebooks/small.ipynb: its exercises were written; 'make book' runs them"
DONE = "_build/release/book: written: small"


@pytest.fixture
def root(tmp_path):
    return book_of_one(tmp_path / "book").root


@pytest.fixture
def out(root):
    return root / "_build" / "release" / "book"


@pytest.fixture
def run(root):
    """Releases the masters of the small book, graded by a stand-in; returns what was graded."""

    def release_with(key=None, said=None, grader=None, key_of=key_of, **options):
        grader = grader or Grader()
        lines = release(Book(root), grader, key_of, key, **options)
        assert said is None or lines == said
        return getattr(grader, "graded", None)

    return release_with


def change(root, old, new):
    path = root / "masters" / "small.md"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def refusal(run, **options):
    """What a release is refused with; each thing that does not hold is a line."""
    with pytest.raises(BookError) as error:
        run(**options)
    first, *lines = str(error.value).splitlines()
    for line in lines or [first]:
        assert_one_line(line, "masters/small.md: ")
    return str(error.value)


# --- what it writes


def test_a_release_has_every_edition_and_says_what_it_holds(root, out, run):
    assert run(said=[DONE, WROTE]) == TRIALS
    files, chapters = contents(out), contents(root / "notebooks")
    assert set(files) == {*KINDS, "manifest.json", "student/README.md", "student.zip"}
    manifest = json.loads(files["manifest.json"])
    points = {"points": 4, "by_hand": 2}
    told = {"name": "small", "title": "Small numbers", "exercises": 2, **points}
    assert sorted(manifest.pop("files")) == sorted(set(files) - {"manifest.json"})
    assert manifest == {"class": "book", "chapters": [told], **points}
    readme = files["student/README.md"].decode()
    assert "| `small.ipynb` | Small numbers | 4 points and 2 by hand |" in readme
    with zipfile.ZipFile(out / "student.zip") as archive:
        assert archive.namelist() == ["README.md", "small.ipynb"]
        assert archive.read("small.ipynb") == files["student/small.ipynb"]
    assert run(said=[DONE]) == []  # what held is not graded a second time
    assert contents(out) == files
    assert contents(root / "notebooks") == chapters


def test_a_class_gets_links_to_what_was_released(root, out, run):
    write_master(
        root / "masters", CHAPTER.replace("given: [base]", "given: []"), "other"
    )
    group = make_repository("jdoe/gpus-2026", "main", "https://hub.example.org")
    with refused("no release; write one with 'make release' first"):
        handout(out, group)
    run()
    _, line = handout(out, group).splitlines()
    links = dict(re.findall(r"\[(.+?)\]\((\S+?)\)", line))
    assert line.startswith("- Small numbers: [")
    assert list(links) == [
        "Google Colab",
        "SageMaker Studio Lab",
        "JupyterHub",
        "Download",
    ]
    assert links["Google Colab"].endswith(
        "/github/jdoe/gpus-2026/blob/main/small.ipynb"
    )
    query = parse_qs(urlparse(links["JupyterHub"]).query)
    assert query["urlpath"] == ["lab/tree/gpus-2026/small.ipynb"]
    without = handout(out, make_repository("jdoe/gpus-2026", "main"))
    assert (
        "[Your JupyterHub](https://nbgitpuller.readthedocs.io/en/latest/link.html?"
        in without
    )


def test_one_chapter_is_verified_and_written_alone(root, out, run):
    write_master(
        root / "masters", CHAPTER.replace("given: [base]", "given: []"), "other"
    )
    run()
    whole = contents(out)
    change(root, "Compare them.", "Compare both.")
    (root / "masters" / "other.md").write_text("broken")
    run(said=[DONE, WROTE], choice=choice_of("small", None))
    made = contents(out)
    changed = {name for name in made if whole[name] != made[name]}
    assert made.keys() == whole.keys()
    assert changed == {
        *KINDS,
        "student.zip",
        "manifest.json",
    }
    with refused("CHAPTER=smal: no exercises for 'smal'; choose from: other, small"):
        run(choice=choice_of("smal", None))
    with refused("holds the release of class book"):
        run(KEY, choice=choice_of("small", None), out=out)


def test_a_class_has_editions_of_its_own_and_its_key_is_nowhere(root, run, capsys):
    outs, before = (
        [root / "_build" / str(n) for n in range(3)],
        contents(root / "notebooks"),
    )
    for key, out in zip((KEY, KEY, "another key"), outs, strict=True):
        run(key, out=out)
    again, made, other = (contents(out) for out in outs)
    assert again == made and contents(root / "notebooks") == before
    group, others = (
        json.loads(files["manifest.json"])["class"] for files in (made, other)
    )
    assert len(group) == len(others) == 12 and group != others
    change(root, "larger = max", "larger = min")
    said = "".join([refusal(run, key=KEY), *capsys.readouterr(), repr(draws_of(KEY))])
    for secret in (KEY, draws_of(KEY).secret.hex(), draws_of(KEY).seed("small")):
        assert secret not in said
        assert not [
            name for name, data in contents(root).items() if secret.encode() in data
        ]


def test_masters_of_ones_own_go_the_same_way_and_leave_the_chapters_alone(
    root, out, run, tmp_path
):
    mine, private, before = (
        tmp_path / "mine",
        tmp_path / "private",
        contents(root / "notebooks"),
    )
    copy_masters(root / "masters", mine)
    assert "PRIVATE" in (mine / "small.md").read_text().split("---")[1]
    with refused("mine: not an empty folder"):
        copy_masters(root / "masters", mine)
    run(masters=mine, out=private)
    assert contents(root / "notebooks") == before
    run()
    assert contents(private) == contents(out)


# --- the gate


HELD = [  # in a master, what takes its place, and what the release is refused with
    (
        "Two exercises",
        "`return 2 * (x + offset - 1)`",
        "the student's notebook holds a hidden",
    ),
    (
        "larger = max",
        "larger = lambda a, b: b",
        "2: the solution scores 0 of 1 (test_both: ",
    ),
    (
        "larger(1, 2) == 2",
        "larger(1, 2) == 1",
        "2: the solution is refused by the public check",
    ),
    (
        "lambda a, b: b",
        "lambda a, b: max(a, b)",
        "2: wrong answer 1 scores 1 of 1 (test_",
    ),
    ("* abs(x)", "* x", "1: wrong answer 2 scores 3 of 3"),
    (
        "    n = rng.randrange(9)\n",
        "    return\n",
        "2: the blank edition scores 1 of 1 (test_",
    ),
    (
        GIVEN,
        SLOW,
        "1: 'times = slow', as given, scores 3 of 3 (test_any: passes; test_neg",
    ),
    (
        GIVEN,
        SLOW,
        "1: 'times = slow' at every other call, from call 1 on, scores 2 of 3",
    ),
    ("[base]", "[basis]", "'basis', which is no code cell of notebooks/small.ipynb"),
    (
        "[base]",
        "[switch]",
        "'switch', which is no",
    ),  # of the set-up, which is never given
    ("runner: cpu", "runner: quantum", "no runner 'quantum'; choose from: cpu"),
]


@pytest.mark.parametrize(("old", "new", "words"), HELD)
def test_what_does_not_hold_is_refused(root, out, run, old, new, words):
    change(root, old, new)
    for _ in range(2):  # what failed is tried again
        assert words in refusal(run)
    assert not out.exists()


def test_a_hidden_line_is_found_in_any_alphabet_and_a_short_one_is_chance(root, run):
    change(root, "Two exercises", "Two exercises (`larger = max`)")
    run()
    hidden = "Eine Zahl, vervielfältigt."
    change(root, "A number so many times.", hidden)
    change(root, "Two exercises", hidden)
    assert f"the student's notebook holds a hidden line, '{hidden}'" in refusal(run)


MENDED = [  # in a master after its release, what leaves a right answer right
    ("randrange(9)", "randrange(8)"),
    ("A star multiplies.", "A star is enough."),
    ("- points: 3", "- points: 4"),
    ("- seconds: 5", "- seconds: 6"),
    ("Functions are values, too.", "A function is a value, too."),
    ("assert times(1) == {{factor}}", "assert times(1) == {{factor}}, times"),
    ("It loses the sign on its way.", "It loses the sign."),
    ("Write `larger(a, b)`, which", "Write `larger(a, b)`,\nwhich"),
]
CHANGED = [  # and what asks for something else
    ("which multiplies `x` by", "which divides `x` by"),
    ("import math\n", "import cmath\n"),
    ("offset = 1", "offset = 2"),
    ("factor: [2, 3", "factor: [4, 3"),
]


def test_an_edition_names_its_masters_until_they_ask_for_something_else(root, run, out):
    def fingerprint():
        [(_, assignment)] = make_drafts(root, root / "masters", draws_of(None))
        return assignment.masters

    run()
    edition = read(out / "student" / "small.ipynb").metadata.assignment
    assert re.fullmatch("[0-9a-f]{12}", edition.masters)
    assert edition.masters == fingerprint()
    for old, new in MENDED:
        change(root, old, new)
        assert fingerprint() == edition.masters, new
    fingerprints = [edition.masters]
    for old, new in CHANGED:
        change(root, old, new)
        fingerprints.append(fingerprint())
    assert len(set(fingerprints)) == len(fingerprints)


AGAIN = [  # a change of a master, and what is graded again
    ("It never looks at the first.", "It looks at the second alone.", []),
    (
        "A star multiplies.",
        "`return {{ factor }} * (x + offset - 1)`",
        [],
    ),  # given, so no leak
    ("larger = lambda a, b: b", "larger = min", WRONG[2:]),
    ("randrange(9)", "randrange(8)", [SOLVED, BLANK, WRONG[2]]),
    ("- seconds: 5", "- seconds: 6", [SOLVED, BLANK, *WRONG[:2]]),
]


def test_a_change_grades_again_only_what_it_touches(root, run):
    run()
    for old, new, again in AGAIN:
        change(root, old, new)
        assert run() == again, new
    assert run(key_of=lambda *judged: f"another grader, {key_of(*judged)}") == TRIALS


def test_what_was_interrupted_is_kept_and_so_is_what_is_written_in_a_chapter(
    root, out, run
):
    def interrupted(tasks):
        yield from list(Grader()(tasks))[:2]
        raise KeyboardInterrupt

    def slow(tasks):
        edit(root, "small", "base", "base = 11")
        yield from Grader()(tasks)

    with pytest.raises(KeyboardInterrupt):
        run(grader=interrupted)
    assert not out.exists() and run() == WRONG
    change(root, "larger = max", "larger = max  # now")
    run(grader=slow, said=[DONE, WROTE])
    assert "base = 11" in [
        cell.source for cell in Book(root).chapters["small"].code_cells
    ]


# --- bad input


def test_a_folder_that_no_release_wrote_or_that_holds_no_master_is_one_line(
    run, tmp_path
):
    thesis, grader = tmp_path / "chapter.tex", Grader()
    thesis.write_text("years of work")
    for path in (tmp_path, thesis):
        with refused(path.name, "holds files that no release wrote"):
            run(grader=grader, out=path)
    for folder in (tmp_path, tmp_path / "nowhere"):
        with refused(str(folder), "no master in it"):
            run(grader=grader, masters=folder)
    assert grader.graded == [] and thesis.read_text() == "years of work"


def test_a_release_that_cannot_be_written_leaves_the_one_before(
    root, out, run, monkeypatch
):
    run()
    before, plain = contents(out.parent), Path.write_bytes

    def full(path, data):
        if path.name == "manifest.json.part":
            raise OSError(errno.ENOSPC, "No space left on device")
        return plain(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    change(root, "Two exercises", "Some exercises")
    with refused("_build/release/book/manifest.json: cannot be written (No space left"):
        run()
    assert contents(out.parent) == before


# --- by how many processes


@pytest.mark.parametrize("value", ["0", "two", "-1", "1.5"])
def test_a_number_of_workers_that_is_none_is_refused_before_anything_is_graded(value):
    run = subprocess.run(
        [sys.executable, "-m", "tools", "release"],
        cwd=ROOT,
        env=os.environ | {"WORKERS": value, "MASTERS": "/nowhere"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1
    assert_one_line(
        run.stderr, f"WORKERS={value}: name a number of processes, 1 or more"
    )


def test_a_release_is_graded_by_as_many_processes_as_are_named(root, monkeypatch):
    counts = []

    def here(tasks, workers):
        counts.append(workers)
        return Grader()(tasks)

    monkeypatch.setattr("coursework.grade.command.on_this_machine", here)
    monkeypatch.setattr("coursework.grade.command.strongest", StandIn)
    monkeypatch.setenv(TRIED, "stand-in")  # undone, as it is written on the way
    monkeypatch.setattr(cli, "the_book", lambda: Book(root))
    monkeypatch.delenv("CLASS", raising=False)
    options = vars(commands.PARSER.parse_args(["release", "--workers", "3"]))
    options.pop("command")(**options)
    assert counts == [3]


# --- what an instructor sets

SET = (DATA / "week.toml").read_text()


def chosen(root, text):
    (root / "week.toml").write_text(text)
    return choice_of(None, root / "week.toml")


def test_an_instructor_sets_exercises_points_and_a_due_date(root, out, run):
    before, choice = contents(root / "notebooks"), chosen(root, SET)
    run(choice=choice)
    assert (
        contents(root / "notebooks") == before
    )  # the book has all, for what they were worth
    student = read(out / "student" / "small.ipynb")
    assert student.metadata.assignment.exercises == [2]
    text = "".join(cell.source for cell in student.cells)
    assert "## 2. Which is larger?" in text
    assert "5 points" in text
    assert "## 1." not in text
    [(_, assignment)] = make_drafts(root, root / "masters", draws_of(None), choice)
    assert assignment.due.isoformat() == "2026-12-01T12:00:00+01:00"
    solved = task(assignment, "ann", {2: "larger = max"})
    assert judge(solved, StandIn()).points == 5


LATE = 'late = {percent = 10, grace = "90min", most = 50}\n'


def test_an_instructor_sets_what_being_late_costs(root):
    rules = {
        LATE: {"percent": 10, "grace": 5400, "most": 50},
        "late = {percent = 2.5}\n": {"percent": 2.5, "grace": 0, "most": 100},
        'late = {percent = 100, grace = "2d"}': {
            "percent": 100,
            "grace": 172800,
            "most": 100,
        },
        'late = {percent = 9, grace = "1h", most = 9}': {
            "percent": 9,
            "grace": 3600,
            "most": 9,
        },
    }
    for text, rule in rules.items():
        choice = chosen(root, SET + text)
        [(_, assignment)] = make_drafts(root, root / "masters", draws_of(None), choice)
        assert assignment.late == LateRule(**rule)


def test_a_choice_that_cannot_be_is_one_line(root, run):
    for old, new, said in [
        ("[2]", "[7]", "small has no exercise 7; choose from 1 to 2"),
        ("{2 =", "{x =", "points is not a table of whole numbers above 0; write"),
        ("[2]", "'2'", "exercises is not a list of whole numbers above 0; write"),
        ("[2]", "[true]", "exercises is not a list of whole numbers above 0; write"),
        ("= 5", "= 0", "points is not a table of whole numbers above 0; write"),
        ("{2 = 5}", "5", "points is not a table of whole numbers above 0; write"),
        (
            "due",
            "until",
            "the file has an unknown entry 'until'; use chapter, exercises, points",
        ),
        ("+01:00", "", "due has no time zone; write due = 2026-"),
        ("= 2026-12-01T12:00:00+01:00", "= '1 May'", "due is not a date with a time"),
        ("chapter", "[", "week.toml: not valid TOML ("),
        ('"small"', "7", "week.toml: names no chapter; write chapter = "),
        (
            '"small"',
            '"other"',
            "week.toml: no exercises for 'other'; choose from: small",
        ),
        (
            "due",
            "# due",
            "late needs 'due', the time from which days are counted; write due = ",
        ),
        ("percent = 10, ", "", "late needs 'percent', a number above 0 and up to 100"),
        ("percent = 10", "percent = true", "late needs 'percent', a number above 0"),
        ("percent = 10", "percent = 100.5", "late needs 'percent', a number above 0"),
        ("percent = 10", "percent = 0", "late needs 'percent', a number above 0"),
        ("most = 50", "most = 101", "late needs a 'most' from 10, its percent, to 100"),
        ("most = 50", "most = 5", "late needs a 'most' from 10, its percent, to 100"),
        ("90min", "90", 'late needs a \'grace\' such as "30min", "1h" or "2d"'),
        (
            "most",
            "limit",
            "late has an unknown entry 'limit'; use percent, grace, most",
        ),
        (
            '{percent = 10, grace = "90min", most = 50}',
            "10",
            "late is not a table; write late = {percent = 10}",
        ),
    ]:
        with refused(said):
            run(choice=chosen(root, (SET + LATE).replace(old, new, 1)))
    with refused("CHAPTER=small: ", "week.toml names a chapter, too; use only one"):
        choice_of("small", root / "week.toml")
