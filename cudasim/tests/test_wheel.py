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


def run_module(*command):
    """Run `python -m *command` in the package's folder, and return what it prints."""
    command = [sys.executable, "-m", *command]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pip(*arguments):
    return run_module("pip", "--disable-pip-version-check", *arguments)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """The source distribution."""
    reason = "hatchling is not installed: no wheel can be built"
    pytest.importorskip("hatchling", reason=reason)
    home = tmp_path_factory.mktemp("dist")
    run_module("hatchling", "build", "-t", "sdist", "-d", home)
    (path,) = home.glob("*.tar.gz")
    return path


@pytest.fixture(scope="module")
def wheel(sdist):
    """A wheel, built from the source distribution as `python -m build` and pip do it."""
    offline = "--no-deps", "--no-build-isolation", "--no-index"
    pip("wheel", sdist, *offline, "-w", sdist.parent)
    (path,) = sdist.parent.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The Python of an environment that holds the wheel, and sees the torch of this one."""
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, with_pip=False, symlinks=True)
    (site,) = home.glob("lib/python*/site-packages") or [home / "Lib" / "site-packages"]
    offline = "--no-deps", "--no-index", "--quiet"
    pip("--python", home, "install", *offline, wheel)
    packages = Path(torch.__file__).parents[1]
    (site / "torch-of-the-tests.pth").write_text(f"{packages}\n")
    return home / "bin" / "python"


def test_what_the_source_distribution_holds(sdist):
    names = {name.partition("/")[2] for name in tarfile.open(sdist).getnames()}
    modules = {path.relative_to(PROJECT).as_posix() for path in PROJECT.rglob("*.py")}
    assert modules <= names
    for name in (
        "LICENSE",
        "README.md",
        "pyproject.toml",
        "example/README.md",
        "timings/published.json",
    ):
        assert name in names


def test_a_package_index_would_take_it(sdist, wheel):
    reason = "twine is not installed: no package index is imitated"
    pytest.importorskip("twine", reason=reason)
    text = run_module("twine", "--no-color", "check", "--strict", sdist, wheel)
    assert text.count("PASSED") == 2, text


def test_what_the_wheel_holds(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for pattern in ("*.py", "*.json", "py.typed", "nvidia-smi*"):
        paths = list(PACKAGE.rglob(pattern))
        assert paths
        for path in paths:
            assert path.relative_to(PACKAGE.parent).as_posix() in names
    folders = {name.split("/")[0] for name in names}
    assert folders == {"cudasim", f"cudasim-{cudasim.__version__}.dist-info"}


def test_what_the_wheel_needs(wheel):
    version = cudasim.__version__
    archive = zipfile.ZipFile(wheel)
    metadata = archive.read(f"cudasim-{version}.dist-info/METADATA").decode()
    needed = re.findall(r"^(?:Version|Requires-Dist): (.*)$", metadata, re.MULTILINE)
    # Without an extra nothing is needed, so that pip leaves an installed torch alone.
    assert needed[0] == version
    assert len(needed) > 1
    for requirement in needed[1:]:
        assert "; extra == " in requirement


COUNT = "import torch; print(torch.cuda.device_count(), torch.ones(1, device='cuda:1'))"


def test_the_variable_is_enough_once_it_was_requested(python, tmp_path):
    command = python.with_name("cudasim")

    def output(*arguments, python=python, **variables):
        got = run(*arguments, cwd=tmp_path, python=python, PYTHONPATH=None, **variables)
        return got.stdout, got.stderr

    # No program is touched unasked.
    _, errors = output("-c", COUNT, CUDASIM_GPUS="2")
    assert LINE not in errors

    written, _ = output("install-startup", python=command)
    (path,) = re.fullmatch(
        r"cudasim: (.*cudasim\.pth): written; .*\n", written
    ).groups()
    counted = output("-c", COUNT, CUDASIM_GPUS="2")
    assert counted == ("2 tensor([1.], device='cuda:1')\n", LINE)

    output("remove-startup", python=command)
    assert not Path(path).exists()
    again, _ = output("remove-startup", python=command)
    assert again == f"cudasim: {path}: was not there\n"


def test_the_command_and_the_plugin_come_with_it(python, tmp_path):
    write(tmp_path / "script.py", "import sys; print(sys.argv[1:])")
    command = python.with_name("cudasim")
    # `-m` finds a module of the current folder.
    arguments = "--gpus", "3", "-m", "script", "-x"
    got = run(*arguments, cwd=tmp_path, python=command, PYTHONPATH=None)
    assert (got.stdout, got.stderr) == ("['-x']\n", LINE.replace("2", "3"))
    got = run("-m", "pytest", "--help", cwd=tmp_path, python=python, PYTHONPATH=None)
    assert "--simulated-gpus=N" in got.stdout


def test_a_release_has_its_version_and_its_changes(
    facts, capsys, monkeypatch, tmp_path
):
    from facts import releases

    with pytest.raises(SystemExit, match=r"9\.9\.9: the package is version"):
        facts("release", "cudasim-9.9.9")

    monkeypatch.setattr(cudasim, "__version__", "1.2.3")
    with pytest.raises(SystemExit, match=r"no section of 1\.2\.3"):
        facts("release", "cudasim-1.2.3")

    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text(
        "# C\n\n## 1.2.3 - 2027-01-02\n\n- New.\n\n## 1.2.2 - x\n\n- Old.\n"
    )
    monkeypatch.setattr(releases, "CHANGELOG", changelog)
    capsys.readouterr()
    facts("release", "cudasim-1.2.3")
    assert capsys.readouterr().out == "- New.\n"
