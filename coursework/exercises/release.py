"""`make release`: every edition of every master, written only if all of them hold."""

import json
from hashlib import sha256
from pathlib import Path

from coursework.exercises.assignment import (
    Assignment,
    Choice,
    make_assignment,
    worth_of,
)
from coursework.exercises.editions import (
    EDITIONS,
    PAGE,
    TEXTS,
    absolute,
    book_chapter,
    edition,
)
from coursework.exercises.masters import Master, is_free, read_master
from coursework.exercises.variants import BOOK, Draws, draws_of
from coursework.exercises.verify import Grade, KeyOf, leaks, trials, verify
from tools.book.book import Book
from tools.book.links import notebook_links
from tools.book.notebooks import notebook_text
from tools.book.repository import Repository
from tools.errors import BookError
from tools.files import check_writable, write_files, written_by, zipped
from tools.record.execute import one_at_a_time

MASTERS = "masters"
MANIFEST = "manifest.json"
# What a handout links to: not Kaggle, where a notebook is not handed in as a file, nor Binder,
# which would need a file of requirements beside it. The fourth is where no hub is known.
SERVICES = (
    "Google Colab",
    "SageMaker Studio Lab",
    "JupyterHub",
    "Your JupyterHub",
    "Download",
)

Draft = tuple[Master, Assignment]
Files = dict[str, bytes]  # by path


def release(
    book: Book,
    grade: Grade,
    key_of: KeyOf,
    key: str | None = None,
    masters: Path | None = None,
    out: Path | None = None,
    choice: Choice | None = None,
) -> list[str]:
    """Verify the masters of a folder, or what a `choice` sets of one, and write their editions, for
    the book its chapters' exercises too; returns what was done. Raises BookError, a line for each
    thing that does not hold, before anything is written."""
    draws, folder = draws_of(key), masters or book.root / MASTERS
    drafts = make_drafts(book, folder, draws, choice)
    out = out or book.root / "_build" / "release" / draws.fingerprint
    told, chapters, files = read_manifest(out), {}, {}
    check_writable(out.parent, book.root)
    if told and choice:
        if told["class"] != draws.fingerprint:
            fault = f"holds the release of class {told['class']}"
            raise BookError(f"{out}: {fault}; name another folder in OUT")
        chapters = {chapter["name"]: chapter for chapter in told["chapters"]}
        there = (name for name in told["files"] if name.endswith(".ipynb"))
        files = {
            name: (out / name).read_bytes() for name in there if (out / name).is_file()
        }
    faults, all_trials = [], []
    for master, assignment in drafts:
        points, by_hand = worth_of(assignment)
        about = {
            "name": master.name,
            "title": master.title,
            "exercises": len(master.exercises),
        }
        chapters[master.name] = about | {"points": points, "by_hand": by_hand}
        for kind in EDITIONS:
            made = notebook_text(edition(kind, master, assignment, book))
            files[f"{kind}/{master.name}.ipynb"] = made.encode()
        faults += leaks(
            master, assignment, files[f"student/{master.name}.ipynb"].decode()
        )
        all_trials += trials(master, assignment)
    faults = faults or verify(all_trials, grade, key_of, book.root)
    if faults:
        raise BookError(
            "\n".join(["nothing is released: masters do not hold", *faults])
        )
    files = whole(
        files, [chapters[name] for name in sorted(chapters)], draws.fingerprint, book
    )
    where = out.relative_to(book.root) if out.is_relative_to(book.root) else out
    done = [f"{where}: written: {', '.join(master.name for master, _ in drafts)}"]
    is_own = (
        draws.fingerprint == BOOK
        and folder.resolve() == (book.root / MASTERS).resolve()
    )
    with one_at_a_time(book.root):
        write_files({out / name: data for name, data in files.items()}, book.root)
        for name in (
            told.get("files", {}).keys() - files.keys()
        ):  # of a master that went
            (out / name).unlink(missing_ok=True)
        if is_own and choice in (None, choice and Choice(choice.where, choice.chapter)):
            done += write_chapters(drafts, Book(book.root))  # as they are by now
    return done


def make_drafts(
    book: Book, where: Path, draws: Draws, choice: Choice | None = None
) -> list[Draft]:
    """Masters of a folder, or what is chosen of one, with their assignments. Raises BookError."""
    paths = {path.stem: path for path in sorted(where.glob("*.md"))}
    if not paths:
        raise BookError(
            f"{where}: no master in it; name a folder that holds some: chapter.md"
        )
    if choice and choice.chapter not in paths:
        fault = f"no exercises for '{choice.chapter}'"
        raise BookError(f"{choice.where}: {fault}; choose from: {', '.join(paths)}")
    drafts = []
    for path in [paths[choice.chapter]] if choice else paths.values():
        master = read_master(path, book.root, draws.choose)
        if master.runner not in book.runners:
            known = ", ".join(book.runners)
            raise BookError(
                f"{master.where}: no runner '{master.runner}'; choose from: {known}"
            )
        master = choice.of(master) if choice else master
        made = make_assignment(master, book.chapters.get(master.name), draws)
        if choice and choice.due:
            made["due"] = choice.due.isoformat()
        if choice and choice.late:
            made["late"] = choice.late.as_json()
        drafts.append((master, made))
    return drafts


def whole(files: Files, chapters: list[dict], group: str, book: Book) -> Files:
    """Notebooks with what lies beside them: a text and a zip for students, and the manifest."""
    readme = absolute(TEXTS.readme(chapters, PAGE), book.repository)
    files = files | {"student/README.md": readme.encode()}
    student = [name for name in files if name.startswith("student/")]
    files["student.zip"] = zipped({Path(name).name: files[name] for name in student})
    sums = {
        thing: sum(told[thing] for told in chapters) for thing in ("points", "by_hand")
    }
    hashes = {name: sha256(data).hexdigest() for name, data in sorted(files.items())}
    content = {"class": group, **sums, "chapters": chapters, "files": hashes}
    return {MANIFEST: (json.dumps(content, indent=1) + "\n").encode()} | files


def read_manifest(out: Path) -> dict:
    if is_free(out):
        return {}
    if not (out / MANIFEST).is_file():
        raise BookError(
            f"{out}: holds files that no release wrote; name another folder in OUT"
        )
    with written_by("make release", str(out / MANIFEST), "name another folder in OUT"):
        told = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
        return {name: told[name] for name in ("class", "chapters", "files")}


def handout(out: Path, repository: Repository) -> str:
    """A line of Markdown for each notebook of a release, with links to a repository that holds its
    folder `student/`; nbgitpuller merges later changes into what students wrote."""
    if not (told := read_manifest(out)):
        raise BookError(f"{out}: no release; write one with 'make release' first")
    lines = []
    for chapter in told["chapters"]:
        links = notebook_links(f"{chapter['name']}.ipynb", repository)
        shown = (
            f"[{link.label}]({link.url})" for link in links if link.label in SERVICES
        )
        lines.append(f"- {chapter['title']}: {', '.join(shown)}")
    return "\n".join(lines)


def write_chapters(drafts: list[Draft], book: Book) -> list[str]:
    """Write the exercises of the book's chapters from their masters; returns what changed."""
    made = {}
    for master, _ in drafts:
        chapter = book.chapters.get(master.name)
        if (
            chapter
            and (new := book_chapter(master, chapter).notebook) != chapter.notebook
        ):
            made[chapter.where] = notebook_text(new)
    write_files({book.root / where: text for where, text in made.items()}, book.root)
    return [
        f"{where}: its exercises were written; 'make book' runs them" for where in made
    ]
