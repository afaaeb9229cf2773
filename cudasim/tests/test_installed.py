"""Where PyTorch is missing or too old, one line says what to install."""

import os

from programs import PROJECT, run, write

ADVICE = (
    'pip install "torch>=2.11,<2.15" --index-url https://download.pytorch.org/whl/cpu '
    "(or another build of https://pytorch.org/get-started)"
)
MISSING = f"cudasim needs PyTorch, which is not installed: {ADVICE}"
OLD = f"cudasim needs PyTorch 2.11 or newer; this is 2.6.0+cpu: {ADVICE}"
# Modules that stand for another torch, or none.
NO_TORCH = "raise ModuleNotFoundError('no torch', name='torch')\n"
OLD_TORCH = "__version__ = '2.6.0+cpu'\n"


def last_line(result):
    assert result.returncode != 0
    return (result.stdout + result.stderr).strip().splitlines()[-1]


def test_a_program_without_torch(tmp_path):
    write(tmp_path / "torch.py", NO_TORCH)
    write(tmp_path / "program.py", "import cudasim; cudasim.enable()")
    result = run("program.py", cwd=tmp_path, fresh=True)
    assert last_line(result) == f"ImportError: {MISSING}"


def test_a_program_with_an_old_torch(tmp_path):
    write(tmp_path / "torch.py", OLD_TORCH)
    write(tmp_path / "program.py", "import cudasim; cudasim.enable()")
    result = run("program.py", cwd=tmp_path, fresh=True)
    assert last_line(result) == f"ImportError: {OLD}"


def test_the_command_without_torch(tmp_path):
    write(tmp_path / "torch.py", NO_TORCH)
    write(tmp_path / "program.py", "print('not reached')")
    result = run("-m", "cudasim", "program.py", cwd=tmp_path, fresh=True)
    assert (result.stdout, result.stderr) == ("", f"{MISSING}\n")


def test_the_command_with_an_old_torch(tmp_path):
    write(tmp_path / "torch.py", OLD_TORCH)
    write(tmp_path / "program.py", "import torch")
    result = run("-m", "cudasim", "program.py", cwd=tmp_path, fresh=True)
    assert last_line(result) == OLD


def test_pytest_without_torch(tmp_path):
    write(tmp_path / "torch.py", NO_TORCH)
    write(tmp_path / "test_one.py", "def test_one(): pass")
    arguments = "-m", "pytest", "-p", "cudasim.testing.plugin", "--simulated-gpus=2"
    path = os.pathsep.join([str(tmp_path), str(PROJECT / "src")])
    result = run(*arguments, cwd=tmp_path, fresh=True, PYTHONPATH=path)
    assert last_line(result) == f"ERROR: --simulated-gpus: {MISSING}"
