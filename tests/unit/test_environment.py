"""`make environment` refuses in one line what cannot work, and installs once, not twice."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers import ROOT, assert_one_line

SCRIPT = Path("tools", "environment.py")


@pytest.fixture
def bare(tmp_path):
    """A root that holds the script and the pins; the script's ROOT is there."""
    root = tmp_path / "bare"
    (root / SCRIPT.parent).mkdir(parents=True)
    shutil.copy(ROOT / SCRIPT, root / SCRIPT)
    (root / "requirements.txt").write_text("torch==2.13.0  # the subject\n")
    (root / "requirements-no-deps.txt").write_text("d2l==1.0.3\n")
    return root


@pytest.fixture
def environment(bare):
    """The script as a module, loaded by its path as the bare Python does."""
    spec = importlib.util.spec_from_file_location("environment", bare / SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def pip(environment, monkeypatch):
    """A stand-in for `.venv/bin/python -m pip`: it writes down its calls and obeys `fail`."""
    python = environment.venv_python(environment.ROOT)
    python.parent.mkdir(parents=True)
    python.touch()
    calls, fail = [], python.parent / "fail"

    def run(command, check):
        assert command[:4] == [str(python), "-m", "pip", "install"]
        calls.append(command[4:])
        # It fails for the file whose name `fail` holds, as pip does: with an exit code.
        return SimpleNamespace(returncode=fail.is_file() and command[-1].endswith(fail.read_text()))

    monkeypatch.setattr(environment.subprocess, "run", run)
    return SimpleNamespace(
        calls=lambda: list(calls), fail=fail, stamp=environment.ROOT / ".venv" / "pins"
    )


def test_script_needs_nothing_but_the_standard_library(bare):
    load = f"""import importlib.util
spec = importlib.util.spec_from_file_location("environment", {str(bare / SCRIPT)!r})
spec.loader.exec_module(importlib.util.module_from_spec(spec))"""
    # -I: no variables, no current folder; -S: no site-packages
    subprocess.run([sys.executable, "-I", "-S", "-c", load], check=True)


@pytest.mark.parametrize("version", [(3, 8), (3, 10), (3, 14), (4, 0)])
def test_other_pythons_are_refused_in_one_line(environment, version):
    with pytest.raises(environment.SetupError) as error:
        environment.check_python(version)
    name = "Python {}.{}".format(*version)
    assert_one_line(str(error.value), "Makefile: ", name, "3.11, 3.12, 3.13", "make PYTHON=")


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13)])
def test_pythons_of_the_pins_are_accepted(environment, version):
    environment.check_python(version)


@pytest.mark.parametrize("minor", [10, 14])
def test_other_python_runs_the_script_and_is_refused(bare, minor):
    """The script must be readable by the very Python that it refuses."""
    python = interpreter(minor)
    if python is None:
        pytest.skip(f"no Python 3.{minor} on this machine")
    run = subprocess.run([python, SCRIPT], cwd=bare, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert_one_line(run.stderr, "error: Makefile: ", f"Python 3.{minor}", "make PYTHON=")
    assert not (bare / ".venv").exists()


def interpreter(minor):
    """A Python 3.<minor> that runs, or None."""
    kept = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
    for python in [shutil.which(f"python3.{minor}"), *map(str, kept)]:
        # a shim of pyenv is there without its Python
        if (
            python
            and subprocess.run([python, "-V"], capture_output=True, check=False).returncode == 0
        ):
            return python
    return None


def test_full_disk_is_refused_before_anything_is_made(environment, monkeypatch, capsys):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1.24e9))
    assert environment.main() == 1
    assert_one_line(capsys.readouterr().err, "error: .venv: ", "1.2 GB free", "make room")
    assert not (environment.ROOT / ".venv").exists()


def test_install_takes_both_files_and_the_second_without_dependencies(environment, pip):
    assert environment.main() == 0
    first, second = pip.calls()
    assert Path(first[-1]).name == "requirements.txt" and "--no-deps" not in first
    assert Path(second[-1]).name == "requirements-no-deps.txt" and "--no-deps" in second


@pytest.mark.parametrize(
    ("platform", "os", "python"),
    [
        ("linux", "", ".venv/bin/python"),
        ("darwin", "", ".venv/bin/python"),
        ("win32", "Windows_NT", ".venv/Scripts/python.exe"),
    ],
)
def test_script_and_makefile_agree_where_the_interpreter_is(
    environment, monkeypatch, platform, os, python
):
    if shutil.which("make") is None:
        pytest.skip("no make on this machine")
    # `OS` is what Windows tells make of itself
    make = ["make", "--dry-run", f"OS={os}", "book"]
    run = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True)
    monkeypatch.setattr(environment.sys, "platform", platform)
    assert environment.venv_python(ROOT) == ROOT / python
    assert f"{python} -m tools book" in run.stdout


def test_second_call_does_nothing(environment, pip, capsys):
    assert environment.main() == 0
    before = pip.calls()
    capsys.readouterr()
    assert environment.main() == 0
    assert pip.calls() == before
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-no-deps.txt"])
def test_changed_pin_installs_again(environment, pip, file):
    assert environment.main() == 0
    with (environment.ROOT / file).open("a") as pins:
        pins.write("another-package==1.0\n")
    assert environment.main() == 0
    assert len(pip.calls()) == 4


def test_comment_on_a_pin_installs_nothing(environment, pip):
    assert environment.main() == 0
    (environment.ROOT / "requirements.txt").write_text("torch==2.13.0  # still the subject\n")
    assert environment.main() == 0
    assert len(pip.calls()) == 2


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-no-deps.txt"])
def test_failing_pip_names_the_file_and_leaves_no_stamp(environment, pip, file, capsys):
    pip.fail.write_text(file)
    assert environment.main() == 1
    assert_one_line(capsys.readouterr().err, f"error: {file}: ", "run again")
    assert not pip.stamp.exists()
    pip.fail.unlink()
    assert environment.main() == 0  # and the next call goes on


def test_another_python_makes_the_environment_anew(environment, pip, monkeypatch):
    """Else the stamp says 3.13 and `.venv` goes on running what it was made with."""
    made = []
    assert environment.main() == 0
    monkeypatch.setattr(environment.platform, "python_version", lambda: "3.99.0")
    monkeypatch.setattr(environment.venv, "create", lambda folder, **options: made.append(options))
    assert environment.main() == 0
    assert len(made) == 1 and made[0].get("clear")


def test_failing_pip_leaves_no_stamp_of_older_pins(environment, pip):
    """Back at the older pins, half of the newer ones are installed: that is to be mended."""
    pins = environment.ROOT / "requirements.txt"
    older = pins.read_text()
    assert environment.main() == 0
    pins.write_text("torch==2.14.0\n")
    pip.fail.write_text("requirements-no-deps.txt")
    assert environment.main() == 1
    pip.fail.unlink()
    pins.write_text(older)
    before = len(pip.calls())
    assert environment.main() == 0
    assert len(pip.calls()) > before


def test_disk_that_fills_up_is_named_when_pip_fails(environment, pip, monkeypatch, capsys):
    free = iter([50e9, 0.1e9])
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=next(free)))
    pip.fail.write_text("requirements.txt")
    assert environment.main() == 1
    assert_one_line(capsys.readouterr().err, "error: .venv: ", "0.1 GB free")


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-no-deps.txt"])
def test_missing_pins_are_told_in_one_line(environment, pip, file, capsys):
    (environment.ROOT / file).unlink()
    assert environment.main() == 1
    assert_one_line(capsys.readouterr().err, f"error: {file}: ", "git checkout")


def test_python_without_ensurepip_is_told_in_one_line(environment, monkeypatch, capsys):
    """Debian's python3 cannot make an environment until python3-venv is installed."""

    def create(folder, **options):
        raise subprocess.CalledProcessError(1, [sys.executable, "-m", "ensurepip"])

    monkeypatch.setattr(environment.venv, "create", create)
    assert environment.main() == 1
    assert_one_line(capsys.readouterr().err, "error: .venv: ", "python3-venv")


def test_ctrl_c_leaves_no_stamp(environment, pip, monkeypatch, capsys):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(environment.subprocess, "run", interrupted)
    assert environment.main() == 130
    assert_one_line(capsys.readouterr().err, "interrupted: ", "again")
    assert not pip.stamp.exists()
