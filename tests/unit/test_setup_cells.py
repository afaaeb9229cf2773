"""The setup cell: two lines that install what is missing, and replace nothing that is there."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT, bare_environment, code, notebook
from pythons import write_wheel

from tools.book.chapters import Chapter
from tools.book.pins import read_pins
from tools.book.repository import Repository
from tools.book.setup_cells import (
    PYTHON,
    chapter_needs,
    setup_source,
    simulator_version,
)

HERE = Repository("a", "b", "main")
PAGE = "https://github.com/a/b/releases/expanded_assets/cudasim-"
IN_TORCH = Chapter("first", notebook(code("a", "import torch, rich")))
# What stands in for the simulator in a room: it only says that it was started.
LAB = "def start(**options): print('started', *options.values())"
SIMULATOR = {"cudasim/__init__.py": "", "cudasim/lab.py": LAB}
PIP = "%pip "
INSTALL = "%pip install -q --retries 0 "
VERSION = simulator_version(ROOT)


# What the cell says.


def source_of(*cells, name="first"):
    chapter = Chapter(name, notebook(*cells))
    return setup_source(chapter, HERE, ROOT)


def test_needs_are_what_the_chapter_imports():
    imports = "%matplotlib inline\nimport os.path, torch\nfrom sklearn import datasets"
    cells = [
        code("setup", "import yaml", tags=["setup"]),
        code("a", imports),
        code("b", "def f():\n    from PIL import Image\nfrom . import x"),
    ]
    assert chapter_needs(Chapter("first", notebook(*cells))) == {
        "torch": "torch",
        "numpy": "numpy",
        "PIL": "pillow",
        "sklearn": "scikit-learn",
    }


def test_instruments_need_what_they_draw_with():
    source = source_of(code("a", "from cudasim.lab import chart"))
    assert source.startswith(f"{INSTALL}cudasim=={VERSION} matplotlib --find-links")


def test_a_release_of_the_books_own_repository_is_named():
    install, *others = source_of(code("a", "import torch")).splitlines()
    simulator = f"cudasim=={VERSION} torch numpy --find-links {PAGE}{VERSION}"
    assert install == f"{INSTALL}{simulator}"
    assert others[0].startswith("import cudasim.lab as lab  # not found? ")
    assert others[-1].startswith("lab.start()  # ")


def test_d2l_is_installed_without_its_own_requirements():
    first, second, *_ = source_of(code("c", "from d2l import torch")).splitlines()
    assert "d2l" not in first
    assert {"torchvision", "scipy", "pandas"} < set(first.split())
    assert second == f"{INSTALL}--no-deps d2l=={read_pins(ROOT)['d2l']}"


def test_each_framework_starts_its_own_simulation():
    source = source_of(code("c", "import jax, optax"), name="first-jax")
    simulator = f'"cudasim[jax]=={VERSION}" optax --find-links {PAGE}'
    assert source.startswith(f"{INSTALL}{simulator}")
    assert "lab.start(framework='jax')" in source

    # Nothing is simulated for it, and it imports with one NumPy only.
    source = source_of(code("c", "import mxnet, numpy"), name="first-mxnet")
    assert "mxnet==1.9.1 numpy==1.23.5" in source
    assert "cudasim" not in source


def test_the_lowest_python_is_the_same_everywhere():
    version = ".".join(map(str, PYTHON))
    assert f"Python below {version}" in source_of(code("a", "import torch"))
    services = (ROOT / "tools/book/services.yml").read_text()
    assert f"with Python {version} or later" in services
    simulator = (ROOT / "cudasim" / "pyproject.toml").read_text()
    assert f'requires-python = ">={version}"' in simulator


# What the cell does: in an environment of its own, whose pip finds a folder of wheels.


class Room:
    """A Python without packages, and the wheels that its pip finds. It has no network."""

    def __init__(self, folder):
        self.folder = folder / "room"
        self.wheels = folder / "wheels"
        self.wheels.mkdir()
        self.python = self.folder / "bin" / "python"
        subprocess.run([python_with_pip(), "-m", "venv", self.folder], check=True)

    def wheel(self, name, version, modules=None):
        return write_wheel(self.wheels, name, version, modules=modules)

    def pip(self, *arguments):
        run = self._run("-m", "pip", *arguments)
        assert run.returncode == 0, run.stderr
        return run.stdout

    def run_cell(self, source):
        """Run a cell as Jupyter does; return what it prints and the errors that it shows."""
        code = []
        printed = ""
        for line in source.splitlines():
            if line.startswith(PIP):
                run = self._run("-m", "pip", *shlex.split(line.removeprefix(PIP)))
                printed += run.stdout + run.stderr
            else:
                code.append(line)
        run = self._run("-c", "\n".join(code))
        return printed + run.stdout, run.stderr

    def _run(self, *arguments):
        nowhere = "http://127.0.0.1:9"
        environment = bare_environment() | {
            "https_proxy": nowhere,
            "http_proxy": nowhere,
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_FIND_LINKS": str(self.wheels),
        }
        for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
            environment.pop(name, None)
        return subprocess.run(
            [self.python, *arguments],
            cwd="/",
            env=environment,
            capture_output=True,
            text=True,
        )


def python_with_pip():
    """Return the Python that this environment was made with; skip where it has no pip."""
    major, minor, *_ = sys.version_info
    python = Path(sys.base_prefix) / "bin" / f"python{major}.{minor}"
    pip = subprocess.run([python, "-m", "pip", "--version"], capture_output=True)
    if pip.returncode != 0:
        pytest.skip(f"{python} has no pip")
    return python


@pytest.fixture
def room(tmp_path):
    return Room(tmp_path)


def test_what_is_missing_is_installed_and_what_is_there_stays(room):
    old_torch = room.wheel("torch", "2.8.0")
    room.pip("install", "--no-index", old_torch)
    for name, version in (("torch", "2.13.0"), ("numpy", "2.0"), ("rich", "1.0")):
        room.wheel(name, version)
    room.wheel("cudasim", VERSION, SIMULATOR)

    source = setup_source(IN_TORCH, HERE, ROOT)
    assert room.run_cell(source) == ("started\n", "")
    packages = room.pip("list", "--format", "freeze").splitlines()
    assert {"torch==2.8.0", "rich==1.0", f"cudasim=={VERSION}"} < set(packages)
    # Once more, with nothing left to be found.
    for path in room.wheels.iterdir():
        path.unlink()
    assert room.run_cell(source) == ("started\n", "")
    assert room.pip("list", "--format", "freeze").splitlines() == packages


def test_without_a_network_pip_says_what_is_missing_and_the_error_what_to_do(room):
    printed, error = room.run_cell(setup_source(IN_TORCH, HERE, ROOT))
    last_line = printed.splitlines()[-1]
    assert last_line == f"ERROR: No matching distribution found for cudasim=={VERSION}"
    assert "WARNING" not in printed
    assert "No module named 'cudasim'" in error
