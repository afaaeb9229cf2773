"""`make release`: refuses what does not hold, and writes all or nothing."""

import errno
import json
import re
import zipfile
from dataclasses import dataclass
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
from helpers import ROOT, assert_one_line, edit, read, refused, run_tool

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

EDITIONS = {
    "student/small.ipynb",
    "solution/small.ipynb",
    "instructor/small.ipynb",
}
# What is graded before anything is written.
SOLVED = "small/the solution of [1, 2]"
BLANK = "small/the blank edition"
WRONG = [
    "small/wrong answer 1 of [1]",
    "small/wrong answer 2 of [1]",
    "small/wrong answer 1 of [2]",
]
TRIALS = [SOLVED, BLANK, *WRONG]
# The lines that a release prints.
RELEASED = "_build/release/book: written: small"
CHAPTER_WRITTEN = (
    "notebooks/small.ipynb: its exercises were written; 'make book' runs them"
)


@pytest.fixture
def root(tmp_path):
    return book_of_one(tmp_path / "book").root


@pytest.fixture
def out(root):
    return root / "_build" / "release" / "book"


@dataclass
class Release:
    lines: list[str]
    graded: list[str]


@pytest.fixture
def run(root):
    """Releases the masters of the small book, graded by a stand-in."""

    def run_release(key=None, grade=None, key_of=key_of, **options):
        grader = Grader()
        lines = release(Book(root), grade or grader, key_of, key, **options)
        return Release(lines, grader.graded)

    return run_release


def change(root, old, new):
    """Change the master of the small book."""
    path = root / "masters" / "small.md"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def write_second_master(root):
    text = CHAPTER.replace("given: [base]", "given: []")
    write_master(root / "masters", text, "other")


def refusal(run, **options):
    """Return why a release is refused: a line for each thing that does not hold."""
    with pytest.raises(BookError) as error:
        run(**options)
    first, *lines = str(error.value).splitlines()
    for line in lines or [first]:
        assert_one_line(line, "masters/small.md: ")
    return str(error.value)


# --- what it writes


def test_a_release_has_every_edition(out, run):
    first = run()
    assert first.lines == [RELEASED, CHAPTER_WRITTEN]
    assert first.graded == TRIALS
    files = contents(out)
    assert set(files) == EDITIONS | {
        "manifest.json",
        "student/README.md",
        "student.zip",
    }
    readme = files["student/README.md"].decode()
    assert "| `small.ipynb` | Small numbers | 4 points and 2 by hand |" in readme
    with zipfile.ZipFile(out / "student.zip") as archive:
        assert archive.namelist() == ["README.md", "small.ipynb"]
        assert archive.read("small.ipynb") == files["student/small.ipynb"]


def test_a_manifest_says_what_a_release_holds(out, run):
    run()
    files = contents(out)
    manifest = json.loads(files.pop("manifest.json"))
    assert manifest.pop("files").keys() == files.keys()
    chapter = {
        "name": "small",
        "title": "Small numbers",
        "exercises": 2,
        "points": 4,
        "by_hand": 2,
    }
    assert manifest == {
        "class": "book",
        "chapters": [chapter],
        "points": 4,
        "by_hand": 2,
    }


def test_a_second_release_grades_and_changes_nothing(root, out, run):
    run()
    files = contents(out)
    chapters = contents(root / "notebooks")

    again = run()

    assert again.lines == [RELEASED]
    assert again.graded == []
    assert contents(out) == files
    assert contents(root / "notebooks") == chapters


def test_a_class_gets_links_to_what_was_released(root, out, run):
    write_second_master(root)
    repository = make_repository("jdoe/gpus-2026", "main", "https://hub.example.org")
    with refused("no release; write one with 'make release' first"):
        handout(out, repository)
    run()

    _, line = handout(out, repository).splitlines()

    assert line.startswith("- Small numbers: [")
    links = dict(re.findall(r"\[(.+?)\]\((\S+?)\)", line))
    services = ["Google Colab", "SageMaker Studio Lab", "JupyterHub", "Download"]
    assert list(links) == services
    colab = "/github/jdoe/gpus-2026/blob/main/small.ipynb"
    assert links["Google Colab"].endswith(colab)
    query = parse_qs(urlparse(links["JupyterHub"]).query)
    assert query["urlpath"] == ["lab/tree/gpus-2026/small.ipynb"]


def test_without_a_hub_a_class_may_name_its_own(out, run):
    run()
    text = handout(out, make_repository("jdoe/gpus-2026", "main"))
    page = "https://nbgitpuller.readthedocs.io/en/latest/link.html?"
    assert f"[Your JupyterHub]({page}" in text


def test_one_chapter_is_verified_and_written_alone(root, out, run):
    write_second_master(root)
    run()
    before = contents(out)
    change(root, "Compare them.", "Compare both.")
    (root / "masters" / "other.md").write_text("broken")

    alone = run(choice=choice_of("small", None))

    assert alone.lines == [RELEASED, CHAPTER_WRITTEN]
    after = contents(out)
    assert after.keys() == before.keys()
    changed = {name for name in after if before[name] != after[name]}
    assert changed == EDITIONS | {"student.zip", "manifest.json"}


def test_a_chapter_without_exercises_is_refused(root, run):
    write_second_master(root)
    with refused("CHAPTER=smal: no exercises for 'smal'; choose from: other, small"):
        run(choice=choice_of("smal", None))


def test_a_chapter_goes_into_no_other_classs_release(out, run):
    run()
    with refused("holds the release of class book"):
        run(KEY, choice=choice_of("small", None), out=out)


def test_each_class_has_editions_of_its_own(root, run, tmp_path):
    chapters = contents(root / "notebooks")
    folders = [tmp_path / "one", tmp_path / "again", tmp_path / "another"]
    for key, folder in zip((KEY, KEY, "another key"), folders, strict=True):
        run(key, out=folder)

    one, again, another = [contents(folder) for folder in folders]
    assert again == one
    assert contents(root / "notebooks") == chapters
    group = json.loads(one["manifest.json"])["class"]
    other_group = json.loads(another["manifest.json"])["class"]
    assert len(group) == 12
    assert len(other_group) == 12
    assert group != other_group


def test_a_key_is_neither_written_nor_printed(root, run, capsys):
    draws = draws_of(KEY)
    run(KEY)
    change(root, "larger = max", "larger = min")
    text = refusal(run, key=KEY) + "".join(capsys.readouterr()) + repr(draws)

    for secret in (KEY, draws.secret.hex(), draws.seed("small")):
        assert secret not in text
        for name, data in contents(root).items():
            assert secret.encode() not in data, name


def test_copied_masters_make_the_same_release(root, out, run, tmp_path):
    own_masters = tmp_path / "mine"
    own_out = tmp_path / "private"
    chapters = contents(root / "notebooks")
    copy_masters(root / "masters", own_masters)
    assert "PRIVATE" in (own_masters / "small.md").read_text().split("---")[1]

    run(masters=own_masters, out=own_out)

    assert contents(root / "notebooks") == chapters
    run()
    assert contents(own_out) == contents(out)


def test_masters_are_copied_into_no_folder_of_files(root, tmp_path):
    copy_masters(root / "masters", tmp_path / "mine")
    with refused("mine: not an empty folder"):
        copy_masters(root / "masters", tmp_path / "mine")


# --- the gate

GIVEN = "import math\n\ntimes"
GIVEN_SLOW = "def slow(x):\n    return {{ factor }} * x\n\ntimes"
# What is in a master, what takes its place, and what the release is refused with.
FAULTS = [
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
        GIVEN_SLOW,
        "1: 'times = slow', as given, scores 3 of 3 (test_any: passes; test_neg",
    ),
    (
        GIVEN,
        GIVEN_SLOW,
        "1: 'times = slow' at every other call, from call 1 on, scores 2 of 3",
    ),
    ("[base]", "[basis]", "'basis', which is no code cell of notebooks/small.ipynb"),
    # A cell of the setup is never given.
    ("[base]", "[setup]", "'setup', which is no"),
    ("runner: cpu", "runner: quantum", "no runner 'quantum'; choose from: cpu"),
]


@pytest.mark.parametrize(("old", "new", "words"), FAULTS)
def test_what_does_not_hold_is_refused(root, out, run, old, new, words):
    change(root, old, new)
    assert words in refusal(run)
    # What failed is tried again.
    assert words in refusal(run)
    assert not out.exists()


def test_points_that_rounding_takes_away_are_won_all_the_same(root, run):
    """Of a single point, the program that was given has two sevenths: less than a half."""
    change(root, GIVEN, GIVEN_SLOW)
    change(root, "- points: 3", "- points: 1")
    change(root, "def test_negative", "@points(5)\ndef test_negative")
    every_other_call = "1: 'times = slow' at every other call, from call 1 on"
    assert f"{every_other_call}, scores 2 of 7" in refusal(run)


def test_a_hidden_line_is_found_in_any_alphabet(root, run):
    hidden = "Eine Zahl, vervielfältigt."
    change(root, "A number so many times.", hidden)
    change(root, "Two exercises", hidden)
    assert f"the student's notebook holds a hidden line, '{hidden}'" in refusal(run)


def test_a_short_line_that_is_hidden_too_is_chance(root, run):
    change(root, "Two exercises", "Two exercises (`larger = max`)")
    run()


# In a master after its release, what leaves a right answer right.
CORRECTIONS = [
    ("randrange(9)", "randrange(8)"),
    ("A star multiplies.", "A star is enough."),
    ("- points: 3", "- points: 4"),
    ("- seconds: 5", "- seconds: 6"),
    ("Functions are values, too.", "A function is a value, too."),
    ("assert times(1) == {{factor}}", "assert times(1) == {{factor}}, times"),
    ("It loses the sign on its way.", "It loses the sign."),
    ("Write `larger(a, b)`, which", "Write `larger(a, b)`,\nwhich"),
]
# And what asks for something else.
OTHER_QUESTIONS = [
    ("which multiplies `x` by", "which divides `x` by"),
    ("import math\n", "import cmath\n"),
    ("offset = 1", "offset = 2"),
    ("factor: [2, 3", "factor: [4, 3"),
]


def fingerprint(root):
    """Return the fingerprint of the masters as they are now."""
    [draft] = make_drafts(root, root / "masters", draws_of(None))
    return draft.assignment.masters


def test_an_edition_names_its_masters(root, run, out):
    run()
    edition = read(out / "student" / "small.ipynb")
    masters = edition.metadata.assignment.masters
    assert re.fullmatch("[0-9a-f]{12}", masters)
    assert masters == fingerprint(root)


@pytest.mark.parametrize(("old", "new"), CORRECTIONS)
def test_a_correction_leaves_the_fingerprint(root, old, new):
    before = fingerprint(root)
    change(root, old, new)
    assert fingerprint(root) == before


def test_another_question_changes_the_fingerprint(root):
    fingerprints = {fingerprint(root)}
    for old, new in OTHER_QUESTIONS:
        change(root, old, new)
        fingerprints.add(fingerprint(root))
    assert len(fingerprints) == 5


# Changes of a master, one after the other, and what each has graded again.
CHANGES = [
    ("It never looks at the first.", "It looks at the second alone.", []),
    # It is given, so it is no leak.
    ("A star multiplies.", "`return {{ factor }} * (x + offset - 1)`", []),
    ("larger = lambda a, b: b", "larger = min", WRONG[2:]),
    ("randrange(9)", "randrange(8)", [SOLVED, BLANK, WRONG[2]]),
    ("- seconds: 5", "- seconds: 6", [SOLVED, BLANK, *WRONG[:2]]),
]


def test_only_what_a_change_touches_is_graded_again(root, run):
    run()
    for old, new, again in CHANGES:
        change(root, old, new)
        assert run().graded == again, new


def test_another_grader_grades_all_again(run):
    run()

    def other_key_of(*judged):
        return f"another grader, {key_of(*judged)}"

    assert run(key_of=other_key_of).graded == TRIALS


def test_what_was_graded_before_an_interrupt_is_kept(out, run):
    def interrupted(tasks):
        grader = Grader()(tasks)
        yield next(grader)
        yield next(grader)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(grade=interrupted)

    assert not out.exists()
    assert run().graded == WRONG


def test_an_edit_of_the_chapter_meanwhile_is_kept(root, run):
    def edits_meanwhile(tasks):
        edit(root, "small", "base", "base = 11")
        yield from Grader()(tasks)

    assert run(grade=edits_meanwhile).lines == [RELEASED, CHAPTER_WRITTEN]

    cells = Book(root).chapters["small"].code_cells
    assert "base = 11" in [cell.source for cell in cells]


# --- bad input


def test_a_release_overwrites_nothing_of_others(run, tmp_path):
    thesis = tmp_path / "chapter.tex"
    thesis.write_text("years of work")
    grader = Grader()
    for path in (tmp_path, thesis):
        with refused(path.name, "contains files that no release wrote"):
            run(grade=grader, out=path)
    assert thesis.read_text() == "years of work"
    assert grader.graded == []


@pytest.mark.parametrize("name", [".", "nowhere"])
def test_a_folder_without_masters_is_one_line(name, run, tmp_path):
    folder = tmp_path / name
    grader = Grader()
    with refused(str(folder), "no master in it"):
        run(grade=grader, masters=folder)
    assert grader.graded == []


def test_a_release_that_cannot_be_written_leaves_the_last(root, out, run, monkeypatch):
    run()
    before = contents(out.parent)
    write_bytes = Path.write_bytes

    def write_until_full(path, data):
        if path.name == "manifest.json.part":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_bytes(path, data)

    monkeypatch.setattr(Path, "write_bytes", write_until_full)
    change(root, "Two exercises", "Some exercises")
    with refused("_build/release/book/manifest.json: cannot be written (No space left"):
        run()
    assert contents(out.parent) == before


# --- by how many processes


def test_a_bad_number_of_workers_is_refused_at_once():
    variables = {"WORKERS": "two", "MASTERS": "/nowhere"}
    run = run_tool(ROOT, "release", **variables)
    assert run.returncode == 1
    line = "WORKERS=two: name a number of processes, 1 or more"
    assert_one_line(run.stderr, line)


def test_a_release_is_graded_by_the_workers_that_are_named(root, monkeypatch):
    counts = []

    def grade_here(tasks, workers):
        counts.append(workers)
        return Grader()(tasks)

    monkeypatch.setattr("coursework.grade.command.on_this_machine", grade_here)
    monkeypatch.setattr("coursework.grade.command.strongest", StandIn)
    # The command sets it; this undoes that when the test ends.
    monkeypatch.setenv(TRIED, "stand-in")
    monkeypatch.setattr(cli, "the_book", lambda: Book(root))
    monkeypatch.delenv("CLASS", raising=False)

    options = vars(commands.PARSER.parse_args(["release", "--workers", "3"]))
    commands.run_command(options)

    assert counts == [3]


# --- what an instructor sets

CHOICE = (DATA / "week.toml").read_text()
LATE = 'late = {percent = 10, grace = "90min", most = 50}\n'


def choice_from(root, text):
    (root / "week.toml").write_text(text)
    return choice_of(None, root / "week.toml")


def assignment_of(root, choice):
    [draft] = make_drafts(root, root / "masters", draws_of(None), choice)
    return draft.assignment


def test_an_instructor_sets_exercises_and_points(root, out, run):
    chapters = contents(root / "notebooks")
    run(choice=choice_from(root, CHOICE))

    # The book has all exercises, for what they were worth.
    assert contents(root / "notebooks") == chapters
    student = read(out / "student" / "small.ipynb")
    assert student.metadata.assignment.exercises == [2]
    text = "".join(cell.source for cell in student.cells)
    assert "## 2. Which is larger?" in text
    assert "5 points" in text
    assert "## 1." not in text


def test_points_that_an_instructor_sets_are_graded(root):
    assignment = assignment_of(root, choice_from(root, CHOICE))
    solved = task(assignment, "ann", {2: "larger = max"})
    assert judge(solved, StandIn()).points == 5


def test_an_instructor_sets_a_due_date(root):
    assignment = assignment_of(root, choice_from(root, CHOICE))
    assert assignment.due.isoformat() == "2026-12-01T12:00:00+01:00"


@pytest.mark.parametrize(
    ("line", "percent", "grace", "most"),
    [
        (LATE, 10, 5400, 50),
        ("late = {percent = 2.5}\n", 2.5, 0, 100),
        ('late = {percent = 100, grace = "2d"}', 100, 172800, 100),
        ('late = {percent = 9, grace = "1h", most = 9}', 9, 3600, 9),
    ],
)
def test_an_instructor_sets_what_being_late_costs(root, line, percent, grace, most):
    assignment = assignment_of(root, choice_from(root, CHOICE + line))
    assert assignment.late == LateRule(percent, grace, most)


POINTS = "points is not a table of whole numbers above 0; write"
EXERCISES = "exercises is not a list of whole numbers above 0; write"
PERCENT = "late needs 'percent', a number above 0"
MOST = "late needs a 'most' from 10, its percent, to 100"
# What is in a choice, what takes its place, and what it is refused with.
BAD_CHOICES = [
    ("[2]", "[7]", "small has no exercise 7; choose from 1 to 2"),
    ("{2 =", "{x =", POINTS),
    ("= 5", "= 0", POINTS),
    ("{2 = 5}", "5", POINTS),
    ("[2]", "'2'", EXERCISES),
    ("[2]", "[true]", EXERCISES),
    (
        "due",
        "until",
        "the file has an unknown entry 'until'; use chapter, exercises, points",
    ),
    ("+01:00", "", "due has no time zone; write due = 2026-"),
    ("= 2026-12-01T12:00:00+01:00", "= '1 May'", "due is not a date with a time"),
    ("chapter", "[", "week.toml: not valid TOML ("),
    ('"small"', "7", "week.toml: names no chapter; write chapter = "),
    ('"small"', '"other"', "week.toml: no exercises for 'other'; choose from: small"),
    ("due", "# due", "late needs 'due', the time from which days are counted; write"),
    ("percent = 10, ", "", f"{PERCENT} and up to 100"),
    ("percent = 10", "percent = true", PERCENT),
    ("percent = 10", "percent = 100.5", PERCENT),
    ("percent = 10", "percent = 0", PERCENT),
    ("most = 50", "most = 101", MOST),
    ("most = 50", "most = 5", MOST),
    ("90min", "90", 'late needs a \'grace\' such as "30min", "1h" or "2d"'),
    ("most", "limit", "late has an unknown entry 'limit'; use percent, grace, most"),
    (
        '{percent = 10, grace = "90min", most = 50}',
        "10",
        "late is not a table; write late = {percent = 10}",
    ),
]


@pytest.mark.parametrize(("old", "new", "words"), BAD_CHOICES)
def test_a_choice_that_cannot_be_is_one_line(root, run, old, new, words):
    text = (CHOICE + LATE).replace(old, new, 1)
    with refused(words):
        run(choice=choice_from(root, text))


def test_a_chapter_is_named_once(root):
    choice_from(root, CHOICE)
    with refused("CHAPTER=small: ", "week.toml names a chapter, too; use only one"):
        choice_of("small", root / "week.toml")
