"""The set-up cell: silent where all is there, one line where something is wrong."""

import ast
import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import (
    CHAPTERS,
    ROOT,
    assert_one_line,
    bare_environment,
    cell,
    code,
    notebook,
    read,
)
from pythons import write_wheel

from tools.book.chapters import Chapter
from tools.book.pins import read_pins
from tools.book.repository import Repository
from tools.book.runners import read_runners
from tools.book.setup_cells import PYTHON, SWITCH, chapter_needs, setup_source

SIMULATOR = ROOT / "cudasim" / "src"
LARGEST = "neural-networks-on-gpus"
# What runs cells: IPython, or Python alone where that is bare, or too old for it.
SHELL = """\
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
config = Config()
config.InteractiveShell.colors = "nocolor"
config.HistoryManager.enabled = False
shell = InteractiveShell.instance(config=config)
sources = json.load(sys.stdin)
{before}
for source in sources:
    shell.run_cell(source)
"""
BARE = """\
import json, sys
sources = json.load(sys.stdin)
{before}
for source in sources:
    try:
        exec(source)
    except Exception as error:
        print("\\n".join(error._render_traceback_()))
"""
NO_PIP = "import subprocess; subprocess.run = None"
RECORDER = """
import subprocess
def record(command, **options):
    print(*command[1:])
    return subprocess.CompletedProcess(command, {code}, "", "no git")
subprocess.run = record
"""
TINY = {"tiny": "tiny"}
COUNT = "\nimport torch\nprint(torch.cuda.device_count())"
HERE = Repository("a", "b", "main")
IMPORTS_CUDASIM = Chapter("first", notebook(code("a", "import cudasim, torch")))


def source_of(name=LARGEST, needs=None, simulate=False):
    """The set-up cells of a chapter, with other needs or another value of the switch."""
    chapter = read(ROOT / "notebooks" / f"{name}.ipynb")
    source = f"SIMULATE_GPUS = {simulate!r}\n{cell(chapter, 'setup').source}"
    if needs:
        return source[: source.index("set_up(\n")] + f"set_up({needs}, {{}}, '', False)"
    return source


PLAIN = source_of("tensors-on-gpus")  # imports no simulator
SIMULATED = source_of("tensors-on-gpus", simulate=True)
DEFAULT = source_of("tensors-on-gpus", simulate="if none")
IMPORTING = "SIMULATE_GPUS = False\n" + setup_source(IMPORTS_CUDASIM, HERE, ROOT)


def run(*sources, before="", python=None, **variables):
    """What running cells prints, in this IPython or in another Python."""
    command = [
        python or sys.executable,
        "-c",
        (BARE if python else SHELL).format(before=before),
    ]
    own = bare_environment() | {name: str(value) for name, value in variables.items()}
    options = {"cwd": "/", "env": own, "capture_output": True, "text": True}
    done = subprocess.run(command, input=json.dumps(sources), **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def old_torch(tmp_path):
    """A wheel of another version of torch, which can be imported as it is."""
    return functools.partial(write_wheel, tmp_path, "torch")


def test_silent_and_without_pip_where_all_is_there():
    sources = [source_of(name) for name in CHAPTERS]
    assert run(*sources, *sources, before=NO_PIP, PYTHONPATH=SIMULATOR) == ""


def test_an_old_python_reads_so_far_and_readers_are_told_the_lowest():
    ast.parse(source_of(), feature_version=(3, 6))
    words = ".".join(map(str, PYTHON))
    assert (
        f"with Python {words} or later"
        in (ROOT / "tools/book/services.yml").read_text()
    )
    simulator = (ROOT / "cudasim" / "pyproject.toml").read_text()
    assert f'requires-python = ">={words}"' in simulator


OLD_PYTHON = "sys.version_info, sys.version = (3, 10, 4), '3.10.4 (main)'"
USED = "import cudasim, torch; torch.cuda.is_initialized = lambda: True"
OLDER = "import cudasim; cudasim._HOMES.pop('timeline')"


@pytest.mark.parametrize(
    ("source", "before", "torch", "parts"),
    [
        (SIMULATED, OLD_PYTHON, None, ["Python 3.10.4 is too old, take 3.11 or later"]),
        (PLAIN, NO_PIP, "2.8.0", ["torch 2.8.0", "take 2.9 or later"]),
        (IMPORTING, NO_PIP, "2.9", ["torch 2.9", "take 2.11 or later"]),
        (SIMULATED, USED, None, ["this process has used a real GPU", "Restart"]),
        (IMPORTING, OLDER, None, ["an older cudasim is here: 'pip uninstall cudasim'"]),
    ],
    ids=["Python", "torch", "torch for the simulator", "a GPU in use", "cudasim"],
)
def test_where_something_is_too_old_or_in_use_one_line_says_so(
    old_torch, source, before, torch, parts
):
    said = run(
        source, before=before, PYTHONPATH=old_torch(torch) if torch else SIMULATOR
    )
    assert_one_line(said, "Not ready: ", *parts)


def test_the_lowest_torch_will_do(old_torch):
    assert run(PLAIN, before=NO_PIP, PYTHONPATH=old_torch("2.9.0a0+gitabc")) == ""


def test_without_a_network_one_line_says_what_is_missing():
    nowhere = {
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_CONFIG_FILE": "/dev/null",
    }
    said = run(
        source_of(needs={"torch": "torch", "no_such": "no-such-package"}), **nowhere
    )
    assert said.startswith("Set-up: installing no-such-package\n")
    last = said.splitlines()[1]
    assert_one_line(
        last, "Not ready: no no-such-package.", "network on?", "pip says: ERROR"
    )


def test_where_there_is_no_pip_one_line_says_so(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", tmp_path / "room"], check=True
    )
    said = run(source_of(needs=TINY), python=tmp_path / "room" / "bin" / "python")
    assert_one_line(said.splitlines()[-1], "Not ready: no tiny.", "No module named pip")


def test_second_run_is_silent_and_a_new_home_is_found(tmp_path):
    """Where pip may write into the reader's home only, in a folder that is not there yet."""
    python = (
        Path(sys.base_prefix)
        / "bin"
        / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    )
    if subprocess.run(
        [python, "-m", "pip", "--version"], capture_output=True
    ).returncode:
        pytest.skip(f"{python} has no pip")
    write_wheel(tmp_path, "tiny")
    home = {"HOME": tmp_path, "PIP_USER": "1", "PIP_BREAK_SYSTEM_PACKAGES": "1"}
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": tmp_path}
    source = source_of(needs=TINY) + "\nimport tiny\nprint(tiny.__file__)"
    said = run(source, source, python=python, **home, **offline)
    installing, *where = said.splitlines()
    assert installing == "Set-up: installing tiny"
    assert len(where) == 2 and all(
        Path(path).is_relative_to(tmp_path) for path in where
    )


@pytest.mark.parametrize(
    ("version", "index"), [("2.11.0+cu128", "whl/cu128"), ("2.12.0", None)]
)
def test_pip_is_told_to_keep_torch_and_numpy(old_torch, version, index):
    source, recorder = source_of(needs={"no_such": "no-such"}), RECORDER.format(code=0)
    said = run(source, before=recorder, PYTHONPATH=old_torch(version)).splitlines()[1]
    assert said.startswith("-m pip install --quiet ") and " no-such" in said
    assert f" torch=={version}" in said and " numpy==" in said and "upgrade" not in said
    assert (index in said) if index else ("whl" not in said)


A_GPU = "import torch; torch.accelerator.is_available = lambda: True"
OLD_TORCH = "import importlib.metadata as held; held.version = lambda name: '2.10.0'"


def test_switch_gives_two_gpus_where_there_is_none_and_says_so_once():
    assert SWITCH.startswith("SIMULATE_GPUS = 'if none'")
    for source in (SIMULATED, DEFAULT):
        said = run(source + COUNT, source + COUNT, PYTHONPATH=SIMULATOR).splitlines()
        assert (
            len(said) == 3 and "2 simulated GPUs" in said[0] and said[1:] == ["2", "2"]
        )
    assert (
        run(DEFAULT, "import sys; print('cudasim' in sys.modules)", before=A_GPU)
        == "False\n"
    )
    said = run(DEFAULT + COUNT, before=OLD_TORCH, PYTHONPATH=SIMULATOR).splitlines()
    assert_one_line(said[0], "no simulated GPUs. torch 2.10.0", "take 2.11 or later")
    assert said[1:] == ["0"]
    said = run(DEFAULT + COUNT, before=RECORDER.format(code=1)).splitlines()
    assert_one_line(said[2], "no simulated GPUs. no git+https")
    assert said[3:] == ["0"]  # without a network, or without git, the CPU alone will do
    for runner in read_runners(ROOT).values():  # one that hides GPUs has decided
        if runner.gpus == 0:
            kernel = runner.specification["env"]
            assert run(DEFAULT + COUNT, before=NO_PIP, **kernel) == "0\n"
    off = run(
        IMPORTING + COUNT,
        before=NO_PIP,
        PYTHONPATH=SIMULATOR,
        CUDA_VISIBLE_DEVICES="-1",
    )
    assert off == "0\n"  # nothing is simulated, though cudasim is imported


def test_needs_are_what_the_chapter_imports():
    cells = [
        code("setup", "import yaml", tags=["setup"]),
        code(
            "a",
            "%matplotlib inline\nimport os.path, torch\nfrom sklearn import datasets",
        ),
        code("b", "def f():\n    from PIL import Image\nfrom . import x"),
    ]
    chapter = Chapter("first", notebook(*cells))
    needs = {
        "torch": "torch",
        "numpy": "numpy",
        "PIL": "pillow",
        "sklearn": "scikit-learn",
    }
    assert chapter_needs(chapter) == needs
    chapter = Chapter(
        "first", notebook(*cells, code("c", "from d2l import torch as d2l"))
    )
    assert {"torchvision", "scipy", "pandas"} < chapter_needs(chapter).keys()
    source = setup_source(chapter, HERE, ROOT)
    compile(
        source, "setup", "exec"
    )  # a text that is broken at a hyphen would not be valid
    assert f"{{'d2l': 'd2l=={read_pins(ROOT)['d2l']}'}}" in source


def test_a_chapter_that_imports_cudasim_gets_it_from_the_repository_without_simulation():
    said = run(IMPORTING, before=RECORDER.format(code=1)).splitlines()
    assert (
        said[0]
        == "Set-up: installing git+https://github.com/a/b@main#subdirectory=cudasim"
    )
    assert "--no-deps git+https://github.com/a/b@main#subdirectory=cudasim" in said[1]
    assert said[2].startswith("Not ready: no git+https") and len(said) == 3
