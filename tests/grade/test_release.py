"""`make release`: refuses what does not hold, and writes all or nothing."""

import json
import zipfile

import pytest
from classroom import StandIn
from helpers import assert_one_line, edit, read, refused
from nbformat.v4 import new_output
from small_masters import SMALL, Grader, book_of_one, contents, stamp, write_master

from tools.book.book import Book
from tools.errors import BookError
from tools.exercises import release as release_module
from tools.exercises.choice import choice_of, read_choice
from tools.exercises.masters import copy_masters
from tools.exercises.release import make_drafts, release, swap
from tools.exercises.variants import draws_of
from tools.exercises.verify import MEMORY, task
from tools.grade.grade import grade_one

RELEASE, KEY = "_build/release", "an invented key of this class"
TRIALS = [
    *("the solution of [1, 2]", "the blank edition"),
    *("wrong answer 1 of [1]", "wrong answer 2 of [1]", "wrong answer 1 of [2]"),
]
GIVEN, SLOW = "import math\n\ntimes", "def slow(x):\n    return {{ factor }} * x\n\ntimes"
WROTE = "notebooks/small.ipynb: its exercises were written; 'make book' runs them"


@pytest.fixture
def root(tmp_path):
    return book_of_one(tmp_path / "book").root


@pytest.fixture
def run(root):
    """Releases the masters of the tiny book, graded by a stand-in."""

    def release_with(key=None, grader=None, **options):
        return release(Book(root), grader or Grader(), stamp, key, **options)

    return release_with


@pytest.fixture
def chapter(root):
    return root / "notebooks" / "small.ipynb"


def change(root, old, new):
    path = root / "masters" / "small.md"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def faults(run, **options):
    """The lines that a release is refused with."""
    with pytest.raises(BookError) as error:
        run(**options)
    first, *lines = str(error.value).splitlines()
    assert first == "nothing is released: masters do not hold"
    for line in lines:
        assert_one_line(line, "masters/small.md: ")
    return lines


# --- what it writes


def test_a_release_has_every_edition_and_says_what_it_holds(root, run, chapter):
    assert run() == ["_build/release/book: 1 chapter, 2 exercises, 4 points", WROTE]
    files, written = contents(root / RELEASE / "book"), chapter.read_bytes()
    notebooks = [f"{kind}/small.ipynb" for kind in ("instructor", "solution", "student")]
    assert set(files) == {*notebooks, "manifest.json", "student/README.md", "student.zip"}
    manifest = json.loads(files["manifest.json"])
    assert (manifest["class"], manifest["points"], manifest["by_hand"]) == ("book", 4, 2)
    assert manifest["chapters"] == [
        {"name": "small", "title": "Small numbers", "exercises": 2, "points": 4, "by_hand": 2}
    ]
    assert sorted(manifest["files"]) == sorted(set(files) - {"manifest.json"})
    readme = files["student/README.md"].decode()
    assert "| `small.ipynb` | Small numbers | 4 points and 2 by hand |" in readme
    with zipfile.ZipFile(root / RELEASE / "book" / "student.zip") as archive:
        assert archive.testzip() is None and archive.namelist() == ["README.md", "small.ipynb"]
        assert archive.read("small.ipynb") == files["student/small.ipynb"]
    grader = Grader()
    assert len(run(grader=grader)) == 1 and grader.graded == []  # a second time
    assert contents(root / RELEASE / "book") == files and chapter.read_bytes() == written


def test_one_chapter_is_verified_and_written_alone(root, run):
    write_master(root / "masters", SMALL.replace("given: [base]", "given: []"), "other")
    run()
    whole, grader = contents(root / RELEASE / "book"), Grader()
    change(root, "Compare them.", "Compare both.")
    (root / "masters" / "other.md").write_text("broken")
    lines = run(grader=grader, choice=choice_of("small", None))
    assert lines == ["_build/release/book: 1 chapter, 2 exercises, 4 points", WROTE]
    assert grader.graded == []  # a hint changes no score
    changed = {
        name for name, data in contents(root / RELEASE / "book").items() if whole[name] != data
    }
    kinds = {f"{kind}/small.ipynb" for kind in ("student", "solution", "instructor")}
    assert changed == kinds | {"student.zip", "manifest.json"}
    with refused("CHAPTER=smal: no such master; choose from: other, small"):
        run(choice=choice_of("smal", None))
    with refused("holds the release of class book"):
        run(KEY, choice=choice_of("small", None), out=root / RELEASE / "book")


def test_a_class_has_editions_of_its_own_and_its_key_is_nowhere(
    root, run, chapter, tmp_path, capsys
):
    keys = [KEY, KEY, *(f"another key, number {n}" for n in range(3))]
    outs, before = [tmp_path / str(n) for n in range(len(keys))], chapter.read_bytes()
    said = [line for key, out in zip(keys, outs, strict=True) for line in run(key, out=out)]
    made = [contents(out) for out in outs]
    assert made[0] == made[1] and chapter.read_bytes() == before
    blank = [files["student/small.ipynb"].decode() for files in made]
    assert len({text.split("times(1) == ")[1][:2] for text in blank}) > 1
    classes = {json.loads(files["manifest.json"])["class"] for files in made}
    assert len(classes) == len(keys) - 1 and all(len(name) == 12 for name in classes)
    change(root, "larger = max", "larger = min")
    said += [*faults(run, key=KEY), *capsys.readouterr()]
    files = contents(root) | {f"0/{name}": data for name, data in made[0].items()}
    for secret in (KEY, draws_of(KEY).secret.hex(), draws_of(KEY).seed("small")):
        assert secret not in "".join(said)
        assert not [name for name, data in files.items() if secret.encode() in data]
    assert KEY not in repr(draws_of(KEY))


def test_masters_of_ones_own_go_the_same_way_and_leave_the_chapters_alone(root, run, tmp_path):
    mine, outs = tmp_path / "mine", [tmp_path / "public", tmp_path / "private"]
    copy_masters(root / "masters", mine)
    assert "PRIVATE" in (mine / "small.md").read_text().split("---")[1]
    before = contents(root / "notebooks")
    run(masters=mine, out=outs[1])
    assert contents(root / "notebooks") == before
    run(out=outs[0])
    assert contents(outs[0]) == contents(outs[1])
    text = SMALL.replace("given: [base]", "given: []").replace("base", "other")
    write_master(mine, text, "of-my-own")
    assert run(masters=mine, out=outs[1]) == [f"{outs[1]}: 2 chapters, 4 exercises, 8 points"]
    with refused("mine: not an empty folder"):
        copy_masters(root / "masters", mine)
    assert (mine / "of-my-own.md").read_text() == text


# --- the gate


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("larger = max", "larger = lambda a, b: b", "2: the solution scores 0 of 1 (test_both: "),
        ("larger(1, 2) == 2", "larger(1, 2) == 1", "2: its public check refuses the solution"),
        ("lambda a, b: b", "lambda a, b: max(a, b)", "2: wrong answer 1 scores 1 of 1 (test_"),
        ("* abs(x)", "* x", "1: wrong answer 2 scores 3 of 3"),
        ("    n = rng.randrange(9)\n", "    return\n", "2: the blank edition scores 1 of 1 (test_"),
        ("def test_both", "def tests_both", "2: no hidden test"),
        ("def test_negative", "def test_any", "1: two hidden tests are called test_any"),
        ('    """Finds it wherever it stands."""\n', "", "2: test_both does not say what it asks"),
        (GIVEN, SLOW, "1: 'times = slow', as given, scores 3 of 3 (test_any: passes; test_neg"),
        (GIVEN, SLOW, "1: 'times = slow' at every other call, from call 1 on, scores 2 of 3"),
    ],
)
def test_what_does_not_hold_is_refused(root, run, old, new, words):
    change(root, old, new)
    assert any(f"exercise {words}" in line for line in faults(run))
    assert not any((root / RELEASE).iterdir())


LEAKS = {
    "output": lambda notebook, first, assignment: notebook.cells[3].outputs.append(
        new_output("stream", name="stdout", text=first.code("Solution"))
    ),
    "tests": lambda notebook, first, assignment: notebook.metadata.update(
        questions=[asked["tests"] for asked in assignment["questions"]]
    ),
    "a line": lambda notebook, first, assignment: notebook.cells[0].update(
        source=f"Tip: `return {first.drawn['factor']} * (x + offset - 1)`"
    ),
    "seed": lambda notebook, first, assignment: notebook.metadata.update(seed=assignment["seed"]),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_is_refused_before_anything_is_graded_or_written(root, run, monkeypatch, leak):
    make = release_module.edition

    def leaky(kind, master, assignment, book):
        notebook = make(kind, master, assignment, book)
        if kind == "student":
            LEAKS[leak](notebook, master.exercises[0], assignment)
        return notebook

    monkeypatch.setattr(release_module, "edition", leaky)
    grader = Grader()
    assert " is in student/small.ipynb; take it" in faults(run, key=KEY, grader=grader)[0]
    assert grader.graded == [] and not any((root / RELEASE).iterdir())


def test_a_line_that_was_given_is_no_leak(root, run):
    change(root, "A star multiplies.", "Think of `return {{ factor }} * (x + offset - 1)`.")
    run()


@pytest.mark.parametrize(
    ("old", "new", "again"),
    [
        ("It never looks at the first.", "It looks at the second alone.", []),
        ("larger = lambda a, b: b", "larger = min", TRIALS[4:]),
        ("randrange(9)", "randrange(8)", [*TRIALS[:2], TRIALS[4]]),
        ("- seconds: 5", "- seconds: 6", TRIALS[:4]),
    ],
)
def test_a_change_grades_again_only_what_it_touches(root, run, old, new, again):
    first, grader, other = Grader(), Grader(), Grader()
    run(grader=first)
    change(root, old, new)
    run(grader=grader)
    release(Book(root), other, lambda runner: "another grader")
    assert grader.graded == [f"small/{name}" for name in again]
    assert first.graded == other.graded == [f"small/{name}" for name in TRIALS]


def test_what_fails_is_tried_again_and_what_was_interrupted_is_kept(root, run):
    def interrupted(tasks):
        yield from list(Grader()(tasks))[:2]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(grader=interrupted)
    assert not any((root / RELEASE).iterdir())
    assert len(json.loads((root / MEMORY).read_text())) == 2
    grader = Grader()
    run(grader=grader)
    assert grader.graded == [f"small/{name}" for name in TRIALS[2:]]
    change(root, "larger = max", "larger = min")
    for _ in range(2):
        grader = Grader()
        faults(run, grader=grader)
        assert grader.graded == [f"small/{TRIALS[0]}"]


def test_what_is_written_in_a_chapter_while_it_is_verified_stays(root, run):
    def slow(tasks):
        edit(root, "small", "base", "base = 11")
        yield from Grader()(tasks)

    run(grader=slow)
    chapter = Book(root).chapters["small"]
    assert [cell.source for cell in chapter.code_cells][1] == "base = 11"
    assert "exercise-1" in [cell.id for cell in chapter.notebook.cells]


# --- bad input


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[base]", "[basis]", ["'basis'", "notebooks/small.ipynb", "'## Given'"]),
        ("[base]", "[switch]", ["'switch'"]),  # of the set-up, which is never given
        ("runner: cpu", "runner: quantum", ["no runner 'quantum'", "cpu"]),
    ],
)
def test_a_master_that_asks_for_what_is_not_there_is_one_line(root, run, old, new, words):
    change(root, old, new)
    with refused("masters/small.md", *words):
        run()


def test_a_folder_that_no_release_wrote_is_left_alone(run, tmp_path):
    out, grader = tmp_path / "thesis", Grader()
    out.mkdir()
    (out / "chapter.tex").write_text("years of work")
    for path in (out, out / "chapter.tex"):
        with refused(path.name, "holds files that no release wrote"):
            run(grader=grader, out=path)
    assert grader.graded == [] and (out / "chapter.tex").read_text() == "years of work"


def test_a_release_that_cannot_be_written_leaves_the_one_before(root, run):
    run()
    before = contents(root / RELEASE)
    with refused("_build/release/book: cannot be written"):  # a file where a folder must be
        swap({"student": b"", "student/a.ipynb": b""}, root / RELEASE / "book", root)
    assert contents(root / RELEASE) == before


SET = """
chapter = "small"
exercises = [2]
points = {2 = 5}
due = 2026-12-01T12:00:00+01:00
"""


def chosen(root, text):
    (root / "week.toml").write_text(text)
    return read_choice(root / "week.toml")


def test_an_instructor_sets_exercises_points_and_a_due_date(root, run, chapter):
    before = chapter.read_bytes()
    run(key=KEY, choice=chosen(root, SET))
    [out] = (root / RELEASE).iterdir()
    student = read(out / "student" / "small.ipynb")
    assert student.metadata.assignment.exercises == [2]
    text = "".join(cell.source for cell in student.cells)
    assert "## 2. Which is larger?" in text and "5 points" in text and "## 1." not in text
    assert chapter.read_bytes() == before
    [(_, assignment)] = make_drafts(
        Book(root), root / "masters", draws_of(KEY), choice=chosen(root, SET)
    )
    assert assignment["due"] == "2026-12-01T12:00:00+01:00"
    half = "def larger(a, b):\n    return a if rng else b"
    for answer, points in {"larger = max": 5, half: 0}.items():
        made = task(assignment, "ann", {2: answer})
        assert grade_one(made, StandIn())["points"] == points


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[2]", "[7]", "small has no exercise 7; choose from 1 to 2"),
        ("[2]", "'2'", "'exercises' is not one of chapter (str), "),
        ("due", "until", "'until' is not one of "),
        ("= 5", "= -5", "whole numbers above 0"),
        ("+01:00", "", "due has no time zone"),
        ("chapter", "[", "not TOML"),
        ('"small"', '"other"', "week.toml: no such master; choose from: small"),
    ],
)
def test_a_choice_that_cannot_be_is_one_line(root, run, old, new, said):
    with refused("", said):
        run(key=KEY, choice=chosen(root, SET.replace(old, new, 1)))


def test_what_is_set_of_a_chapter_leaves_the_book_as_it_is(root, run, chapter):
    before = chapter.read_bytes()
    run(choice=chosen(root, SET))
    assert chapter.read_bytes() == before
