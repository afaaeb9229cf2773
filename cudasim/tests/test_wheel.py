"""The package as pip installs it: a wheel, in an environment of its own."""

import importlib.util
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
    assert {"cudasim.pth", "LICENSE", "README.md", "pyproject.toml"} <= names
    paths = [path for path in PROJECT.rglob("*") if "__pycache__" not in path.parts]
    assert {path.relative_to(PROJECT).as_posix() for path in paths if path.suffix == ".py"} <= names
    assert "timings/published.json" in names


def test_what_the_wheel_holds(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert "cudasim.pth" in names  # at the root of site-packages, where Python reads it
    src, inherit = PACKAGE.parent, PACKAGE / "inherit"  # the latter is for checkouts
    paths = (path for path in PACKAGE.rglob("*.[pj]*") if path.parent != inherit)
    paths = (path for path in paths if path.suffix in (".py", ".json"))  # and the cards' sheets
    modules = {path.relative_to(src).as_posix() for path in paths}
    assert modules | {f"cudasim/backends/cuda/bin/nvidia-smi{end}" for end in ("", ".cmd")} <= names
    assert {name.split("/")[0] for name in names} == {
        "cudasim",
        "cudasim.pth",
        f"cudasim-{cudasim.__version__}.dist-info",
    }
    metadata = zipfile.ZipFile(wheel).read(f"cudasim-{cudasim.__version__}.dist-info/METADATA")
    lines = metadata.decode().splitlines()
    assert [line for line in lines if line.startswith("Requires-Dist")] == [
        "Requires-Dist: torch>=2.11"
    ]
    assert f"Version: {cudasim.__version__}" in lines


COUNT = "import torch; print(torch.cuda.device_count(), torch.ones(1, device='cuda:1'))"


def test_the_variable_is_enough(python, tmp_path):
    got = run("-c", COUNT, cwd=tmp_path, python=python, CUDASIM_GPUS="2", PYTHONPATH=None)
    assert (got.returncode, got.stdout, got.stderr) == (
        0,
        "2 tensor([1.], device='cuda:1')\n",
        LINE,
    )


def test_without_the_variable_nothing_happens(python, tmp_path):
    loaded = "import sys; print([name for name in ('cudasim', 'torch') if name in sys.modules])"
    got = run("-c", loaded, cwd=tmp_path, python=python, PYTHONPATH=None)
    assert (got.stdout, got.stderr) == ("[]\n", "")
    got = run("-c", loaded, cwd=tmp_path, python=python, PYTHONPATH=None, CUDASIM_GPUS="2")
    assert (got.stdout, got.stderr) == ("['cudasim']\n", "")  # torch is awaited, not imported
    got = run("-c", COUNT, cwd=tmp_path, python=python, PYTHONPATH=None)
    assert "Torch not compiled with CUDA enabled" in got.stderr or "NVIDIA" in got.stderr


def test_what_it_starts_needs_no_search_path(python, tmp_path):
    code = (
        "import os, subprocess, sys, torch; print(os.environ.get('PYTHONPATH'), flush=True); "
        f"subprocess.run([sys.executable, '-c', {COUNT!r}], check=True)"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    got = run("-m", "cudasim", script, cwd=tmp_path, python=python, PYTHONPATH=None)
    assert (got.stdout, got.stderr) == ("None\n2 tensor([1.], device='cuda:1')\n", LINE)
