"""The site: a Sphinx extension that shows chapters with their outputs, and its build.

The extension uses Sphinx's documented events only: `source-read` replaces a chapter's
text by the chapter merged with its outputs, `html-page-context` describes a page.

The build is all or nothing. It takes about two seconds, most of them Sphinx's start, so
there is little to gain from building a part. And a part would not do: a page shows the
titles of all others, and Sphinx tells a warning only when it reads the page.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
from docutils import nodes
from markupsafe import escape
from sphinx.errors import ExtensionError

from tools.environment import PINS
from tools.errors import BookError
from tools.page.merge import chapter_page, page_notes
from tools.run.recordings import outputs_path, recorded_runners
from tools.source.chapters import ROOT, chapter_names, toc_documents

if TYPE_CHECKING:
    from sphinx.application import Sphinx

INPUTS = (
    *("_config.yml", "_toc.yml", "book", "img", "kernels", "notebooks", "outputs"),
    *("tests/fidelity", *PINS),
)
# Files that no page asks for.
UNPUBLISHED = ("*.map", "fontawesome.js*", "*webpack-macros.html", ".buildinfo")


def setup(app: "Sphinx") -> dict[str, bool]:
    """Connect the extension, and those it brings along, to Sphinx."""
    app.setup_extension("tools.page.formulas")
    app.setup_extension("tools.page.status")
    app.setup_extension("tools.page.fidelity")
    app.setup_extension("tools.page.tabs")
    app.setup_extension("tools.page.theme")
    app.setup_extension("tools.page.images")
    app.setup_extension("tools.page.launch")
    app.connect("source-read", show_outputs)
    app.connect("html-page-context", describe_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def show_outputs(app: "Sphinx", docname: str, source: list[str]) -> None:
    """Replace the text of a chapter by its page: the chapter with its outputs."""
    path, root = Path(app.env.doc2path(docname)), Path(app.srcdir)
    if path.suffix != ".ipynb":
        return
    try:
        for runner in recorded_runners(root):
            app.env.note_dependency(str(outputs_path(path.stem, runner, root)))
        source[0] = nbformat.writes(chapter_page(path.stem, root))
    except BookError as error:
        raise ExtensionError(str(error)) from None


def describe_page(
    app: "Sphinx",
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Give search engines the first paragraph of the page as its description."""
    if doctree is None:  # the search page and its like
        return
    for paragraph in doctree.findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.section):  # not one of a table or a note
            text = escape(textwrap.shorten(paragraph.astext(), 160, placeholder=" ..."))
            context["metatags"] += f'\n<meta name="description" content="{text}">'
            return


def build_site(root: Path = ROOT) -> Path:
    """Build the site unless no input changed; returns the folder it lies in.

    Sphinx writes into `_build/work`, which becomes `_build/html` only when all of it is
    written without a warning. A build that fails, or is killed at any point, leaves the
    last good site as it was. Raises BookError if the build fails.
    """
    work, site, record = (root / "_build" / name for name in ("work", "html", "inputs.json"))
    inputs = input_digests(root)
    if site.is_dir() and _read_json(record) == inputs:
        print(f"site: nothing changed: {site / 'index.html'}")
        return site
    print(f"site: building {len(toc_documents(root))} pages", flush=True)
    for name in chapter_names(root):
        chapter_page(name, root)  # told here, a fault is one line; Sphinx adds a traceback
        for note in page_notes(name, root):
            print(f"note: {note}", flush=True)
    _remove(work)
    try:
        run_jupyter_book(root, work)
        replace_site(work / "_build" / "html", site)
    finally:
        _remove(work)
    record.write_text(json.dumps(inputs, indent=1), encoding="utf-8")
    print(f"site: {site / 'index.html'}")
    return site


def run_jupyter_book(root: Path, work: Path) -> None:
    """Have Jupyter Book write the site below `work`; a warning is an error."""
    program = Path(sys.executable).with_name("jupyter-book")
    options = ["--path-output", work, "-W", "--keep-going", "-n", "-q"]
    built = subprocess.run([program, "build", root, *options], stdout=subprocess.DEVNULL)
    if built.returncode:
        raise BookError("the site was not built; mend what is told above")


def replace_site(built: Path, site: Path) -> None:
    """Put `built`, less the files that no page asks for, in the place of `site`.

    Two renames do it: whoever looks finds the old site, the new one or, for an instant,
    none, but never half of one.
    """
    for pattern in UNPUBLISHED:
        for file in built.rglob(pattern):
            file.unlink()
    old = site.with_name("html.old")
    _remove(old)
    if site.is_dir():
        site.rename(old)
    built.rename(site)
    _remove(old)


def input_digests(root: Path = ROOT) -> dict[str, str]:
    """The digest of every file that the site is made from, by its path."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(_input_files(root))
    }


def _input_files(root: Path) -> Iterator[Path]:
    for name in INPUTS:
        path = root / name
        for file in path.rglob("*") if path.is_dir() else [path]:
            if file.is_file() and file.suffix not in (".pyc", ".part"):
                yield file


def _read_json(path: Path) -> dict[str, str] | None:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
