"""`make release`: every edition of every master, written only if all of them hold."""

import json
import shutil
from hashlib import sha256
from pathlib import Path

from nbformat import NotebookNode, writes

from tools.book.book import Book
from tools.book.notebooks import write_notebook
from tools.errors import BookError
from tools.exercises.archive import zipped
from tools.exercises.assignment import Assignment, make_assignment
from tools.exercises.canaries import Draft, Files, leaks
from tools.exercises.editions import book_chapter, instructor, solution, student, student_readme
from tools.exercises.masters import read_masters
from tools.exercises.variants import Draws, draws_of
from tools.exercises.verify import Grade, Stamp, trials, unsound, verify
from tools.files import cannot_write, check_writable
from tools.record.execute import one_at_a_time

MASTERS = "masters"
MANIFEST = "manifest.json"


def release(
    book: Book,
    grade: Grade,
    stamp: Stamp,
    key: str | None = None,
    masters: Path | None = None,
    out: Path | None = None,
) -> list[str]:
    """Verify the masters of a folder and write their editions; returns a line for each thing done.

    Without a key and another folder of masters, the exercises in the book's own chapters are
    written as well. `grade` and `stamp` are what `verify` needs. Raises BookError, a line for each
    thing that does not hold, before anything is written.
    """
    draws = draws_of(key)
    folder = masters or book.root / MASTERS
    drafts = make_drafts(book, folder, draws)
    out = out or book.root / "_build" / "release" / draws.fingerprint
    check_out(out, book.root)
    files = editions(drafts, book)  # before the gate, which takes longer
    faults = [line for master, _ in drafts for line in unsound(master)]
    faults += leaks(drafts, lambda drafts: student_files(drafts, book))
    faults = faults or verify(
        [each for draft in drafts for each in trials(*draft)], grade, stamp, book.root
    )
    if faults:
        raise BookError("\n".join(["nothing is released: masters do not hold", *faults]))
    points = sum(assignment.points for _, assignment in drafts)
    asked = sum(len(assignment.questions) for _, assignment in drafts)
    where = out.relative_to(book.root) if out.is_relative_to(book.root) else out
    counts = {"chapter": len(drafts), "exercise": asked, "point": points}
    words = (f"{count} {thing}{'s' * (count != 1)}" for thing, count in counts.items())
    done = [f"{where}: {', '.join(words)}"]
    with one_at_a_time(book.root):
        swap(files, out, book.root)
        if key is None and folder.resolve() == (book.root / MASTERS).resolve():
            done += write_chapters(drafts, Book(book.root))  # as they are by now
    return done


def make_drafts(book: Book, folder: Path, draws: Draws) -> list[Draft]:
    """The masters of a folder, and their assignments. Raises BookError."""
    drafts = []
    for master in read_masters(folder, book.root, draws.choose):
        if master.runner not in book.runners:
            known = ", ".join(book.runners)
            raise BookError(f"{master.where}: no runner '{master.runner}'; choose from: {known}")
        chapter = book.chapters.get(master.name)
        drafts.append((master, make_assignment(master, chapter, draws)))
    return drafts


def editions(drafts: list[Draft], book: Book) -> Files:
    """Every file of a release, by its path."""
    handed_out = student_files(drafts, book)
    files = {f"student/{name}": data for name, data in handed_out.items()}
    for kind, make in {"solution": solution, "instructor": instructor}.items():
        for master, assignment in drafts:
            files[f"{kind}/{master.name}.ipynb"] = _bytes(make(master, assignment, book))
    files["student.zip"] = zipped(handed_out)
    files[MANIFEST] = manifest([assignment for _, assignment in drafts], files)
    return files


def student_files(drafts: list[Draft], book: Book) -> Files:
    """What students get, by its path below `student/`."""
    made = {f"{master.name}.ipynb": student(master, assigned, book) for master, assigned in drafts}
    readme = student_readme([assignment for _, assignment in drafts], book)
    return {name: _bytes(each) for name, each in made.items()} | {"README.md": readme.encode()}


def _bytes(notebook: NotebookNode) -> bytes:
    return (writes(notebook) + "\n").encode()


def manifest(assigned: list[Assignment], files: Files) -> bytes:
    """What a release holds: class, chapters, points, and a hash of each file."""
    chapters = [
        {
            "name": each.name,
            "title": each.title,
            "exercises": len(each.questions),
            "points": each.points,
            "by_hand": each.points_by_hand,
        }
        for each in assigned
    ]
    hashes = {name: sha256(data).hexdigest() for name, data in sorted(files.items())}
    content = {
        "class": assigned[0].group,
        "points": sum(each["points"] for each in chapters),
        "by_hand": sum(each["by_hand"] for each in chapters),
        "chapters": chapters,
        "files": hashes,
    }
    return (json.dumps(content, indent=1) + "\n").encode()


def check_out(out: Path, root: Path) -> None:
    """Raise BookError if `out` cannot be written, or holds what no release wrote."""
    if out.exists() and not (
        out.is_dir() and (not any(out.iterdir()) or (out / MANIFEST).is_file())
    ):
        raise BookError(f"{out}: holds files that no release wrote; name another folder in OUT")
    check_writable(out.parent, root)


def swap(files: Files, out: Path, root: Path) -> None:
    """Write a release aside, then put it in the place of the one before: never half of it."""
    half, old = out.with_name(f"{out.name}.part"), out.with_name(f"{out.name}.old.part")
    try:
        for folder in (half, old):
            shutil.rmtree(folder, ignore_errors=True)
        for name, data in files.items():
            path = half / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        if out.exists():
            out.replace(old)
        half.replace(out)
    except OSError as error:
        if old.exists() and not out.exists():
            old.replace(out)
        raise cannot_write(out, root, error) from None
    finally:
        for folder in (half, old):
            shutil.rmtree(folder, ignore_errors=True)


def write_chapters(drafts: list[Draft], book: Book) -> list[str]:
    """Write the exercises of the book's chapters from their masters; returns what changed."""
    changed = []
    for master, _ in drafts:
        chapter = book.chapters.get(master.name)
        if chapter is None:
            continue
        made = book_chapter(master, chapter)
        if made.notebook != chapter.notebook:
            write_notebook(made.notebook, book.root / chapter.where, book.root)
            changed.append(f"{chapter.where}: its exercises were written; 'make book' runs them")
    return changed
