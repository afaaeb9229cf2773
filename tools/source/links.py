"""Where readers run a chapter: links to services, from the one place that names the repository.

That place is `repository:` in `_config.yml`. `make links` changes it, and writes what depends
on it: a row of links and the set-up cell into every chapter, a list into `README.md`. As a
Sphinx extension this module draws the row of a chapter's page.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import yaml
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from tools.errors import BookError
from tools.source.chapters import (
    ROOT,
    SETUP,
    chapter_names,
    code_cells,
    read_chapter,
    tags,
    write_notebook,
)
from tools.source.setup_cells import setup_source

if TYPE_CHECKING:
    pass

HOST = "https://github.com/"
NO_HUB = "none"
CELL = "links"  # id of the cell that holds a chapter's row of links
BLOCK = re.compile(r"^repository:\n(?: .*\n)*", re.M)
LIST = re.compile(r"(<!-- make links -->\n).*?(<!-- end -->)", re.S)

SENTENCE = (
    "Run the set-up cell first, and run it again after a restart of the kernel. Its first line "
    "is a switch: `SIMULATE_GPUS = True` gives two simulated GPUs to a machine that has fewer."
)


@dataclass(frozen=True)
class Repository:
    """Where the book is published. `hub` is a JupyterHub with nbgitpuller, or empty."""

    owner: str
    name: str
    branch: str
    hub: str = ""

    @property
    def url(self) -> str:
        """The address of the repository, for people and for git."""
        return f"{HOST}{self.owner}/{self.name}"


@dataclass(frozen=True)
class Link:
    """One way to run a chapter: what it is called, where it leads, what a reader does there."""

    label: str
    url: str
    advice: str


def launch_links(chapter: str, repository: Repository) -> list[Link]:
    """The links of a chapter. Each has the form that its service documents:

    - Colab: https://colab.research.google.com/github/googlecolab/colabtools, the notebook
      `colab-github-demo.ipynb`.
    - Studio Lab: https://github.com/aws/studio-lab-examples, `open-in-studio-lab/README.md`.
    - Kaggle: the address under its badge *Open in Kaggle*.
    - Binder: https://mybinder.readthedocs.io, "User interfaces".
    - nbgitpuller: https://nbgitpuller.readthedocs.io, "Options in an nbgitpuller URL" and, where
      no hub is known, its link generator, which asks for the address of the hub.
    """
    path = f"notebooks/{chapter}.ipynb"
    slug = f"{repository.owner}/{repository.name}"
    file = f"{slug}/blob/{repository.branch}/{path}"
    pull = urlencode(
        {
            "repo": repository.url,
            "branch": repository.branch,
            "urlpath": f"lab/tree/{repository.name}/{path}",
        },
        quote_via=quote,
        safe="",
    )
    generator = "https://nbgitpuller.readthedocs.io/en/latest/link.html"
    hub = f"{repository.hub}/hub/user-redirect/git-pull" if repository.hub else generator
    branch = quote(repository.branch, safe="")
    return [
        Link(
            "Google Colab",
            f"https://colab.research.google.com/github/{file}",
            "asks for a T4 GPU by itself",
        ),
        Link(
            "SageMaker Studio Lab",
            f"https://studiolab.sagemaker.aws/import/github/{file}",
            "choose *GPU*, start the runtime, *Copy to project*",
        ),
        Link(
            "Kaggle",
            f"https://kaggle.com/kernels/welcome?src={HOST}{file}",
            "in the settings switch *Internet* on, and for two GPUs choose *GPU T4 x2*",
        ),
        Link(
            "Binder",
            f"https://mybinder.org/v2/gh/{slug}/{branch}?urlpath=lab/tree/{path}",
            "no account and no GPU; the first start takes minutes",
        ),
        Link(
            "JupyterHub" if repository.hub else "Your JupyterHub",
            f"{hub}?{pull}",
            "pulls the book into your class's server"
            + ("" if repository.hub else "; the page asks for its address"),
        ),
        Link(
            "Download",
            f"https://raw.githubusercontent.com/{slug}/{repository.branch}/{path}",
            "for Jupyter or VS Code on a laptop, with Python 3.9 or later",
        ),
    ]


def read_repository(root: Path = ROOT) -> Repository:
    """The repository that `_config.yml` names. Raises BookError if it names none, or a bad one."""
    try:
        text = (root / "_config.yml").read_text(encoding="utf-8")
        entry = (yaml.safe_load(text) or {}).get("repository")
    except FileNotFoundError:
        raise BookError(
            "_config.yml: no such file; restore it with 'git checkout _config.yml'"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError, AttributeError) as error:
        where = " ".join(str(error).split())
        raise BookError(f"_config.yml: not valid YAML; mend it there: {where}") from None
    if not isinstance(entry, dict) or not BLOCK.search(text):
        raise BookError("_config.yml: no 'repository:' entry with 'url' and 'branch'; add one")
    slug = str(entry.get("url") or "").removeprefix(HOST)
    try:
        return make_repository(
            slug, str(entry.get("branch") or ""), str(entry.get("hub") or NO_HUB)
        )
    except BookError as error:
        raise BookError(f"_config.yml: {error}") from None


def make_repository(slug: str, branch: str, hub: str = NO_HUB) -> Repository:
    """A repository from `owner/name`. Raises BookError for what GitHub, git or a link forbids."""
    match = re.fullmatch(r"([A-Za-z\d](?:-?[A-Za-z\d]){0,38})/([\w.-]{1,100})", slug, re.A)
    if match is None or match[2] in (".", "..") or match[2].endswith(".git"):
        raise BookError(f"repository '{slug}': not of the form owner/name; name one on GitHub")
    if not re.fullmatch(r"(?![-/.])(?!.*(//|\.\.|\.lock$|[/.]$))[\w./-]+", branch, re.A):
        raise BookError(f"branch '{branch}': no name of a branch; use letters, digits and . _ - /")
    hub = "" if hub == NO_HUB else hub.rstrip("/")
    if hub and not re.fullmatch(r"https?://[\w.-]+(:\d+)?(/[\w.~-]+)*", hub, re.A):
        raise BookError(
            f"hub '{hub}': not the address of a JupyterHub; write https://hub.example.org, "
            f"or '{NO_HUB}' for none"
        )
    return Repository(match[1], match[2], branch, hub)


def set_links(
    slug: str | None = None, branch: str | None = None, hub: str | None = None, root: Path = ROOT
) -> list[str]:
    """Name another repository, if one is given, and write all that depends on it.

    All is made before anything is written. Returns the files that changed.
    """
    old = read_repository(root) if None in (slug, branch, hub) else None
    repository = make_repository(
        slug if slug is not None else f"{old.owner}/{old.name}",
        branch if branch is not None else old.branch,
        hub if hub is not None else old.hub or NO_HUB,
    )
    changes = planned_changes(repository, root)
    for name, change in changes.items():
        if isinstance(change, NotebookNode):
            write_notebook(change, root / name)
        else:
            half = root / f"{name}.part"
            half.write_text(change, encoding="utf-8")
            half.replace(root / name)
    return list(changes)


def planned_changes(repository: Repository, root: Path = ROOT) -> dict[str, NotebookNode | str]:
    """What each file has to become that does not fit `repository`, by its path."""
    changes: dict[str, NotebookNode | str] = {}
    for name in chapter_names(root):
        chapter = read_chapter(name, root)
        if write_row(chapter, name, repository) | write_setup(chapter, name, repository, root):
            changes[f"notebooks/{name}.ipynb"] = chapter
    for name, make in {"README.md": readme_text, "_config.yml": config_text}.items():
        text = make(repository, root)
        if text != (root / name).read_text(encoding="utf-8"):
            changes[name] = text
    return changes


def config_text(repository: Repository, root: Path = ROOT) -> str:
    """`_config.yml` with this repository in it."""
    text = (root / "_config.yml").read_text(encoding="utf-8")
    block = (
        "repository:\n"
        f"  url: {repository.url}\n"
        f"  branch: {repository.branch}\n"
        f"  hub: {repository.hub or NO_HUB}\n"
    )
    return BLOCK.sub(block, text, count=1)


def readme_text(repository: Repository, root: Path = ROOT) -> str:
    """`README.md` with this repository's links between the two comments."""
    path = root / "README.md"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if not LIST.search(text):
        raise BookError(
            "README.md: no '<!-- make links -->' followed by '<!-- end -->'; add both lines"
        )
    titles = {name: title(read_chapter(name, root)) for name in chapter_names(root)}
    columns = zip(*(launch_links(name, repository) for name in titles), strict=True)
    lines = [
        f"- **{links[0].label}** ({links[0].advice}): "
        + ", ".join(
            f"[{head}]({link.url})" for head, link in zip(titles.values(), links, strict=True)
        )
        for links in columns
    ]
    return LIST.sub(lambda match: match[1] + "\n".join(lines) + "\n" + match[2], text)


def title(chapter: NotebookNode) -> str:
    """The heading of a chapter."""
    return chapter.cells[0].source.partition("\n")[0].lstrip("# ")


def row_text(name: str, repository: Repository) -> str:
    """The text of the cell that holds the links of a chapter."""
    links = ", ".join(f"[{link.label}]({link.url})" for link in launch_links(name, repository))
    return f"Run this chapter: {links}.\n\n{SENTENCE}"


def write_row(chapter: NotebookNode, name: str, repository: Repository) -> bool:
    """Put the row of links after the title; returns whether that changed the chapter."""
    if any(cell.id == CELL and cell.cell_type != "markdown" for cell in chapter.cells):
        raise BookError(
            f"notebooks/{name}.ipynb: a code cell has the id '{CELL}', that of the row of links; "
            "rename it"
        )
    row = new_markdown_cell(row_text(name, repository), id=CELL)
    cells = [cell for cell in chapter.cells if cell.id != CELL]
    cells.insert(1, row)
    changed = cells != chapter.cells
    chapter.cells = cells
    return changed


def write_setup(chapter: NotebookNode, name: str, repository: Repository, root: Path) -> bool:
    """Write the set-up cell of a chapter; returns whether that changed the chapter."""
    cells = [cell for cell in code_cells(chapter) if SETUP in tags(cell)]
    if len(cells) != 1:
        raise BookError(
            f"notebooks/{name}.ipynb: {len(cells)} cells with the tag '{SETUP}'; make it one, "
            "after the title"
        )
    source = setup_source(chapter, repository.url, repository.branch, root)
    changed = cells[0].source != source
    cells[0].source = source
    return changed
