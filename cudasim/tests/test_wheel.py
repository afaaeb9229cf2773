"""The package as pip installs it: a wheel, in an environment of its own."""

import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import torch
from programs import PACKAGE, PROJECT, run, write

import cudasim

pytestmark = pytest.mark.full

LINE = "cudasim: 2 simulated GPUs (T4); real values, computed on the CPU\n"


def carry_out(*command):
    """Run `python -m *command` in the package's folder; what it prints."""
    command = [sys.executable, "-m", *command]
    done = subprocess.run(
        command, cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


PIP = "pip", "--disable-pip-version-check"


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """The source distribution."""
    pytest.importorskip(
        "hatchling", reason="hatchling is not installed: no wheel can be built"
    )
    home = tmp_path_factory.mktemp("dist")
    carry_out("hatchling", "build", "-t", "sdist", "-d", home)
    (built,) = home.glob("*.tar.gz")
    return built


@pytest.fixture(scope="module")
def wheel(sdist):
    """A wheel, built from the source distribution as `python -m build` and pip do it."""
    offline = "--no-deps", "--no-build-isolation", "--no-index"
    carry_out(*PIP, "wheel", sdist, *offline, "-w", sdist.parent)
    (built,) = sdist.parent.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The Python of an environment that holds the wheel, and sees the torch of this one."""
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, with_pip=False, symlinks=True)
    (site,) = home.glob("lib/python*/site-packages") or [home / "Lib" / "site-packages"]
    carry_out(
        *PIP, "--python", home, "install", "--no-deps", "--no-index", "--quiet", wheel
    )
    (site / "torch-of-the-tests.pth").write_text(
        str(Path(torch.__file__).parents[1]) + "\n"
    )
    return home / "bin" / "python"


def test_what_the_source_distribution_holds(sdist):
    names = {name.partition("/")[2] for name in tarfile.open(sdist).getnames()}
    named = "LICENSE README.md pyproject.toml example/README.md timings/published.json".split()
    modules = {path.relative_to(PROJECT).as_posix() for path in PROJECT.rglob("*.py")}
    assert {*named, *modules} <= names


def test_a_package_index_would_take_it(sdist, wheel):
    pytest.importorskip(
        "twine", reason="twine is not installed: no package index is imitated"
    )
    said = carry_out("twine", "--no-color", "check", "--strict", sdist, wheel)
    assert said.count("PASSED") == 2, said


def test_what_the_wheel_holds(wheel):
    file, version = zipfile.ZipFile(wheel), cudasim.__version__
    names = set(file.namelist())
    paths = [
        path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".json")
    ]  # and sheets
    paths += [
        PACKAGE / "py.typed",
        *(PACKAGE / "backends" / "cuda" / "bin").glob("nvidia-smi*"),
    ]
    assert {path.relative_to(PACKAGE.parent).as_posix() for path in paths} <= names
    about = f"cudasim-{version}.dist-info"
    assert {name.split("/")[0] for name in names} == {"cudasim", about}
    metadata = file.read(f"{about}/METADATA").decode()
    needed = re.findall(r"^(?:Version|Requires-Dist): (.*)$", metadata, re.MULTILINE)
    assert needed == [version, "torch>=2.11", "pytest>=8; extra == 'test'"]


COUNT = "import torch; print(torch.cuda.device_count(), torch.ones(1, device='cuda:1'))"


def test_the_variable_is_enough_once_it_was_requested(python, tmp_path):
    command = python.with_name("cudasim")

    def said(*arguments, python=python, **variables):
        got = run(*arguments, cwd=tmp_path, python=python, PYTHONPATH=None, **variables)
        return got.stdout, got.stderr

    assert (
        LINE not in said("-c", COUNT, CUDASIM_GPUS="2")[1]
    )  # no program is touched unasked
    written = said("install-startup", python=command)[0]
    file = re.fullmatch(r"cudasim: (.*cudasim\.pth): written; .*\n", written)
    assert said("-c", COUNT, CUDASIM_GPUS="2") == (
        "2 tensor([1.], device='cuda:1')\n",
        LINE,
    )
    said("remove-startup", python=command)
    assert not Path(file[1]).exists()
    assert (
        said("remove-startup", python=command)[0]
        == f"cudasim: {file[1]}: was not there\n"
    )


def test_the_command_and_the_plugin_come_with_it(python, tmp_path):
    write(tmp_path / "script.py", "import sys; print(sys.argv[1:])")
    command = python.with_name("cudasim")  # `-m`: a module of the current folder
    got = run(
        "--gpus",
        "3",
        "-m",
        "script",
        "-x",
        cwd=tmp_path,
        python=command,
        PYTHONPATH=None,
    )
    assert (got.stdout, got.stderr) == ("['-x']\n", LINE.replace("2", "3"))
    got = run("-m", "pytest", "--help", cwd=tmp_path, python=python, PYTHONPATH=None)
    assert "--simulated-gpus=N" in got.stdout
