"""`make release`: refuses what does not hold, and writes all or nothing."""

import json
import zipfile

import pytest
from helpers import assert_one_line, edit, plan, refused
from small_masters import SMALL, Grader, book_of_one, contents, stamp, write_master

from tools.book.book import Book
from tools.errors import BookError
from tools.exercises.archive import zipped
from tools.exercises.release import make_drafts, release, swap
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


def test_the_same_key_gives_the_same_bytes_and_another_other_variants(root, run, tmp_path):
    keys = [KEY, KEY, *(f"another key, number {n}" for n in range(6))]
    outs = [tmp_path / str(n) for n in range(len(keys))]
    for key, out in zip(keys, outs, strict=True):
        run(key, out=out)
    assert contents(outs[0]) == contents(outs[1])
    drawn = {
        (out / "student" / "small.ipynb").read_text().split("times(1) == ")[1][:2] for out in outs
    }
    assert len(drawn) > 2
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
    assert draws_of(KEY).seed("small") not in repr(
        make_drafts(Book(root), root / "masters", draws_of(KEY))
    )


def test_a_class_edition_leaves_the_chapters_alone(root, run):
    before = (root / "notebooks" / "small.ipynb").read_bytes()
    run(KEY)
    assert (root / "notebooks" / "small.ipynb").read_bytes() == before


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


def test_make_hands_the_key_on_in_the_environment_alone():
    commands = plan("release", "CLASS=an invented key", "MASTERS=a b", "OUT=c d")
    assert "--masters 'a b' --out 'c d'" in commands
    assert "invented" not in commands


# --- the gate


def test_the_gate_tries_solution_blank_and_every_wrong_answer(run):
    grader = Grader()
    run(grader=grader)
    assert grader.graded == [f"small/{name}" for name in TRIALS]


def test_a_solution_that_fails_is_refused(root, run):
    change(root, "larger = max", "larger = lambda a, b: b")
    assert faults(run) == [
        "masters/small.md: exercise 2: the solution scores 0 of 1 (test_both: the result is not "
        "the one asked for); mend the solution or the test"
    ]
    assert not any((root / "_build" / "release").iterdir())


def test_a_public_check_that_refuses_the_solution_is_refused(root, run):
    change(root, "larger(1, 2) == 2", "larger(1, 2) == 1")
    assert faults(run) == [
        "masters/small.md: exercise 2: its public check refuses the solution; mend one of them"
    ]


def test_a_wrong_answer_that_scores_full_is_refused(root, run):
    change(root, "larger = lambda a, b: b", "larger = lambda a, b: max(a, b)")
    assert faults(run) == [
        "masters/small.md: exercise 2: wrong answer 1 scores 1 of 1; add a test that it fails"
    ]


def test_a_second_wrong_answer_is_tried_too(root, run):
    change(root, "* abs(x)", "* x")
    [line] = faults(run)
    assert "exercise 1: wrong answer 2 scores 3 of 3" in line


def test_a_blank_edition_that_scores_is_refused(root, run):
    change(root, "    n = rng.randrange(9)\n", "    return\n")
    lines = faults(run)
    assert "exercise 2: the blank edition scores 1 of 1" in lines[0]


def test_points_that_are_not_those_of_the_tests_are_refused(root, run):
    change(root, "@points(2)", "@points(1)")
    assert faults(run) == [
        "masters/small.md: exercise 1: its hidden tests are worth 2, and it says '- points: 3'; "
        "let both be the same"
    ]


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


def test_a_leak_is_refused_before_anything_is_graded_or_written(root, run, monkeypatch):
    from tools.exercises import editions

    how = editions._how
    line = "return 2 * (x + offset - 1)"
    monkeypatch.setattr(editions, "_how", lambda book: f"{how(book)} {line}")
    grader = Grader()
    assert "a hidden line is in student/" in faults(run, grader=grader)[0]
    assert grader.graded == [] and not any((root / "_build" / "release").iterdir())


def test_what_cannot_be_graded_is_a_line_too(run):
    def grader(tasks):
        yield from ((task, BookError("no sandbox here")) for task in tasks)

    lines = faults(run, grader=grader)
    assert len(lines) == len(TRIALS)
    assert lines[0].endswith("the solution cannot be graded: no sandbox here")


def test_a_change_grades_again_only_what_it_touches(root, run):
    run()
    change(root, "It never looks at the first.", "It looks at the second alone.")
    grader = Grader()
    run(grader=grader)
    assert grader.graded == []  # words change no score
    change(root, "larger = lambda a, b: b", "larger = min")
    run(grader=grader)
    assert grader.graded == ["small/wrong-2-1"]
    grader = Grader()
    change(root, "n = rng.randrange(9)", "n = rng.randrange(8)")
    run(grader=grader)
    assert grader.graded == [f"small/{name}" for name in ("solution", "blank", "wrong-2-1")]


def test_another_grader_grades_all_again(root, run):
    run()
    grader = Grader()
    release(Book(root), grader, lambda runner: "another")
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


@pytest.mark.parametrize("key", ["", "short", "1234567"])
def test_a_key_that_is_too_short_is_one_line(run, key):
    with refused("CLASS: ", "8 or more") as error:
        run(key)
    assert not key or key not in str(error.value)


def test_no_masters_are_one_line(root, run, tmp_path):
    with refused("nowhere", "no such folder"):
        run(masters=tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with refused("empty", "no master in it"):
        run(masters=tmp_path / "empty")


def test_a_cell_that_is_not_there_cannot_be_given(root, run, tmp_path):
    change(root, "[base]", "[basis]")
    with refused("masters/small.md", "'basis'", "notebooks/small.ipynb", "'## Given'"):
        run()
    mine = write_master(tmp_path / "mine", name="other")
    with refused("other.md", "'base'", "no chapter other"):
        run(masters=mine)


def test_the_set_up_is_never_given(root, run):
    change(root, "[base]", "[switch]")
    with refused("'switch'"):
        run()


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
