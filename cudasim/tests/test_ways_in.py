"""Every way into a simulation, what a program finds there, and that leaving leaves nothing."""

import json
import os
import venv

import pytest
import torch
from programs import INHERIT, SCRIPTS, run, write
from torch.nn import functional as F

import cudasim
from cudasim import config, startup_file


def line(devices="2 simulated GPUs", card="T4", times=""):
    """Return what is printed at the beginning of a simulation."""
    return f"cudasim: {devices} ({card}){times}; real values, computed on the CPU\n"


LINE = line()
MODELLED = ", times modelled"


def test_functions(capsys):
    assert not cudasim.is_enabled()
    assert not torch.cuda.is_available()
    cudasim.enable(gpus=3, card="H100")
    try:
        assert cudasim.is_enabled()
        assert torch.cuda.device_count() == 3
        assert torch.ones(2, device="cuda:2").get_device() == 2
    finally:
        cudasim.disable()
    assert capsys.readouterr().out == line("3 simulated GPUs", "H100")
    assert not cudasim.is_enabled()
    assert not torch.cuda.is_available()
    cudasim.disable()  # a second time does nothing


def test_real_gpus_are_left_alone_unless_forced(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    before = dict(os.environ)
    with cudasim.simulate(gpus=2):
        assert not cudasim.is_enabled()
        assert os.environ == before  # nothing for children either
    words = "cudasim: 2 real GPUs are here, nothing is simulated (force=True does)\n"
    assert capsys.readouterr().out == words
    with cudasim.simulate(gpus=3):  # more than there are
        assert cudasim.is_enabled()
    with cudasim.simulate(gpus=2, force=True):
        assert cudasim.is_enabled()
        assert os.environ[config.FORCE] == "1"


ABOUT = """
    import __main__, sys
    print(__name__, __main__.__dict__ is globals(), sys.argv[1:])
    print(sys.argv[0]); print(sys.path[0]); print(__file__); print(__spec__ and __spec__.name)
"""


@pytest.mark.parametrize("how", ["script.py", "-m pack", "-m pack.mod", "folder"])
def test_a_program_finds_itself_as_without_the_simulation(tmp_path, how):
    for name in ("script.py", "pack/mod.py", "pack/__main__.py", "folder/__main__.py"):
        write(tmp_path / name, ABOUT)
    write(tmp_path / "pack" / "__init__.py", "")
    program = *how.split(), "--gpus", "7", "-m"
    plain = run(*program, cwd=tmp_path, fresh=True)
    simulated = run("-m", "cudasim", *program, cwd=tmp_path)
    assert plain.returncode == simulated.returncode == 0
    assert plain.stdout.startswith("__main__ True ['--gpus', '7', '-m']\n")
    assert simulated.stdout == plain.stdout
    assert simulated.stderr == LINE


CRASH = """
    import sys, torch, torch.utils.flop_counter  # which misses Triton where CUDA is
    def add():
        return torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1")
    if len(sys.argv) > 1:
        sys.exit({"none": None, "seven": 7, "text": "why"}[sys.argv[1]])
    add()
"""


def test_a_crash_has_its_own_traceback(tmp_path):
    script = write(tmp_path / "crash.py", CRASH)
    got = run("-m", "cudasim", script, cwd=tmp_path)
    assert got.returncode == 1
    first, second, *frames, last = got.stderr.removeprefix(LINE).splitlines()
    assert first == "Traceback (most recent call last):"
    assert second == f'  File "{script}", line 7, in <module>'
    assert last.endswith("but found at least two devices, cuda:0 and cuda:1!")
    for frame in frames:
        if frame.startswith("  File"):
            assert str(script) in frame

    full = run("-m", "cudasim", "--full-traceback", script, cwd=tmp_path)
    assert "placement.py" in full.stderr  # the loop above would see it


ENABLED = """
    import cudasim, torch
    cudasim.enable(gpus=2)
    torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1")
"""


def test_a_program_that_enables_has_its_own_traceback(tmp_path):
    script = write(tmp_path / "crash.py", ENABLED)
    got = run(script, cwd=tmp_path)
    assert "crash.py" in got.stderr
    assert "placement.py" not in got.stderr

    full = run(script, cwd=tmp_path, CUDASIM_FULL_TRACEBACK="1")
    assert "placement.py" in full.stderr


CELLS = """
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance(colors="nocolor")
    shell.run_cell("import cudasim; cudasim.enable()")
    shell.run_cell("import torch; torch.ones(2, device='cuda') + torch.ones(2)")
"""


def test_a_cell_of_a_notebook_shows_no_lines_of_the_simulator(tmp_path):
    script = write(tmp_path / "cells.py", CELLS)
    shown = run(script, cwd=tmp_path).stdout
    assert "Expected all tensors to be on the same device" in shown
    assert "Cell In[1]" in shown
    assert "File " not in shown
    full = run(script, cwd=tmp_path, CUDASIM_FULL_TRACEBACK="1").stdout
    assert "placement.py" in full


@pytest.mark.parametrize(
    ("word", "code", "text"), [("none", 0, ""), ("seven", 7, ""), ("text", 1, "why\n")]
)
def test_a_program_ends_with_its_own_exit_code(tmp_path, word, code, text):
    script = write(tmp_path / "crash.py", CRASH)
    got = run("-m", "cudasim", script, word, cwd=tmp_path)
    assert (got.returncode, got.stderr) == (code, LINE + text)


def test_a_syntax_error_is_told_as_without_the_simulation(tmp_path):
    script = write(tmp_path / "bad.py", "x = (\n")
    plain = run(script, cwd=tmp_path)
    simulated = run("-m", "cudasim", script, cwd=tmp_path)
    assert (simulated.returncode, simulated.stderr) == (1, LINE + plain.stderr)


def test_no_startup_where_python_does_not_find_the_package(tmp_path):
    venv.create(tmp_path, with_pip=False, symlinks=True)
    python = tmp_path / "bin" / "python"
    got = run("-m", "cudasim", "install-startup", cwd=tmp_path, python=python)
    words = "cudasim: this Python finds no cudasim by itself: 'pip install' it first\n"
    assert (got.returncode, got.stdout, got.stderr) == (1, "", words)


AT_ONCE = """
    import sys, time
    assert "torch" not in sys.modules
    import torch
    assert type(torch.__spec__.loader).__name__ == "SourceFileLoader"
    print(torch.cuda.device_count(), torch.cuda.get_device_name(1), time.perf_counter() < 1)
"""


@pytest.fixture
def variables(tmp_path):
    """Variables that ask for modelled H100s, where another `sitecustomize` is on the path."""
    write(tmp_path / "own" / "sitecustomize.py", "print('mine')")
    return {
        "CUDASIM_CARD": "H100",
        "CUDASIM_CLOCK": "modelled",
        "PYTHONPATH": os.pathsep.join([INHERIT, str(tmp_path / "own")]),
    }


def test_without_a_number_of_gpus_nothing_is_simulated(tmp_path, variables):
    program = "print('program')"
    got = run("-c", program, cwd=tmp_path, CUDASIM_GPUS="", **variables)
    assert (got.stdout, got.stderr) == ("mine\nprogram\n", "")


def test_the_environment_is_enough_for_a_plain_python(tmp_path, variables):
    script = write(tmp_path / "plain.py", AT_ONCE)
    got = run(script, cwd=tmp_path, CUDASIM_GPUS="2", **variables)
    assert got.stderr == line("2 simulated GPUs", "H100", MODELLED)
    assert got.stdout == "mine\n2 Simulated GPU (H100, modelled time) True\n"


def test_the_line_of_the_pth_imports_only_if_asked(tmp_path):
    loaded = "import sys; print([n for n in ('cudasim', 'torch') if n in sys.modules])"
    program = f"{startup_file.LINE}\n{loaded}"
    assert run("-c", program, cwd=tmp_path, fresh=True).stdout == "[]\n"
    got = run("-c", program, cwd=tmp_path, fresh=True, CUDASIM_GPUS="2")
    assert (got.stdout, got.stderr) == ("['cudasim']\n", "")


@pytest.mark.full
@pytest.mark.parametrize("before", [["-m", "cudasim"], []], ids=["command", "call"])
def test_processes_that_a_program_starts_see_the_gpus(tmp_path, before):
    arguments = [] if before else ["enable"]
    script = SCRIPTS / "child_processes.py"
    got = run(*before, script, *arguments, cwd=tmp_path)
    assert got.returncode == 0, got.stderr
    assert got.stdout.removeprefix(LINE).splitlines() == [
        "fork ('cuda:1', [5.0, 5.0])",
        "spawn ('cuda:1', [5.0, 5.0])",
        "[('cuda:1', [1.0, 1.0]), ('cuda:1', [2.0, 2.0])]",
    ]


def test_jupyter_kernel(tmp_path, monkeypatch):
    from jupyter_client.manager import start_new_kernel

    got = run("-m", "cudasim.kernel", "--prefix", tmp_path, cwd=tmp_path)
    assert got.returncode == 0
    assert "'cudasim-2'" in got.stdout
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share" / "jupyter"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    manager, client = start_new_kernel(kernel_name="cudasim-2", cwd=str(tmp_path))
    printed = []

    def keep_text(message):
        if "text" in message["content"]:
            printed.append(message["content"]["text"])

    try:
        assert manager.kernel_spec.display_name == "Python (2 simulated GPUs)"
        cell = "import torch; print(torch.ones(1, device=torch.device(1)))"
        client.execute_interactive(cell, output_hook=keep_text, timeout=120)
        assert printed == ["tensor([1.], device='cuda:1')\n"]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_a_jupyter_kernel_in_the_folder_of_the_user(tmp_path):
    options = "--gpus 1 --card H100 --clock modelled --races warn".split()
    got = run("-m", "cudasim.kernel", *options, cwd=tmp_path, HOME=tmp_path)
    words = "cudasim: kernel 'cudasim-1-h100-modelled-warn' is in "
    assert got.stdout.startswith(words), got
    (path,) = tmp_path.rglob("kernel.json")
    spec = json.loads(path.read_text())
    assert spec["display_name"] == "Python (1 simulated GPU, modelled time)"
    assert spec["argv"][3 : 3 + len(options)] == options


USAGE = (
    "usage: %cudasim [GPUS] [--card NAME] [--device-type TYPE] [--clock CLOCK] [--races ACTION] "
    "[--force]"
)


def test_ipython_extension(tmp_path):
    got = run(SCRIPTS / "ipython_shell.py", cwd=tmp_path, IPYTHONDIR=tmp_path)
    assert got.stdout.splitlines() == [
        line().strip(),
        "2",
        line("3 simulated GPUs", "H100").strip(),
        "cudasim: GPUS=0: the number of simulated GPUs is from 1 to 64",
        f"cudasim: --crad: no such option; {USAGE}",
        f"cudasim: argument --card: expected one argument; {USAGE}",
        "cudasim: GPUS=2: a machine has exactly one mps device",
        "3 79",
        line("1 simulated GPU", "T4", MODELLED).strip(),
        "1 True",
        line("1 simulated mps device", "M1").strip(),
        "mps tensor([1.], device='mps:0')",
        "False None",
    ], got.stderr


@pytest.mark.parametrize("kind", ["cuda", pytest.param("mps", marks=pytest.mark.full)])
def test_leaving_restores_torch_exactly(tmp_path, kind):
    got = run(SCRIPTS / "leaving.py", kind, cwd=tmp_path)
    assert got.returncode == 0, got.stderr
    lines = got.stdout.splitlines()
    *changes, environment, errors = [
        line for line in lines if not line.startswith("cudasim:")
    ]
    assert changes == []
    assert environment == "environment is the same: True"
    assert int(errors.removeprefix("errors: ")) > 8  # texts of errors were compared


def test_overridable_functions_are_torchs_own_again():
    attend = F.scaled_dot_product_attention
    overridable = torch.overrides.get_testing_overrides
    with cudasim.simulate():
        assert attend not in overridable()  # another takes its place
    assert attend in overridable()
