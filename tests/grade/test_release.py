"""`make release`: refuses what does not hold, and writes all or nothing."""

import json
import zipfile

import nbformat
import pytest
from helpers import assert_one_line, edit, refused
from small_masters import SMALL, Grader, book_of_one, contents, stamp, write_master

from tools.book.book import Book
from tools.errors import BookError
from tools.exercises import release as release_module
from tools.exercises.archive import zipped
from tools.exercises.release import release, swap
from tools.exercises.variants import draws_of
from tools.exercises.verify import MEMORY

KEY = "an invented key of this class"
TRIALS = ["solution", "blank", "wrong-1-1", "wrong-1-2", "wrong-2-1"]


@pytest.fixture
def root(tmp_path):
    return book_of_one(tmp_path / "book").root


@pytest.fixture
def run(root):
    """Releases the masters of the tiny book, graded by a stand-in."""

    def release_with(key=None, grader=None, **options):
        return release(Book(root), grader or Grader(), stamp, key, **options)

    return release_with


def change(root, old, new, count=1):
    path = root / "masters" / "small.md"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, count), encoding="utf-8")


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


def test_a_release_has_every_edition_and_says_what_it_holds(root, run):
    assert run() == [
        "_build/release/book: 1 chapter, 2 exercises, 4 points",
        "notebooks/small.ipynb: its exercises were written; 'make book' runs them",
    ]
    files = contents(root / "_build" / "release" / "book")
    assert list(files) == [
        "instructor/small.ipynb",
        "manifest.json",
        "solution/small.ipynb",
        "student/README.md",
        "student/small.ipynb",
        "student.zip",
    ]
    manifest = json.loads(files["manifest.json"])
    assert (manifest["class"], manifest["points"], manifest["by_hand"]) == ("book", 4, 2)
    assert manifest["chapters"] == [
        {"name": "small", "title": "Small numbers", "exercises": 2, "points": 4, "by_hand": 2}
    ]
    assert sorted(manifest["files"]) == sorted(set(files) - {"manifest.json"})
    readme = files["student/README.md"].decode()
    assert "| `small.ipynb` | Small numbers | 4 points and 2 by hand |" in readme
    with zipfile.ZipFile(root / "_build" / "release" / "book" / "student.zip") as archive:
        assert archive.namelist() == ["README.md", "small.ipynb"]
        assert archive.read("small.ipynb") == files["student/small.ipynb"]


def test_a_second_release_grades_nothing_and_writes_the_same_bytes(root, run):
    run()
    before, chapter = contents(root / "_build"), (root / "notebooks/small.ipynb").read_bytes()
    grader = Grader()
    assert len(run(grader=grader)) == 1
    assert grader.graded == []
    assert contents(root / "_build") == before
    assert (root / "notebooks/small.ipynb").read_bytes() == chapter


def test_one_chapter_is_verified_and_written_alone(root, run):
    out = root / "_build" / "release" / "book"
    write_master(root / "masters", SMALL.replace("given: [base]", "given: []"), "other")
    run()
    whole = contents(out)
    change(root, "Compare them.", "Compare both.")
    (root / "masters" / "other.md").write_text("broken")
    grader = Grader()
    assert run(grader=grader, chapter="small") == [
        "_build/release/book: 1 chapter, 2 exercises, 4 points",
        "notebooks/small.ipynb: its exercises were written; 'make book' runs them",
    ]
    assert grader.graded == []  # a hint changes no score
    changed = {name for name, data in contents(out).items() if whole[name] != data}
    kinds = {f"{kind}/small.ipynb" for kind in ("student", "solution", "instructor")}
    assert changed == kinds | {"student.zip", "manifest.json"}
    with refused("CHAPTER=smal: no such master; choose from: other, small"):
        run(chapter="smal")
    with refused("holds the release of class book"):
        run(KEY, chapter="small", out=out)


def test_the_same_key_gives_the_same_bytes_and_another_other_variants(root, run, tmp_path):
    keys = [KEY, KEY, *(f"another key, number {n}" for n in range(3))]
    outs = [tmp_path / str(n) for n in range(len(keys))]
    before = (root / "notebooks" / "small.ipynb").read_bytes()
    for key, out in zip(keys, outs, strict=True):
        run(key, out=out)
    assert contents(outs[0]) == contents(outs[1])
    assert (root / "notebooks" / "small.ipynb").read_bytes() == before
    drawn = {
        (out / "student" / "small.ipynb").read_text().split("times(1) == ")[1][:2] for out in outs
    }
    assert len(drawn) > 1
    classes = {json.loads((out / "manifest.json").read_text())["class"] for out in outs}
    assert len(classes) == len(keys) - 1 and all(len(each) == 12 for each in classes)


def test_a_key_is_in_no_file_and_on_no_screen(root, run, capsys):
    lines = run(KEY)
    change(root, "larger = max", "larger = min")
    lines += faults(run, key=KEY)
    files = contents(root)
    said = "".join(lines) + "".join(capsys.readouterr())
    for secret in (KEY, draws_of(KEY).secret.hex(), draws_of(KEY).seed("small")):
        assert secret not in said
        assert not [name for name, data in files.items() if secret.encode() in data]
    assert KEY not in repr(draws_of(KEY))


def test_masters_of_ones_own_go_the_same_way_and_leave_the_chapters_alone(root, run, tmp_path):
    text = SMALL.replace("given: [base]", "given: []").replace("base", "other")
    mine = write_master(tmp_path / "mine", text, "of-my-own")
    write_master(mine, SMALL.replace("Small numbers", "My numbers"))
    before = (root / "notebooks" / "small.ipynb").read_bytes()
    out = tmp_path / "out"
    assert run(masters=mine, out=out) == [f"{out}: 2 chapters, 4 exercises, 8 points"]
    assert (out / "student" / "of-my-own.ipynb").is_file()
    assert "base = 10" in (out / "student" / "small.ipynb").read_text()  # of the book's chapter
    assert (root / "notebooks" / "small.ipynb").read_bytes() == before


# --- the gate


def test_the_gate_tries_solution_blank_and_every_wrong_answer(run):
    grader = Grader()
    run(grader=grader)
    assert grader.graded == [f"small/{name}" for name in TRIALS]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("larger = max", "larger = lambda a, b: b", "2: the solution scores 0 of 1 (test_both: "),
        ("larger(1, 2) == 2", "larger(1, 2) == 1", "2: its public check refuses the solution"),
        ("lambda a, b: b", "lambda a, b: max(a, b)", "2: wrong answer 1 scores 1 of 1; add a test"),
        ("* abs(x)", "* x", "1: wrong answer 2 scores 3 of 3"),
        ("    n = rng.randrange(9)\n", "    return\n", "2: the blank edition scores 1 of 1; let"),
        ("@points(2)", "@points(1)", "1: its hidden tests are worth 2, and it says '- points: 3'"),
    ],
)
def test_what_does_not_score_as_it_should_is_refused(root, run, old, new, words):
    change(root, old, new)
    assert any(f"exercise {words}" in line for line in faults(run))
    assert not any((root / "_build" / "release").iterdir())


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("def test_both", "def tests_both", "no hidden test"),
        ("def test_negative", "def test_any", "two hidden tests are called test_any"),
        ('    """Finds it wherever it stands."""\n', "", "test_both does not say what it asks"),
    ],
)
def test_tests_that_are_none_are_refused(root, run, old, new, words):
    change(root, old, new)
    assert any(words in line for line in faults(run))


def solution_in_an_output(notebook, master, assignment):
    text = master.exercises[0].code("Solution")
    notebook.cells[3].outputs = [nbformat.v4.new_output("stream", name="stdout", text=text)]


def hidden_tests_in_metadata(notebook, master, assignment):
    notebook.metadata["questions"] = [asked["tests"] for asked in assignment["questions"]]


def rubric(notebook, master, assignment):
    notebook.cells[4].metadata["rubric"] = master.exercises[0].by_hand


def words_for_instructors(notebook, master, assignment):
    notebook.cells[0].source += "\n" + master.exercises[0].part("For instructors").whole


def docstring_of_a_test(notebook, master, assignment):
    notebook.cells[-1].source += "\n# Finds it wherever it stands."


def line_typed_by_hand(notebook, master, assignment):
    notebook.cells[0].source += "\n\nTip: `return {} * (x + offset - 1)`".format(
        master.exercises[0].drawn["factor"]
    )


def seed(notebook, master, assignment):
    notebook.metadata["seed"] = assignment["seed"]


@pytest.mark.parametrize(
    "leak",
    [
        *(solution_in_an_output, hidden_tests_in_metadata, rubric, words_for_instructors),
        *(docstring_of_a_test, line_typed_by_hand, seed),
    ],
)
def test_a_leak_is_refused_before_anything_is_graded_or_written(root, run, monkeypatch, leak):
    make = release_module.edition

    def leaky(kind, master, assignment, book):
        notebook = make(kind, master, assignment, book)
        if kind == "student":
            leak(notebook, master, assignment)
        return notebook

    monkeypatch.setattr(release_module, "edition", leaky)
    grader = Grader()
    assert " is in student/small.ipynb; take it" in faults(run, key=KEY, grader=grader)[0]
    assert grader.graded == [] and not any((root / "_build" / "release").iterdir())


def test_a_line_that_was_given_is_no_leak(root, run):
    change(root, "A star multiplies.", "Think of `return {{ factor }} * (x + offset - 1)`.")
    run()


def test_what_cannot_be_graded_is_a_line_too(run):
    def grader(tasks):
        yield from ((task, BookError("no sandbox here")) for task in tasks)

    lines = faults(run, grader=grader)
    assert len(lines) == len(TRIALS)
    assert lines[0].endswith("the solution cannot be graded: no sandbox here")


def test_a_change_grades_again_only_what_it_touches(root, run):
    run()
    grader = Grader()
    change(root, "It never looks at the first.", "It looks at the second alone.")
    change(root, "Two points for a sentence", "Two points for a word")
    run(grader=grader)
    assert grader.graded == []  # words change no score
    change(root, "larger = lambda a, b: b", "larger = min")
    run(grader=grader)
    assert grader.graded == ["small/wrong-2-1"]
    grader = Grader()
    change(root, "n = rng.randrange(9)", "n = rng.randrange(8)")
    run(grader=grader)
    assert grader.graded == [f"small/{name}" for name in ("solution", "blank", "wrong-2-1")]
    grader = Grader()
    release(Book(root), grader, lambda runner: "another grader")
    assert len(grader.graded) == len(TRIALS)


def test_what_fails_is_tried_again_and_what_was_interrupted_is_kept(root, run):
    def interrupted(tasks):
        yield from list(Grader()(tasks))[:2]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(grader=interrupted)
    assert not any((root / "_build" / "release").iterdir())
    assert len(json.loads((root / MEMORY).read_text())) == 2
    grader = Grader()
    run(grader=grader)
    assert grader.graded == [f"small/{name}" for name in TRIALS[2:]]
    change(root, "larger = max", "larger = min")
    for _ in range(2):
        grader = Grader()
        faults(run, grader=grader)
        assert grader.graded == ["small/solution"]


def test_what_is_written_in_a_chapter_while_it_is_verified_stays(root, run):
    def slow(tasks):
        edit(root, "small", "base", "base = 11")
        yield from Grader()(tasks)

    run(grader=slow)
    chapter = Book(root).chapters["small"]
    assert [cell.source for cell in chapter.code_cells][1] == "base = 11"
    assert "exercise-1" in [cell.id for cell in chapter.notebook.cells]


# --- bad input


def test_a_cell_that_is_not_there_cannot_be_given(root, run, tmp_path):
    change(root, "[base]", "[basis]")
    with refused("masters/small.md", "'basis'", "notebooks/small.ipynb", "'## Given'"):
        run()
    change(root, "[basis]", "[switch]")
    with refused("'switch'"):  # of the set-up
        run()
    mine = write_master(tmp_path / "mine", name="other")
    with refused("other.md", "'base'", "no chapter other"):
        run(masters=mine)


def test_another_runner_is_one_line(root, run):
    change(root, "runner: cpu", "runner: quantum")
    with refused("masters/small.md", "no runner 'quantum'", "cpu"):
        run()


def test_a_folder_that_no_release_wrote_is_left_alone(run, tmp_path):
    out = tmp_path / "thesis"
    out.mkdir()
    (out / "chapter.tex").write_text("years of work")
    grader = Grader()
    with refused("thesis", "holds files that no release wrote"):
        run(grader=grader, out=out)
    assert grader.graded == [] and (out / "chapter.tex").read_text() == "years of work"
    (tmp_path / "file").write_text("")
    with refused("file"):
        run(out=tmp_path / "file")


def test_a_release_that_cannot_be_written_leaves_the_one_before(root, run, monkeypatch):
    run()
    out = root / "_build" / "release" / "book"
    before = contents(out)
    with refused("_build/release/book: cannot be written"):
        swap({"student": b"", "student/a.ipynb": b""}, out, root)  # a file where a folder must be
    assert contents(out) == before
    assert [each.name for each in out.parent.iterdir()] == ["book"]
    swap({"manifest.json": b"{}"}, out, root)
    assert contents(out) == {"manifest.json": b"{}"}


def test_a_chapter_that_cannot_take_its_exercises_is_one_line(root, run):
    edit(root, "small", "base", "base = = 10")
    with refused("small"):
        run()


def test_a_zip_depends_on_its_files_alone(tmp_path):
    files = {"b.txt": b"2", "a/c.txt": b"1"}
    made = zipped(files)
    assert made == zipped(dict(reversed(files.items())))
    path = tmp_path / "made.zip"
    path.write_bytes(made)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert [each.filename for each in archive.infolist()] == ["a/c.txt", "b.txt"]
        assert {each.date_time for each in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
