"""Nothing hidden gets out: every way out that we could think of is tried, and found."""

import gzip
import json
import zlib
from base64 import b64encode

import nbformat
import pytest
from nbformat.v4 import new_output
from small_masters import book_of_one

from tools.book.book import Book
from tools.exercises.archive import zipped
from tools.exercises.canaries import canaries_in, forms, leaks, marked
from tools.exercises.release import make_drafts, student_files
from tools.exercises.variants import draws_of


@pytest.fixture
def book(tmp_path):
    return book_of_one(tmp_path / "book")


@pytest.fixture
def drafts(book):
    return make_drafts(book, book.root / "masters", draws_of("a key of this class"))


def leaking(book, drafts, leak):
    """What is found where `leak` changes the student's files, which it gets with the drafts."""

    def build(drafts):
        files = student_files(drafts, book)
        notebook = nbformat.reads(files["small.ipynb"].decode(), as_version=4)
        leak(notebook, files, *drafts[0])
        files["small.ipynb"] = nbformat.writes(notebook).encode()
        return files

    return list(leaks(drafts, build))


def test_nothing_hidden_is_in_what_students_get(book, drafts):
    assert list(leaks(drafts, lambda drafts: student_files(drafts, book))) == []


def test_every_hidden_part_has_a_canary_of_its_own(drafts):
    master, owner = marked(drafts[0][0])
    assert len(owner) == len(set(owner.values())) == 2 * 6  # exercises, parts
    for exercise in master.exercises:
        for part in ("Hidden tests", "Solution", "Wrong answer", "For instructors"):
            [canary] = {
                each
                for each in owner
                if owner[each].endswith(f"{exercise.number}: the part '{part}'")
            }
            for found in exercise.parts[part]:
                lines = [line for line in found.whole.splitlines() if line]
                assert all(canary in line for line in lines)
                code = [line for block in found.blocks for line in block.splitlines() if line]
                assert all(canary in line for line in code)
                compile("\n".join(found.blocks), "marked", "exec")  # it is read as Python still
        for part in ("Starter", "Checks", "Hint"):
            assert "canary" not in repr(exercise.parts[part])


def metadata(notebook, files, master, assignment):
    notebook.metadata["assignment"]["questions"] = [
        each["tests"] for each in assignment.to_json()["questions"]
    ]


def cell_metadata(notebook, files, master, assignment):
    notebook.cells[4].metadata["rubric"] = master.exercises[0].by_hand


def output(notebook, files, master, assignment):
    text = master.exercises[0].code("Solution")
    notebook.cells[3].outputs = [new_output("stream", name="stdout", text=text)]


def attachment(notebook, files, master, assignment):
    text = b64encode(master.exercises[1].code("Hidden tests").encode()).decode()
    notebook.cells[0]["attachments"] = {"picture.png": {"image/png": text}}


def name_of_a_file(notebook, files, master, assignment):
    line = master.exercises[1].code("Solution").splitlines()[0]
    files[f"{line}.txt"] = b""


def another_file(notebook, files, master, assignment):
    files["notes.txt"] = master.exercises[0].part("For instructors").whole.encode()


def packed(notebook, files, master, assignment):
    files["data.bin"] = b"xx" + gzip.compress(master.exercises[0].code("Hidden tests").encode())


def packed_and_encoded(notebook, files, master, assignment):
    text = zlib.compress(master.exercises[0].code("Hidden tests").encode())
    notebook.metadata["x"] = "ab" + b64encode(text).decode()


def hexadecimal(notebook, files, master, assignment):
    notebook.metadata["x"] = master.exercises[0].code("Wrong answer").encode().hex()


def encoded_over_lines(notebook, files, master, assignment):
    text = b64encode(master.exercises[0].code("Solution").encode()).decode()
    broken = "\n".join(text[i : i + 20] for i in range(0, len(text), 20))
    notebook.cells[0].source += f"\n\n{broken}"


def inner_archive(notebook, files, master, assignment):
    files["more.zip"] = zipped({f"{master.exercises[1].code('Solution')}.txt": b""})


def docstrings(notebook, files, master, assignment):
    words = master.exercises[1].code("Hidden tests").split('"""')[1]
    notebook.cells[-1].source += f"\n# {words}"


def name_of_a_test(notebook, files, master, assignment):
    words = master.exercises[1].code("Hidden tests").split("def ")[1].split("(")[0]
    notebook.cells[-1].metadata["test"] = words


def seed(notebook, files, master, assignment):
    notebook.metadata["seed"] = assignment.seed


def variants(notebook, files, master, assignment):
    files["variants.yaml"] = master.exercises[0].part("Variants").blocks[0].encode()


WAYS = {
    metadata: "'Hidden tests' is in student/small.ipynb",
    cell_metadata: "'By hand' is in student/small.ipynb",
    output: "'Solution' is in student/small.ipynb",
    attachment: "'Hidden tests' is in student/small.ipynb",
    name_of_a_file: "'Solution' is in student/",
    another_file: "'For instructors' is in student/notes.txt",
    packed: "'Hidden tests' is in student/data.bin",
    packed_and_encoded: "'Hidden tests' is in student/small.ipynb",
    hexadecimal: "'Wrong answer' is in student/small.ipynb",
    encoded_over_lines: "'Solution' is in student/small.ipynb",
    inner_archive: "'Solution' is in student/more.zip",
    docstrings: "'Hidden tests' is in student/small.ipynb",
    name_of_a_test: "'Hidden tests' is in student/small.ipynb",
    seed: "the seed of its hidden tests is in student/small.ipynb",
    variants: "'Variants' is in student/variants.yaml",
}


@pytest.mark.parametrize("leak", WAYS, ids=lambda leak: leak.__name__)
def test_a_leak_is_found(book, drafts, leak):
    found = leaking(book, drafts, leak)
    assert any(WAYS[leak] in line for line in found), found
    assert all(line.startswith("masters/small.md: ") and "\n" not in line for line in found)


def test_a_hidden_line_that_was_typed_by_hand_is_found(book, drafts):
    def typed(notebook, files, master, assignment):
        notebook.cells[0].source += "\n\nTip: `return 2 * (x + offset - 1)`"

    [(master, assignment)] = make_drafts(book, book.root / "masters", draws_of(None))
    found = leaking(book, [(master, assignment)], typed)
    assert len(found) == 1
    assert "exercise 1: a hidden line is in student/small.ipynb: 'return 2 * (x" in found[0]


def test_a_line_that_was_given_is_no_leak(book):
    path = book.root / "masters" / "small.md"
    line = "return {{ factor }} * (x + offset - 1)"
    path.write_text(path.read_text().replace("A star multiplies.", f"Think of `{line}`."))
    drafts = make_drafts(book, book.root / "masters", draws_of(None))
    assert list(leaks(drafts, lambda drafts: student_files(drafts, Book(book.root)))) == []


@pytest.mark.parametrize("shift", range(8))
def test_base64_is_read_wherever_it_begins(shift):
    canary = "canary" + "0f" * 10
    data = b"A" * shift + b64encode(canary.encode())
    assert canaries_in(b"{" + data + b"}") == {canary}
    packed = json.dumps({"x": "z" * shift + b64encode(gzip.compress(data)).decode()}).encode()
    assert canaries_in(packed) == {canary}


def test_what_only_looks_packed_is_passed_over():
    for data in (b"\x1f\x8b\x08 no gzip", b"\x78\x9c no zlib", b"PK\x03\x04", b"[1, 2", b""):
        assert data in list(forms(data))
