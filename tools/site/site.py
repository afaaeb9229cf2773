"""The site: built beside the last one, which it replaces when it is whole.

It is always built whole. That takes about two seconds, most of them Sphinx's start, so there is
little to gain from building a part. And a part would not do: a page shows the titles of all
others, and Sphinx reports a warning only when it reads the page.
"""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

from tools.errors import BookError
from tools.files import cannot_write
from tools.languages.language import read_languages

SITE, WORK, RECORD = "_build/html", "_build/work", "_build/inputs.json"
# Everything that a build depends on. Caches and half-written files are none of it.
INPUTS = (
    *(
        "_config.yml",
        "_toc.yml",
        "book",
        "img",
        "kernels",
        "languages",
        "notebooks",
        "outputs",
    ),
    *(
        "tools",
        "cudasim/src",
        "cudasim/facts",
        "requirements.txt",
        "requirements-no-deps.txt",
    ),
)
# Files that no page asks for.
UNPUBLISHED = (
    "*.map bootstrap.* fontawesome.* *.ttf *webpack-macros.html .buildinfo README.md"
)


def is_current(root: Path) -> bool:
    """True if the site was built from the files as they are, and so nothing can be stale."""
    try:
        built = json.loads((root / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return (root / SITE).is_dir() and built == input_digests(root)


def build_site(root: Path) -> Path:
    """Build the site, in a process that ends with this one; returns its folder. It takes the place
    of the last one when it is whole; a build that fails leaves that as it was."""
    inputs, work = input_digests(root), root / WORK
    shutil.rmtree(work, ignore_errors=True)
    try:
        # Side by side, the book and its editions in other languages.
        build_parts(
            root, {code: work / (code or "en") for code in ("", *read_languages(root))}
        )
        built = work / "en" / "_build" / "html"
        for part in work.glob("*/_build/html"):
            if part != built:
                part.rename(built / part.parents[1].name)
        (root / RECORD).unlink(missing_ok=True)
        replace_site(built, root / SITE)
        (root / RECORD).write_text(json.dumps(inputs, indent=1), encoding="utf-8")
        return root / SITE
    except OSError as error:
        raise cannot_write(root / SITE, root, error) from None
    finally:
        shutil.rmtree(root / WORK, ignore_errors=True)


def build_parts(root: Path, parts: dict[str, Path]) -> None:
    """Draw the site in each language, below its folder. Raises BookError if one cannot be."""
    command, processes = [sys.executable, "-m", "tools.site.builder", str(root)], []
    try:
        for code, work in parts.items():
            # In a session of its own, as Ctrl-C is for this process, which then ends that one.
            started = subprocess.Popen(
                [*command, str(work), *filter(None, [code])],
                cwd=root,
                start_new_session=True,
            )
            processes.append(started)
        for process in processes:
            process.wait()
        if any(process.returncode for process in processes):
            raise BookError("the site was not built; see what is said above")
    finally:
        for process in processes:
            process.kill()
            process.wait()


def replace_site(built: Path, site: Path) -> None:
    """Put `built`, less the files that no page asks for, in the place of `site`."""
    for file in [
        file for pattern in UNPUBLISHED.split() for file in built.rglob(pattern)
    ]:
        file.unlink(missing_ok=True)  # one may match two patterns
    shutil.rmtree(site, ignore_errors=True)
    built.rename(site)


def input_digests(root: Path) -> dict[str, str]:
    paths = (root / name for name in INPUTS)
    files = (
        file
        for path in paths
        for file in ([path] if path.is_file() else path.rglob("*"))
    )
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(files)
        if path.is_file() and path.suffix not in (".pyc", ".part")
    }
