"""The site: built beside the last one, which it replaces when it is whole.

It is always built whole. That takes little longer than Sphinx's start, so there is not much
to gain from building a part. And a part would not do: a page shows the titles of all others,
and Sphinx reports a warning only when it reads the page.
"""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.errors import BookError
from tools.files import cannot_write
from tools.languages.language import read_languages

SITE, WORK, RECORD = "_build/html", "_build/work", "_build/inputs.json"
ENGLISH_FOLDER = "en"  # the folder in WORK of the book itself
# Everything that a build depends on. Caches and half-written files are none of it.
INPUTS = (
    "_config.yml",
    "_toc.yml",
    "book",
    "img",
    "kernels",
    "languages",
    "notebooks",
    "outputs",
    "tools",
    "cudasim/docs",
    "cudasim/src",
    "cudasim/facts",
    "requirements.txt",
    "requirements-no-deps.txt",
)
NO_INPUTS = (".pyc", ".part")
# Files that no page asks for.
UNPUBLISHED = (
    "*.map",
    "bootstrap.*",
    "fontawesome.*",
    "*.ttf",
    "*webpack-macros.html",
    ".buildinfo",
    "README.md",
)


def is_current(root: Path) -> bool:
    """Return whether the site was built from the files as they are now."""
    try:
        built = json.loads((root / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return (root / SITE).is_dir() and built == input_digests(root)


def build_site(root: Path) -> Path:
    """Build the site in processes that end with this one; return its folder.

    It takes the place of the last site when it is whole; a build that fails leaves that
    as it was.
    """
    inputs = input_digests(root)
    work = root / WORK
    shutil.rmtree(work, ignore_errors=True)
    try:
        parts = {"": work / ENGLISH_FOLDER}
        for code in read_languages(root):
            parts[code] = work / code
        build_parts(root, parts)

        built = join_parts(work)
        (root / RECORD).unlink(missing_ok=True)
        replace_site(built, root / SITE)
        (root / RECORD).write_text(json.dumps(inputs, indent=1), encoding="utf-8")
        return root / SITE
    except OSError as error:
        raise cannot_write(root / SITE, root, error) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def forget_build(root: Path) -> None:
    """Make `is_current` return False until the site is built again."""
    (root / RECORD).unlink(missing_ok=True)


def build_parts(root: Path, parts: dict[str, Path]) -> None:
    """Draw the site in every language, side by side; English has no code.

    `parts` are the folders to draw below. Raises BookError if one cannot be drawn.
    """
    processes = []
    try:
        for code, work in parts.items():
            processes.append(start_builder(root, work, code))
        for process in processes:
            process.wait()
        if any(process.returncode for process in processes):
            raise BookError("the site was not built; see what is said above")
    finally:
        for process in processes:
            process.kill()
            process.wait()


def start_builder(root: Path, work: Path, code: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "tools.site.builder", str(root), str(work)]
    if code:
        command.append(code)
    # In a session of its own, as Ctrl-C is for this process, which then ends that one.
    return subprocess.Popen(command, cwd=root, start_new_session=True)


def join_parts(work: Path) -> Path:
    """Move the other languages into the site in English; return its folder."""
    site = work / ENGLISH_FOLDER / "_build" / "html"
    for part in work.glob("*/_build/html"):
        if part != site:
            code = part.relative_to(work).parts[0]
            part.rename(site / code)
    return site


def replace_site(built: Path, site: Path) -> None:
    """Put `built`, less the files that no page asks for, in the place of `site`."""
    for pattern in UNPUBLISHED:
        for file in [*built.rglob(pattern)]:
            file.unlink()
    shutil.rmtree(site, ignore_errors=True)
    built.rename(site)


def input_digests(root: Path) -> dict[str, str]:
    """Return the hash of every file that a build depends on, by its path."""
    digests = {}
    for path in sorted(input_files(root)):
        content = path.read_bytes()
        where = path.relative_to(root).as_posix()
        digests[where] = hashlib.sha256(content).hexdigest()
    return digests


def input_files(root: Path) -> Iterator[Path]:
    for name in INPUTS:
        path = root / name
        files = [path] if path.is_file() else path.rglob("*")
        for file in files:
            if file.is_file() and file.suffix not in NO_INPUTS:
                yield file
