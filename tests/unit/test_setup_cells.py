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
from tools.book.setup_cells import (
    PYTHON,
    SWITCH,
    chapter_needs,
    setup_source,
    simulator_version,
)

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
PRINTS_COMMANDS = """
import subprocess
def record(command, **options):
    print(*command[1:])
    return subprocess.CompletedProcess(command, {code}, "", "not found")
subprocess.run = record
"""
TINY = {"tiny": "tiny"}
COUNT = "\nimport torch\nprint(torch.cuda.device_count())"
HERE = Repository("a", "b", "main")
IMPORTS_CUDASIM = Chapter("first", notebook(code("a", "import cudasim, torch")))


def pip_that_ends(code):
    """Return what lets pip be printed rather than run, and end with this exit code."""
    return PRINTS_COMMANDS.format(code=code)


def source_of(name=LARGEST, needs=None, simulate=False):
    """Return a chapter's set-up, with other needs or another value of the switch."""
    chapter = read(ROOT / "notebooks" / f"{name}.ipynb")
    source = f"SIMULATE_GPUS = {simulate!r}\n{cell(chapter, 'setup').source}"
    if needs:
        definition, _, _ = source.partition("set_up(\n")
        return f"{definition}set_up({needs}, {{}}, '', False)"
    return source


PLAIN = source_of("tensors-on-gpus")  # imports no simulator
SIMULATED = source_of("tensors-on-gpus", simulate=True)
DEFAULT = source_of("tensors-on-gpus", simulate="if none")
IMPORTING = "SIMULATE_GPUS = False\n" + setup_source(IMPORTS_CUDASIM, HERE, ROOT)


def run(*sources, before="", python=None, **variables):
    """Run cells in this IPython, or in another Python, and return what they print."""
    program = BARE if python else SHELL
    environment = bare_environment()
    for name, value in variables.items():
        environment[name] = str(value)
    finished = subprocess.run(
        [python or sys.executable, "-c", program.format(before=before)],
        input=json.dumps(sources),
        cwd="/",
        env=environment,
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.fixture
def old_torch(tmp_path):
    """Make a wheel of another version of torch, which can be imported as it is."""
    return functools.partial(write_wheel, tmp_path, "torch")


def test_silent_and_without_pip_where_all_is_there():
    sources = [source_of(name) for name in CHAPTERS]
    assert run(*sources, *sources, before=NO_PIP, PYTHONPATH=SIMULATOR) == ""


def test_an_old_python_can_read_the_set_up():
    ast.parse(source_of(), feature_version=(3, 6))


def test_the_lowest_python_is_the_same_everywhere():
    version = ".".join(map(str, PYTHON))
    services = (ROOT / "tools/book/services.yml").read_text()
    assert f"with Python {version} or later" in services
    simulator = (ROOT / "cudasim" / "pyproject.toml").read_text()
    assert f'requires-python = ">={version}"' in simulator


OLD_PYTHON = "sys.version_info, sys.version = (3, 10, 4), '3.10.4 (main)'"
USED = "import cudasim, torch; torch.cuda.is_initialized = lambda: True"
OLDER = "import cudasim; cudasim._HOMES.pop('timeline')"

OBSTACLES = {
    "Python": (SIMULATED, OLD_PYTHON, "Python 3.10.4 is too old, take 3.11 or later"),
    "a GPU in use": (SIMULATED, USED, "this process has used a real GPU"),
    "cudasim": (IMPORTING, OLDER, "an older cudasim is here: 'pip uninstall cudasim'"),
}
OLD_TORCHS = {
    "torch": (PLAIN, "2.8.0", "take 2.9 or later"),
    "torch for the simulator": (IMPORTING, "2.9", "take 2.11 or later"),
}


@pytest.mark.parametrize(
    ("source", "before", "words"), OBSTACLES.values(), ids=OBSTACLES.keys()
)
def test_what_is_in_the_way_is_one_line(source, before, words):
    printed = run(source, before=before, PYTHONPATH=SIMULATOR)
    assert_one_line(printed, "Not ready: ", words)


@pytest.mark.parametrize(
    ("source", "version", "words"), OLD_TORCHS.values(), ids=OLD_TORCHS.keys()
)
def test_a_torch_that_is_too_old_is_one_line(old_torch, source, version, words):
    printed = run(source, before=NO_PIP, PYTHONPATH=old_torch(version))
    assert_one_line(printed, "Not ready: ", f"torch {version}", words)


def test_the_lowest_torch_will_do(old_torch):
    assert run(PLAIN, before=NO_PIP, PYTHONPATH=old_torch("2.9.0a0+gitabc")) == ""


NOWHERE = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_CONFIG_FILE": "/dev/null"}


def test_without_a_network_one_line_names_what_is_missing():
    source = source_of(needs={"torch": "torch", "no_such": "no-such-package"})
    installing, message = run(source, **NOWHERE).splitlines()
    assert installing == "Set-up: installing no-such-package"
    reason = "Not ready: no no-such-package."
    assert_one_line(message, reason, "network on?", "pip says: ERROR")


def test_where_there_is_no_pip_one_line_says_so(tmp_path):
    room = tmp_path / "room"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", room], check=True)
    printed = run(source_of(needs=TINY), python=room / "bin" / "python")
    message = printed.splitlines()[-1]
    assert_one_line(message, "Not ready: no tiny.", "No module named pip")


def python_with_pip():
    """Return the Python that this environment was made with; skip where it has no pip."""
    major, minor, *_ = sys.version_info
    python = Path(sys.base_prefix) / "bin" / f"python{major}.{minor}"
    pip = subprocess.run([python, "-m", "pip", "--version"], capture_output=True)
    if pip.returncode != 0:
        pytest.skip(f"{python} has no pip")
    return python


def test_second_run_is_silent_and_a_new_home_is_found(tmp_path):
    """pip may only write into the reader's home, to a folder that is not there yet."""
    python = python_with_pip()
    write_wheel(tmp_path, "tiny")
    home = {"HOME": tmp_path, "PIP_USER": "1", "PIP_BREAK_SYSTEM_PACKAGES": "1"}
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": tmp_path}
    source = source_of(needs=TINY) + "\nimport tiny\nprint(tiny.__file__)"
    printed = run(source, source, python=python, **home, **offline)
    installing, first, second = printed.splitlines()
    assert installing == "Set-up: installing tiny"
    assert first == second
    assert Path(first).is_relative_to(tmp_path)


@pytest.mark.parametrize(
    ("version", "index"), [("2.11.0+cu128", "whl/cu128"), ("2.12.0", None)]
)
def test_pip_is_told_to_keep_torch_and_numpy(old_torch, version, index):
    source = source_of(needs={"no_such": "no-such"})
    printed = run(source, before=pip_that_ends(0), PYTHONPATH=old_torch(version))
    command = printed.splitlines()[1]
    assert command.startswith("-m pip install --quiet ")
    for part in (" no-such", f" torch=={version}", " numpy=="):
        assert part in command
    assert "upgrade" not in command
    if index:
        assert index in command
    else:
        assert "whl" not in command


A_GPU = "import torch; torch.accelerator.is_available = lambda: True"
WITHOUT_GPUS = [runner for runner in read_runners(ROOT).values() if runner.gpus == 0]
OLD_TORCH = "import importlib.metadata as held; held.version = lambda name: '2.10.0'"


def test_the_switch_asks_for_gpus_where_there_is_none():
    assert SWITCH.startswith("SIMULATE_GPUS = 'if none'")


@pytest.mark.parametrize("source", [SIMULATED, DEFAULT], ids=["True", "if none"])
def test_the_switch_gives_two_gpus_and_says_so_once(source):
    printed = run(source + COUNT, source + COUNT, PYTHONPATH=SIMULATOR)
    message, first, second = printed.splitlines()
    assert "2 simulated GPUs" in message
    assert first == second == "2"


def test_where_there_is_a_gpu_nothing_is_simulated():
    is_imported = "import sys; print('cudasim' in sys.modules)"
    assert run(DEFAULT, is_imported, before=A_GPU) == "False\n"


def test_with_an_old_torch_the_cpu_alone_will_do():
    printed = run(DEFAULT + COUNT, before=OLD_TORCH, PYTHONPATH=SIMULATOR)
    message, count = printed.splitlines()
    assert_one_line(message, "no simulated GPUs. torch 2.10.0", "take 2.11 or later")
    assert count == "0"


def test_without_a_network_the_cpu_alone_will_do():
    printed = run(DEFAULT + COUNT, before=pip_that_ends(1))
    _, _, message, count = printed.splitlines()
    assert_one_line(message, "no simulated GPUs. no https://github.com/")
    assert count == "0"


@pytest.mark.parametrize("runner", WITHOUT_GPUS, ids=lambda runner: runner.name)
def test_on_a_runner_that_hides_gpus_none_is_simulated(runner):
    kernel = runner.specification["env"]
    assert run(DEFAULT + COUNT, before=NO_PIP, **kernel) == "0\n"


def test_an_import_of_cudasim_simulates_nothing():
    hidden = {"PYTHONPATH": SIMULATOR, "CUDA_VISIBLE_DEVICES": "-1"}
    assert run(IMPORTING + COUNT, before=NO_PIP, **hidden) == "0\n"


IMPORTS = "%matplotlib inline\nimport os.path, torch\nfrom sklearn import datasets"


def test_needs_are_what_the_chapter_imports():
    cells = [
        code("setup", "import yaml", tags=["setup"]),
        code("a", IMPORTS),
        code("b", "def f():\n    from PIL import Image\nfrom . import x"),
    ]
    chapter = Chapter("first", notebook(*cells))
    assert chapter_needs(chapter) == {
        "torch": "torch",
        "numpy": "numpy",
        "PIL": "pillow",
        "sklearn": "scikit-learn",
    }


def test_what_d2l_needs_is_installed_and_its_pin_kept():
    cells = code("c", "from d2l import torch as d2l")
    chapter = Chapter("first", notebook(cells))
    assert {"torchvision", "scipy", "pandas"} < chapter_needs(chapter).keys()
    source = setup_source(chapter, HERE, ROOT)
    # A text that is broken at a hyphen would not be valid.
    compile(source, "setup", "exec")
    assert f"{{'d2l': 'd2l=={read_pins(ROOT)['d2l']}'}}" in source


def test_cudasim_is_installed_from_the_page_of_its_release():
    tag = f"cudasim-{simulator_version(ROOT)}"
    releases = "https://github.com/a/b/releases/download"
    package = f"{releases}/{tag}/{tag}-py3-none-any.whl"
    printed = run(IMPORTING, before=pip_that_ends(1))
    installing, command, message = printed.splitlines()
    assert installing == f"Set-up: installing {package}"
    assert f"--no-deps {package}" in command
    assert message.startswith("Not ready: no https://github.com/")
