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

from tools.book.chapters import SETUP, Chapter
from tools.book.code import syntax_tree
from tools.book.notebooks import tags
from tools.book.repository import Repository
from tools.errors import BookError
from tools.files import read_text

PYTHON = (3, 11)  # the lowest that the simulator runs on, and most chapters draw with it
TORCH = (2, 9)  # the first whose torch.accelerator counts memory

# What pip calls a package that Python calls something else.
PACKAGES = {"PIL": "pillow", "sklearn": "scikit-learn"}
# What `from d2l import torch` imports. Its own list of requirements installs nowhere today.
D2L = ("PIL", "matplotlib", "numpy", "pandas", "requests", "scipy", "torch", "torchvision")
KERNEL = {"IPython"}  # there, or no cell would run
CUDASIM = "cudasim"  # on no index: it comes from the book's repository
ALONE = {"d2l", CUDASIM}  # installed without their own lists of requirements

FOLDED = {
    "cellView": "form",  # Colab
    "jupyter": {"source_hidden": True},  # JupyterLab
    "mystnb": {  # the site
        "code_prompt_show": "Set-up: installs what is missing, simulates GPUs if asked",
        "code_prompt_hide": "Hide the set-up",
    },
    "tags": [SETUP, "hide-input"],
}

# An old Python must get as far as its message: syntax is that of 3.6, imports come late.
SWITCH = "SIMULATE_GPUS = False  # True gives two simulated GPUs where there are fewer"
CELL = """\
# @title Set-up: run this cell too, again after each restart of the kernel
# It installs what this machine lacks, never another torch or numpy, and does nothing where all
# is there.
class NotReady(Exception):
    \"""Why the chapter cannot run here, shown as one line instead of a traceback.\"""

    def _render_traceback_(self):
        return [f'Not ready: {self}']

def install(packages, *options):
    import importlib
    import site
    import subprocess
    import sys

    print('Set-up: installing', *packages, flush=True)
    pip = [sys.executable, '-m', 'pip', 'install', '--quiet', '--retries=1', *options]
    run = subprocess.run([*pip, *packages], capture_output=True, text=True)
    if run.returncode:
        lines = run.stderr.strip().splitlines() or ['nothing']
        errors = [line for line in lines if 'error:' in line.lower() and 'Exception:' not in line]
        reason = [*errors, lines[-1]][0]
        raise NotReady(f"no {', '.join(packages)}. Is the network on? pip says: {reason}")
    if site.ENABLE_USER_SITE:  # pip may have made that folder just now
        site.addsitedir(site.getusersitepackages())
    importlib.invalidate_caches()

def set_up(needs, alone, simulator, imports_simulator):
    import sys

    oldest, found = <python>, sys.version.split()[0]
    if sys.version_info < oldest:
        raise NotReady(f'Python {found} is too old, take {oldest[0]}.{oldest[1]} or later')
    from importlib.metadata import version
    from importlib.util import find_spec

    held = {name: version(name) for name in ('torch', 'numpy') if find_spec(name)}
    torch = held.get('torch', '')
    simulator_too = SIMULATE_GPUS or imports_simulator
    lowest = <torch.simulated> if simulator_too else <torch>
    if torch and tuple(int(part) for part in torch.split('.')[:2]) < lowest:
        words = f'{lowest[0]}.{lowest[1]} or later, and restart'
        raise NotReady(f'torch {torch} with SIMULATE_GPUS = {SIMULATE_GPUS}: take {words}')
    missing = [package for name, package in needs.items() if not find_spec(name)]
    if missing:
        build = torch.partition('+')[2]  # cu128 of 2.11.0+cu128
        index = [f'--extra-index-url=https://download.pytorch.org/whl/{build}'] if build else []
        install(missing, *index, *(f'{name}=={number}' for name, number in held.items()))
    alone = dict(alone, cudasim=simulator) if simulator_too else alone
    missing = [package for name, package in alone.items() if not find_spec(name)]
    if missing:
        install(missing, '--no-deps')
    if simulator_too:
        import cudasim

        if not hasattr(cudasim, 'timeline'):
            raise NotReady("an older cudasim is here: 'pip uninstall cudasim', and restart")
    if SIMULATE_GPUS:
        try:
            if not cudasim.is_enabled():
                cudasim.enable(gpus=2, clock='modelled')
        except RuntimeError as reason:
            raise NotReady(f'{reason}. Restart, and run this cell first') from None

set_up(
    <needs>,
    <alone>,  # without their own lists of requirements
    'git+<repository>@<branch>#subdirectory=cudasim',
    imports_simulator=<imports.simulator>,
)
"""


def write_setup(chapter: Chapter, repository: Repository, root: Path) -> Chapter:
    """The chapter with its set-up written afresh. Raises BookError if it has no place for it."""
    cells = chapter.notebook.cells
    if not chapter.setup_cells:
        raise BookError(f"{chapter.where}: no cell with the tag '{SETUP}'; add one after the title")
    place = cells.index(chapter.setup_cells[0])
    others = [cell for cell in cells if cell not in chapter.setup_cells]
    switch = new_code_cell(SWITCH, id="switch", metadata={"tags": [SETUP]})
    source = setup_source(chapter, repository, root)
    folded = new_code_cell(source, id="setup", metadata=deepcopy(FOLDED))
    chapter.notebook.cells = [*others[:place], switch, folded, *others[place:]]
    return Chapter(chapter.name, chapter.notebook)


def setup_source(chapter: Chapter, repository: Repository, root: Path) -> str:
    """The text of a chapter's set-up cell.

    A chapter that imports the simulator needs what the simulator needs, without simulated GPUs
    too. Raises BookError if the pin of d2l, or the lowest torch of the simulator, is not found.
    """
    major, minor = _find(r'"torch>=(\d+)\.(\d+)"', "cudasim/pyproject.toml", root)
    [d2l] = _find(r"^d2l==(\d+\.\d+\.\d+)", "requirements-no-deps.txt", root)
    modules = imported_modules(chapter)
    words = {
        "python": str(PYTHON),
        "torch": str(TORCH),
        "torch.simulated": f"({major}, {minor})",
        "repository": repository.url,
        "branch": repository.branch,
        "imports.simulator": str(CUDASIM in modules),
        "needs": _dictionary(chapter_needs(chapter)),
        "alone": _dictionary({"d2l": f"d2l=={d2l}"} if "d2l" in modules else {}),
    }
    return re.sub(r"<([a-z.]+)>", lambda match: words[match[1]], CELL).rstrip("\n")


def chapter_needs(chapter: Chapter) -> dict[str, str]:
    """What a chapter imports and Python does not bring: by module, what pip calls it."""
    modules = imported_modules(chapter)
    if "d2l" in modules:
        modules |= set(D2L)
    modules -= ALONE
    if "torch" in modules:
        modules |= {"numpy"}  # `Tensor.numpy` needs it; torch does not install it
    ordered = sorted(modules, key=lambda name: (name != "torch", name.lower()))
    return {name: PACKAGES.get(name, name) for name in ordered}


def chapter_packages(chapter: Chapter) -> set[str]:
    """The packages of an index that a chapter runs on, as pip calls them."""
    modules = imported_modules(chapter)
    return {*chapter_needs(chapter).values(), *(modules & ALONE - {CUDASIM})}


def imported_modules(chapter: Chapter) -> set[str]:
    """The top modules that the cells after the set-up import, less Python's and the kernel's."""
    names = set()
    for cell in chapter.code_cells:
        if SETUP in tags(cell):
            continue
        for node in ast.walk(syntax_tree(chapter, cell)):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
    return {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) - KERNEL


def _dictionary(items: dict[str, str]) -> str:
    """A dictionary as Python writes it, with a line break after an item where it is long."""
    text = ", ".join(f"{name!r}:\0{value!r}" for name, value in items.items())
    lines = textwrap.wrap(f"{{{text}}}", 90, subsequent_indent=" " * 5, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")


def _find(pattern: str, name: str, root: Path) -> tuple[str, ...]:
    """The groups of a pattern in a file of the repository, or BookError."""
    found = re.search(pattern, read_text(root / name, root), re.M)
    if found is None:
        raise BookError(f"{name}: lacks {pattern!r}, which the set-up cells are made from")
    return found.groups()
