"""`make release`: every edition of every master, written only if all of them hold."""

import json
import shutil
from hashlib import sha256
from pathlib import Path

from tools.book.book import Book
from tools.book.notebooks import notebook_text, write_notebook
from tools.errors import BookError
from tools.exercises.archive import zipped
from tools.exercises.assignment import Assignment, make_assignment, points_by_hand, points_of
from tools.exercises.choice import Choice
from tools.exercises.editions import EDITIONS, book_chapter, edition, student_readme
from tools.exercises.masters import Master, read_master
from tools.exercises.variants import BOOK, Draws, draws_of
from tools.exercises.verify import Grade, Stamp, leaks, trials, unsound, verify
from tools.files import cannot_write, check_writable, written_by
from tools.record.execute import one_at_a_time

MASTERS = "masters"
MANIFEST = "manifest.json"

Draft = tuple[Master, Assignment]
Files = dict[str, bytes]  # by path


def release(
    book: Book,
    grade: Grade,
    stamp: Stamp,
    key: str | None = None,
    masters: Path | None = None,
    out: Path | None = None,
    choice: Choice | None = None,
) -> list[str]:
    """Verify the masters of a folder and write their editions; returns a line for each thing done.

    Of what a `choice` sets alone, if there is one: other chapters stay as they were released.
    Without a key and another folder of masters, the exercises in the book's own chapters are
    written as well. `grade` and `stamp` are what `verify` needs. Raises BookError, a line for each
    thing that does not hold, before anything is written.
    """
    draws, folder = draws_of(key), masters or book.root / MASTERS
    drafts = make_drafts(book, folder, draws, choice)
    out = out or book.root / "_build" / "release" / draws.fingerprint
    check_out(out, book.root)
    chapters, files = earlier(out, draws.fingerprint) if choice else ({}, {})
    chapters |= {master.name: _entry(assignment) for master, assignment in drafts}
    for master, assignment in drafts:
        for kind in EDITIONS:
            made = notebook_text(edition(kind, master, assignment, book))
            files[f"{kind}/{master.name}.ipynb"] = made.encode()
    files = whole(files, [chapters[name] for name in sorted(chapters)], draws.fingerprint, book)
    faults = [line for master, _ in drafts for line in unsound(master)]
    for master, assignment in drafts:
        names = (f"student/{master.name}.ipynb", "student/README.md")
        faults += leaks(master, assignment, {name: files[name] for name in names})
    faults = faults or verify(
        [trial for draft in drafts for trial in trials(*draft)], grade, stamp, book.root
    )
    if faults:
        raise BookError("\n".join(["nothing is released: masters do not hold", *faults]))
    where = out.relative_to(book.root) if out.is_relative_to(book.root) else out
    counts = {
        "chapter": len(drafts),
        "exercise": sum(len(assignment["questions"]) for _, assignment in drafts),
        "point": sum(points_of(assignment) for _, assignment in drafts),
    }
    words = (f"{count} {thing}{'s' * (count != 1)}" for thing, count in counts.items())
    done = [f"{where}: {', '.join(words)}"]
    with one_at_a_time(book.root):
        swap(files, out, book.root)
        is_own = draws.fingerprint == BOOK and folder.resolve() == (book.root / MASTERS).resolve()
        if is_own and (choice is None or choice.is_whole):
            done += write_chapters(drafts, Book(book.root))  # as they are by now
    return done


def make_drafts(
    book: Book, folder: Path, draws: Draws, choice: Choice | None = None
) -> list[Draft]:
    """Masters of a folder, or what is chosen of one, with their assignments. Raises BookError."""
    drafts = []
    for path in master_paths(folder, choice):
        master = read_master(path, book.root, draws.choose)
        if master.runner not in book.runners:
            known = ", ".join(book.runners)
            raise BookError(f"{master.where}: no runner '{master.runner}'; choose from: {known}")
        master = choice.of(master) if choice else master
        made = make_assignment(master, book.chapters.get(master.name), draws)
        if choice and choice.due:
            made["due"] = choice.due.isoformat()
        drafts.append((master, made))
    return drafts


def master_paths(folder: Path, choice: Choice | None) -> list[Path]:
    """The masters in a folder, or the one that is chosen. Raises BookError if there is none."""
    if not folder.is_dir():
        raise BookError(f"{folder}: no such folder; name one that holds masters (chapter.md)")
    paths = sorted(folder.glob("*.md"))
    if not paths:
        raise BookError(f"{folder}: no master in it; write one: chapter.md, see CONTRIBUTING.md")
    chosen = [path for path in paths if not choice or path.stem == choice.chapter]
    if not chosen:
        names = ", ".join(path.stem for path in paths)
        raise BookError(f"{choice.where}: no such master; choose from: {names}")
    return chosen


def _entry(assignment: Assignment) -> dict:
    return {
        "name": assignment["name"],
        "title": assignment["title"],
        "exercises": len(assignment["questions"]),
        "points": points_of(assignment),
        "by_hand": points_by_hand(assignment),
    }


def whole(files: Files, chapters: list[dict], group: str, book: Book) -> Files:
    """Notebooks with what lies beside them: a text and a zip for students, and the manifest."""
    files = files | {"student/README.md": student_readme(chapters, book).encode()}
    start = "student/"
    files["student.zip"] = zipped(
        {name.removeprefix(start): data for name, data in files.items() if name.startswith(start)}
    )
    content = {
        "class": group,
        "points": sum(chapter["points"] for chapter in chapters),
        "by_hand": sum(chapter["by_hand"] for chapter in chapters),
        "chapters": chapters,
        "files": {name: sha256(data).hexdigest() for name, data in sorted(files.items())},
    }
    return files | {MANIFEST: (json.dumps(content, indent=1) + "\n").encode()}


def earlier(out: Path, own: str) -> tuple[dict[str, dict], Files]:
    """The chapters and notebooks that a folder holds. Raises BookError if of another class."""
    if not (out / MANIFEST).is_file():
        return {}, {}
    with written_by("make release", str(out / MANIFEST)):
        told = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
        chapters = {chapter["name"]: chapter for chapter in told["chapters"]}
        names = [name for name in told["files"] if name.endswith(".ipynb")]
        group = told["class"]
    if group != own:
        raise BookError(f"{out}: holds the release of class {group}; name another folder in OUT")
    return chapters, {name: (out / name).read_bytes() for name in names if (out / name).is_file()}


def check_out(out: Path, root: Path) -> None:
    """Raise BookError if `out` cannot be written, or holds what no release wrote."""
    empty = not out.exists() or (out.is_dir() and not any(out.iterdir()))
    if not empty and not (out / MANIFEST).is_file():
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
