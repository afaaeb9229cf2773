"""`make release`: every edition of every master, written only if all masters hold."""

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from coursework.exercises.assignment import (
    MASTERS,
    Choice,
    Draft,
    make_drafts,
    worth_of,
)
from coursework.exercises.editions import (
    EDITIONS,
    PAGE,
    TEXTS,
    book_chapter,
    edition,
)
from coursework.exercises.masters import is_free
from coursework.exercises.tasks import BOOK, draws_of
from coursework.exercises.verify import Grader, KeyOf, leaks, trials, verify
from tools.book.addresses import absolute_links
from tools.book.book import Book
from tools.book.notebooks import notebook_text
from tools.book.repository import Repository, notebook_links
from tools.errors import BookError
from tools.files import check_writable, write_files, written_by, zipped
from tools.record.execute import one_at_a_time

MANIFEST = "manifest.json"
OTHER_FOLDER = "name another folder in OUT"
# What a handout links to. Kaggle is left out, because a notebook there is not handed in as
# a file, and Binder, which would need a file of requirements in the repository. "Your
# JupyterHub" is the link where no hub is known.
SERVICES = (
    "Google Colab",
    "SageMaker Studio Lab",
    "JupyterHub",
    "Your JupyterHub",
    "Download",
)

Files = dict[str, bytes]  # by path


@dataclass(frozen=True)
class ReleasedChapter:
    """What a manifest says about the exercises of a chapter."""

    name: str
    title: str
    exercises: int
    points: int
    by_hand: int


@dataclass(frozen=True)
class Manifest:
    """What a release holds."""

    group: str  # the fingerprint of its class
    chapters: list[ReleasedChapter]
    files: dict[str, str]  # the SHA-256 of each, by path


def release(
    book: Book,
    grade: Grader,
    key_of: KeyOf,
    key: str | None = None,
    masters: Path | None = None,
    out: Path | None = None,
    choice: Choice | None = None,
) -> list[str]:
    """Verify the masters of a folder, and write their editions.

    With a `choice`, only what it chooses is written, and the rest of an earlier release
    stays. The book's own release also writes the exercises of its chapters. Returns what
    was done. Raises BookError, with a line for each fault, before anything is written.
    """
    draws = draws_of(key)
    folder = masters or book.root / MASTERS
    out = out or book.root / "_build" / "release" / draws.fingerprint
    drafts = make_drafts(book.root, folder, draws, choice)
    before = read_manifest(out)
    check_writable(out.parent, book.root)

    chapters: dict[str, ReleasedChapter] = {}
    notebooks: Files = {}
    if before and choice:
        if before.group != draws.fingerprint:
            fault = f"holds the release of class {before.group}"
            raise BookError(f"{out}: {fault}; {OTHER_FOLDER}")
        chapters = {chapter.name: chapter for chapter in before.chapters}
        notebooks = _notebooks_of(before, out)
    for draft in drafts:
        chapters[draft.master.name] = _released_chapter(draft)
        notebooks |= _editions(draft, book)
    _check_drafts(drafts, notebooks, grade, key_of, book)

    in_order = [chapters[name] for name in sorted(chapters)]
    files = _with_overview(notebooks, in_order, draws.fingerprint, book)
    where = out.relative_to(book.root) if out.is_relative_to(book.root) else out
    names = ", ".join(draft.master.name for draft in drafts)
    done = [f"{where}: written: {names}"]
    with one_at_a_time(book.root):
        write_files({out / name: data for name, data in files.items()}, book.root)
        if before:
            for name in before.files.keys() - files.keys():  # of a master that is gone
                (out / name).unlink(missing_ok=True)
        is_own_master = folder.resolve() == (book.root / MASTERS).resolve()
        is_whole = choice is None or choice.is_whole_chapter
        if draws.fingerprint == BOOK and is_own_master and is_whole:
            # Read again: a chapter may have changed while its masters were verified.
            done += write_chapters(drafts, Book(book.root))
    return done


def _released_chapter(draft: Draft) -> ReleasedChapter:
    points, by_hand = worth_of(draft.assignment)
    master = draft.master
    return ReleasedChapter(
        master.name, master.title, len(master.exercises), points, by_hand
    )


def _editions(draft: Draft, book: Book) -> Files:
    files = {}
    for kind in EDITIONS:
        notebook = edition(kind, draft.master, draft.assignment, book)
        files[f"{kind}/{draft.master.name}.ipynb"] = notebook_text(notebook).encode()
    return files


def _notebooks_of(manifest: Manifest, out: Path) -> Files:
    notebooks = {}
    for name in manifest.files:
        if name.endswith(".ipynb") and (out / name).is_file():
            notebooks[name] = (out / name).read_bytes()
    return notebooks


def _check_drafts(
    drafts: list[Draft], notebooks: Files, grade: Grader, key_of: KeyOf, book: Book
) -> None:
    """Raise BookError, with a line for each thing that does not hold."""
    faults = []
    all_trials = []
    for master, assignment in drafts:
        student = notebooks[f"student/{master.name}.ipynb"].decode()
        faults += leaks(master, assignment, student)
        all_trials += trials(master, assignment)
    if not faults:
        faults = verify(all_trials, grade, key_of, book.root)
    if faults:
        head = "nothing is released: some masters are wrong"
        raise BookError("\n".join([head, *faults]))


def _with_overview(
    notebooks: Files, chapters: list[ReleasedChapter], group: str, book: Book
) -> Files:
    """Add what lies beside the notebooks: a README and a zip for students, the manifest."""
    readme = absolute_links(TEXTS.readme(chapters, PAGE), "", book.repository)
    files = notebooks | {"student/README.md": readme.encode()}
    for_students = {}
    for name, data in files.items():
        if name.startswith("student/"):
            for_students[Path(name).name] = data
    files["student.zip"] = zipped(for_students)

    hashes = {}
    for name in sorted(files):
        hashes[name] = sha256(files[name]).hexdigest()
    manifest = {
        "class": group,
        "points": sum(chapter.points for chapter in chapters),
        "by_hand": sum(chapter.by_hand for chapter in chapters),
        "chapters": [asdict(chapter) for chapter in chapters],
        "files": hashes,
    }
    text = json.dumps(manifest, indent=1) + "\n"
    return {MANIFEST: text.encode()} | files


def read_manifest(out: Path) -> Manifest | None:
    """Return the manifest of a release, or None if the folder is free. Raises BookError."""
    if is_free(out):
        return None
    path = out / MANIFEST
    if not path.is_file():
        raise BookError(f"{out}: contains files that no release wrote; {OTHER_FOLDER}")
    with written_by("make release", str(path), OTHER_FOLDER):
        content = json.loads(path.read_text(encoding="utf-8"))
        chapters = [ReleasedChapter(**chapter) for chapter in content["chapters"]]
        return Manifest(content["class"], chapters, content["files"])


def handout(out: Path, repository: Repository) -> str:
    """Return a line of Markdown with links for each chapter of a release.

    They lead to a repository that holds its folder `student/`. On a JupyterHub,
    nbgitpuller merges later changes into what students wrote.
    """
    manifest = read_manifest(out)
    if manifest is None:
        raise BookError(f"{out}: no release; write one with 'make release' first")
    lines = []
    for chapter in manifest.chapters:
        links = []
        for link in notebook_links(f"{chapter.name}.ipynb", repository):
            if link.label in SERVICES:
                links.append(f"[{link.label}]({link.url})")
        lines.append(f"- {chapter.title}: {', '.join(links)}")
    return "\n".join(lines)


def write_chapters(drafts: list[Draft], book: Book) -> list[str]:
    """Write the exercises of the book's chapters; return a line for each that changed."""
    changed = {}
    lines = []
    for master, _ in drafts:
        chapter = book.chapters.get(master.name)
        if chapter is None:
            continue
        notebook = book_chapter(master, chapter, book.repository).notebook
        if notebook != chapter.notebook:
            changed[book.root / chapter.where] = notebook_text(notebook)
            lines.append(
                f"{chapter.where}: its exercises were written; 'make book' runs them"
            )
    write_files(changed, book.root)
    return lines
