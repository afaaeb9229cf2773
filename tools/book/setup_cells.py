"""The set-up of every chapter: a switch of one line, and a folded cell below it.

A chapter that is opened alone, on a service or a laptop, has these two to become able to run.
The second is one text, filled in with what the chapter imports. Colab shows of it the title in
its first line, JupyterLab a mark to click on. `python -m tools links` writes both into the
chapters, because it holds the address of the repository.
"""

import ast
import re
import sys
import textwrap
from copy import deepcopy
from pathlib import Path

from nbformat.v4 import new_code_cell

from tools.book.cells import syntax_tree
from tools.book.chapters import METADATA, Chapter
from tools.book.grammar import SETUP, SETUP_CELL, SWITCH_CELL
from tools.book.repository import Repository
from tools.errors import BookError
from tools.files import read_text

# The lowest Python that the simulator runs on, and most chapters draw with it.
PYTHON = (3, 11)
# The first torch whose torch.accelerator counts memory.
TORCH = (2, 9)

# What pip calls a package that Python calls something else.
PACKAGES = {"PIL": "pillow", "sklearn": "scikit-learn"}
# What `from d2l import torch` imports. Its own list of requirements installs nowhere today.
D2L = set("PIL matplotlib numpy pandas requests scipy torch torchvision".split())
KERNEL = {"IPython"}  # there, or no cell would run
CUDASIM = "cudasim"  # from the releases of the book's repository: see `simulator_wheel`
ALONE = {"d2l", CUDASIM}  # installed without their own lists of requirements

FOLDED = METADATA["folded"]
SWITCH = "SIMULATE_GPUS = 'if none'  # 2 GPUs where there is none; or True, False"
# The text of the folded cell; its words in capitals are filled in. An old Python must get as
# far as its message: the syntax is that of 3.6, imports come late.
TEMPLATE = Path(__file__).with_name("setup_cell.txt")
WIDTH = 90  # of a line that is filled in


def with_setup(chapter: Chapter, repository: Repository, root: Path) -> Chapter:
    """Return the chapter with its set-up cells made anew.

    Raises BookError if no cell of it says where they stand.
    """
    if not chapter.setup_cells:
        raise BookError(
            chapter.where, f"no cell with the tag '{SETUP}'", "add one after the title"
        )
    cells = chapter.notebook.cells
    index = cells.index(chapter.setup_cells[0])
    others = [cell for cell in cells if cell not in chapter.setup_cells]
    switch = new_code_cell(SWITCH, id=SWITCH_CELL, metadata={"tags": [SETUP]})
    source = setup_source(chapter, repository, root)
    folded = new_code_cell(source, id=SETUP_CELL, metadata=deepcopy(FOLDED))

    notebook = deepcopy(chapter.notebook)
    notebook.cells = [*others[:index], switch, folded, *others[index:]]
    return Chapter(chapter.name, notebook)


def setup_source(chapter: Chapter, repository: Repository, root: Path) -> str:
    """Return the text of a chapter's set-up cell, filled in with what the chapter imports."""
    major, minor = _find(r'"torch>=(\d+)\.(\d+)', "cudasim/pyproject.toml", root)
    [d2l] = _find(r"^d2l==(\d+\.\d+\.\d+)", "requirements-no-deps.txt", root)
    modules = imported_modules(chapter)
    alone = {}
    if "d2l" in modules:
        alone["d2l"] = f"d2l=={d2l}"
    words = {
        "OLDEST_PYTHON": str(PYTHON),
        "OLDEST_TORCH": str(TORCH),
        "OLDEST_TORCH_SIMULATING": f"({major}, {minor})",
        "SIMULATOR_WHEEL": simulator_wheel(repository, simulator_version(root)),
        "IMPORTS_SIMULATOR": str(CUDASIM in modules),
        "NEEDS": _dictionary(chapter_needs(chapter)),
        "ALONE": _dictionary(alone),
    }
    template = TEMPLATE.read_text(encoding="utf-8").rstrip("\n")
    return re.sub(rf"\b({'|'.join(words)})\b", lambda match: words[match[1]], template)


def simulator_version(root: Path) -> str:
    """Return the version of the simulator that instructions and set-up cells install."""
    [version] = _find(
        r'^__version__ = "(\d+\.\d+\.\d+)"', "cudasim/src/cudasim/__init__.py", root
    )
    return version


def simulator_wheel(repository: Repository, version: str) -> str:
    """Return the address of the wheel on the page of a release of the simulator.

    pip takes it without git, and without an index, where a package of another owner could
    have the name in a fork's place. A book's own copy has the simulator of its own releases.
    """
    release = f"{repository.url}/releases/download/cudasim-{version}"
    return f"{release}/cudasim-{version}-py3-none-any.whl"


def chapter_needs(chapter: Chapter) -> dict[str, str]:
    """Return what a chapter imports and Python does not bring: pip's name by module."""
    modules = imported_modules(chapter)
    if "d2l" in modules:
        modules |= D2L
    if "torch" in modules:
        modules.add("numpy")  # which `Tensor.numpy` needs
    modules -= ALONE
    torch_first = sorted(modules, key=lambda name: (name != "torch", name.lower()))
    return {name: PACKAGES.get(name, name) for name in torch_first}


def chapter_packages(chapter: Chapter) -> set[str]:
    """Return the packages of an index that a chapter runs on, as pip calls them."""
    packages = set(chapter_needs(chapter).values())
    if "d2l" in imported_modules(chapter):
        packages.add("d2l")
    return packages


def imported_modules(chapter: Chapter) -> set[str]:
    """Return the top modules that a chapter imports, less Python's and the kernel's.

    The set-up is left out: it imports what it needs only where it runs.
    """
    names = set()
    for cell in chapter.keyed_cells:
        for node in ast.walk(syntax_tree(chapter, cell)):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
    modules = {name.partition(".")[0] for name in names}
    return modules - sys.stdlib_module_names - KERNEL


def _dictionary(items: dict[str, str]) -> str:
    """Return a dictionary as Python writes it, with a line break after an item where it is long."""
    # A zero byte keeps textwrap from breaking a line between a key and its value.
    entries = [f"{name!r}:\0{value!r}" for name, value in items.items()]
    text = "{" + ", ".join(entries) + "}"
    indent = " " * 5
    lines = textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")


def _find(pattern: str, name: str, root: Path) -> tuple[str, ...]:
    """Return the groups of a pattern in a file of the repository, or raise BookError."""
    match = re.search(pattern, read_text(root / name, root), re.MULTILINE)
    if match is None:
        raise BookError(
            name,
            f"lacks {pattern!r}, which the set-up cells are made from",
            "restore it",
        )
    return match.groups()
