"""The setup of every chapter: one cell that installs what is missing and starts the simulator.

A chapter that is opened alone, on a service or a laptop, has this cell to become able to run.
`python -m tools links` writes it, because it holds the address of the repository's releases.

pip leaves an installed package alone where it is asked for by name only: no torch, no NumPy is
ever replaced. It makes no request where everything is there, so the cell works offline. Where
something is missing and there is no network, it says so at once, as it tries only once.
"""

import ast
import re
import sys
from copy import deepcopy
from pathlib import Path

from nbformat.v4 import new_code_cell

from tools.book.cells import syntax_tree
from tools.book.chapters import MAIN, Chapter
from tools.book.grammar import SETUP, SETUP_CELL
from tools.book.repository import Repository
from tools.errors import BookError
from tools.files import read_text

# The lowest Python that the simulator runs on.
PYTHON = (3, 11)

# What pip calls a package that Python calls something else.
PACKAGES = {"PIL": "pillow", "sklearn": "scikit-learn"}
# What `from d2l import torch` imports. Its own list of requirements installs nowhere today.
D2L = set("PIL matplotlib numpy pandas requests scipy torch torchvision".split())
KERNEL = {"IPython"}  # there, or no cell would run
CUDASIM = "cudasim"  # from the releases of the book's repository: see `release_page`
ALONE = {"d2l", CUDASIM}  # installed without their own lists of requirements
# The frameworks whose package `cudasim` asks for, as an extra, in the versions that it knows.
# PyTorch is not among them: an installed one stays, whatever its version.
EXTRAS = {"jax", "tensorflow"}
# The framework that is not simulated, and imports with the packages alone that it names.
RETIRED = "mxnet"

INSTALL = "%pip install -q --retries 0"
OLDEST = ".".join(map(str, PYTHON))
SIMULATES = f"""\
import cudasim.lab as lab  # not found? pip says why above: no network, or Python below {OLDEST}

lab.start({{framework}})  # two simulated GPUs where there is none; simulate=False: the CPU alone"""
IMPORTS = (
    "import {framework}  # fails? pip says why above: no network, or Python above 3.11"
)


def with_setup(chapter: Chapter, repository: Repository, root: Path) -> Chapter:
    """Return the chapter with its setup made anew, in one cell.

    Raises BookError if no cell of it says where that stands.
    """
    if not chapter.setup_cells:
        raise BookError(
            chapter.where, f"no cell with the tag '{SETUP}'", "add one after the title"
        )
    cells = chapter.notebook.cells
    index = cells.index(chapter.setup_cells[0])
    others = [cell for cell in cells if cell not in chapter.setup_cells]
    source = setup_source(chapter, repository, root)
    setup = new_code_cell(source, id=SETUP_CELL, metadata={"tags": [SETUP]})

    notebook = deepcopy(chapter.notebook)
    notebook.cells = [*others[:index], setup, *others[index:]]
    return Chapter(chapter.name, notebook)


def setup_source(chapter: Chapter, repository: Repository, root: Path) -> str:
    """Return the text of a chapter's setup cell, which names what the chapter imports."""
    modules = imported_modules(chapter)
    packages = list(chapter_needs(chapter).values())
    framework = chapter.framework
    if framework == RETIRED and CUDASIM not in modules:
        pins = [
            _pin(name, f"kernels/{framework}/requirements.in", root)
            for name in packages
        ]
        wheels = f"{INSTALL} --only-binary :all: {' '.join(pins)}"
        return f"{wheels}\n{IMPORTS.format(framework=framework)}"

    version = simulator_version(root)
    simulator = f"{CUDASIM}=={version}"
    if framework in EXTRAS:
        # A shell may read the brackets.
        simulator = f'"{CUDASIM}[{framework}]=={version}"'
        packages = [package for package in packages if package != framework]
    page = release_page(repository, version)
    lines = [f"{INSTALL} {' '.join([simulator, *packages])} --find-links {page}"]
    if "d2l" in modules:
        d2l = _pin("d2l", "requirements-no-deps.txt", root)
        lines.append(f"{INSTALL} --no-deps {d2l}")
    argument = "" if framework == MAIN else f"framework={framework!r}"
    lines.append(SIMULATES.format(framework=argument))
    return "\n".join(lines)


def simulator_version(root: Path) -> str:
    """Return the version of the simulator that instructions and setup cells install."""
    [version] = _find(
        r'^__version__ = "(\d+\.\d+\.\d+)"', "cudasim/src/cudasim/__init__.py", root
    )
    return version


def release_page(repository: Repository, version: str) -> str:
    """Return the address of the list of files that a release of the simulator has.

    pip finds the wheel there, also before an index has it. A book's own copy has the simulator
    of its own releases.
    """
    return f"{repository.url}/releases/expanded_assets/{CUDASIM}-{version}"


def simulator_wheel(repository: Repository, version: str) -> str:
    """Return the address of the wheel to which the page of a release links."""
    release = f"{repository.url}/releases/download/{CUDASIM}-{version}"
    return f"{release}/{CUDASIM}-{version}-py3-none-any.whl"


def chapter_needs(chapter: Chapter) -> dict[str, str]:
    """Return what a chapter imports and Python does not bring: pip's name by module."""
    modules = imported_modules(chapter)
    if "d2l" in modules:
        modules |= D2L
    if CUDASIM in modules:
        modules.add("matplotlib")  # which the instruments of `cudasim.lab` draw with
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

    The setup is left out: what it imports, it installs.
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


def _pin(package: str, name: str, root: Path) -> str:
    """Return a package and its version, as a list of requirements has it."""
    [pin] = _find(rf"^({re.escape(package)}==[\d.]+)", name, root)
    return pin


def _find(pattern: str, name: str, root: Path) -> tuple[str, ...]:
    """Return the groups of a pattern in a file of the repository, or raise BookError."""
    match = re.search(pattern, read_text(root / name, root), re.MULTILINE)
    if match is None:
        raise BookError(
            name,
            f"lacks {pattern!r}, which the setup cells are made from",
            "restore it",
        )
    return match.groups()
