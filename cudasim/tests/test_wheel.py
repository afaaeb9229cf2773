"""The package as pip installs it: a wheel, in an environment of its own."""

import importlib.util
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import torch
from programs import PACKAGE, PROJECT, run

import cudasim

pytestmark = pytest.mark.full

LINE = "cudasim: 2 simulated GPUs (T4); real values, computed on the CPU\n"


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """The source distribution."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed: no wheel can be built")
    home = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", home]
    done = subprocess.run(build, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = home.glob("*.tar.gz")
    return built


@pytest.fixture(scope="module")
def wheel(sdist):
    """A wheel, built from the source distribution as `python -m build` and pip do it."""
    home = sdist.parent
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = ["wheel", sdist, "--no-deps", "--no-build-isolation", "--no-index", "-w", home]
    done = subprocess.run([*pip, *build], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = home.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The Python of an environment that holds the wheel, and sees the torch of this one."""
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, with_pip=False, symlinks=True)
    (site,) = home.glob("lib/python*/site-packages") or [home / "Lib" / "site-packages"]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(home)]
    install = ["install", "--no-deps", "--no-index", "--quiet", str(wheel)]
    subprocess.run([*pip, *install], check=True, capture_output=True)
    (site / "torch-of-the-tests.pth").write_text(str(Path(torch.__file__).parents[1]) + "\n")
    return home / "bin" / "python"


def test_what_the_source_distribution_holds(sdist):
    names = {name.partition("/")[2] for name in tarfile.open(sdist).getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "example/README.md"} <= names
    paths = [path for path in PROJECT.rglob("*") if "__pycache__" not in path.parts]
    assert {path.relative_to(PROJECT).as_posix() for path in paths if path.suffix == ".py"} <= names
    assert "timings/published.json" in names


def test_a_package_index_would_take_it(sdist, wheel):
    if importlib.util.find_spec("twine") is None:
        pytest.skip("twine is not installed: no package index is imitated")
    check = [sys.executable, "-m", "twine", "--no-color", "check", "--strict", sdist, wheel]
    done = subprocess.run(check, capture_output=True, text=True)
    assert (done.returncode, done.stdout.count("PASSED")) == (0, 2), done.stdout + done.stderr


def test_what_the_wheel_holds(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    src = PACKAGE.parent
    paths = (path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".json"))  # and sheets
    modules = {path.relative_to(src).as_posix() for path in paths} | {"cudasim/py.typed"}
    assert modules | {f"cudasim/backends/cuda/bin/nvidia-smi{end}" for end in ("", ".cmd")} <= names
    assert {name.split("/")[0] for name in names} == {
        "cudasim",
        f"cudasim-{cudasim.__version__}.dist-info",
    }
    metadata = zipfile.ZipFile(wheel).read(f"cudasim-{cudasim.__version__}.dist-info/METADATA")
    lines = metadata.decode().splitlines()
    assert [line for line in lines if line.startswith("Requires-Dist")] == [
        "Requires-Dist: torch>=2.11",
        "Requires-Dist: pytest>=8; extra == 'test'",
    ]
    assert f"Version: {cudasim.__version__}" in lines


COUNT = "import torch; print(torch.cuda.device_count(), torch.ones(1, device='cuda:1'))"


def test_the_variable_is_enough_once_it_was_requested(python, tmp_path):
    command = python.with_name("cudasim")
    got = run("-c", COUNT, cwd=tmp_path, python=python, CUDASIM_GPUS="2", PYTHONPATH=None)
    assert LINE not in got.stderr and got.returncode  # no program is touched unasked
    got = run("install-startup", cwd=tmp_path, python=command, PYTHONPATH=None)
    file = re.fullmatch(r"cudasim: (.*cudasim\.pth): written; .*\n", got.stdout)
    assert file and not got.stderr
    got = run("-c", COUNT, cwd=tmp_path, python=python, CUDASIM_GPUS="2", PYTHONPATH=None)
    assert (got.returncode, got.stdout, got.stderr) == (
        0,
        "2 tensor([1.], device='cuda:1')\n",
        LINE,
    )
    loaded = "import sys; print([name for name in ('cudasim', 'torch') if name in sys.modules])"
    got = run("-c", loaded, cwd=tmp_path, python=python, PYTHONPATH=None)
    assert (got.stdout, got.stderr) == ("[]\n", "")
    got = run("-c", loaded, cwd=tmp_path, python=python, PYTHONPATH=None, CUDASIM_GPUS="2")
    assert (got.stdout, got.stderr) == ("['cudasim']\n", "")  # torch is awaited, not imported
    got = run("-c", COUNT, cwd=tmp_path, python=python, PYTHONPATH=None)
    assert "Torch not compiled with CUDA enabled" in got.stderr or "NVIDIA" in got.stderr
    for _ in range(2):
        got = run("remove-startup", cwd=tmp_path, python=command, PYTHONPATH=None)
        assert not Path(file[1]).exists()
    assert got.stdout == f"cudasim: {file[1]}: was not there\n"


def test_the_command_and_the_plugin_come_with_it(python, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys, torch; print(torch.cuda.device_count(), sys.argv[1:])")
    command = python.with_name("cudasim")
    for how in ([script], ["-m", "script"]):  # a module of the current folder
        got = run("--gpus", "3", *how, "-x", cwd=tmp_path, python=command, PYTHONPATH=None)
        assert (got.returncode, got.stdout) == (0, "3 ['-x']\n")
        assert got.stderr == LINE.replace("2", "3")
    got = run("-m", "pytest", "--help", cwd=tmp_path, python=python, PYTHONPATH=None)
    assert "--simulated-gpus=N" in got.stdout


def test_what_it_starts_sees_the_gpus(python, tmp_path):
    code = (
        "import subprocess, sys, torch; "
        f"subprocess.run([sys.executable, '-c', {COUNT!r}], check=True)"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    got = run("-m", "cudasim", script, cwd=tmp_path, python=python, PYTHONPATH=None)
    assert (got.stdout, got.stderr) == ("2 tensor([1.], device='cuda:1')\n", LINE)
