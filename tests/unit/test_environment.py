"""The set-up of `.venv`: it holds exactly the pins, wherever the last set-up stopped.

pip installs tiny wheels from a folder, so nothing here needs a network.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT, assert_one_line
from pythons import interpreter, write_wheel

from tools.environment import PINS

SCRIPT = Path("tools", "environment.py")
# `venv` copies an empty environment, which takes no time; `change` makes something fail.
QUICK = """
import shutil, sys
from types import SimpleNamespace
sys.path.insert(0, "tools")
import environment
run = environment.run
def copy(*words, **options):
    if words[2] != "venv":
        return run(*words, **options)
    shutil.rmtree(words[-1], ignore_errors=True)
    shutil.copytree(sys.argv[1], words[-1], symlinks=True)
    return SimpleNamespace(returncode=0)
environment.run, environment.SMALLEST_GB = copy, 0
{change}
sys.exit(environment.main())
"""
PACKAGES = {"subject", "helper", "apart"}


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    """A folder of wheels, and an empty environment."""
    if sys.platform == "win32":
        pytest.skip(
            "these tests name folders and signals of POSIX; Windows was not tried"
        )
    folder = tmp_path_factory.mktemp("shelf")
    (folder / "wheels").mkdir()
    for name in ("subject", "helper"):
        write_wheel(folder / "wheels", name)
    write_wheel(folder / "wheels", "apart", requires="Requires-Dist: nowhere\n")
    subprocess.run([sys.executable, "-m", "venv", folder / "empty"], check=True)
    for package in (folder / "empty").glob(
        "lib/*/site-packages/*"
    ):  # a link is quick to copy
        package.symlink_to(package.rename(folder / package.name))
    return folder


@pytest.fixture
def bare(tmp_path):
    """A root that holds the script and the pins, and no environment."""
    root = tmp_path / "my books"
    (root / SCRIPT.parent).mkdir(parents=True)
    shutil.copy(ROOT / SCRIPT, root / SCRIPT)
    (root / PINS[0]).write_text("subject==1.0  # what it is about\nhelper==1.0\n")
    (root / PINS[1]).write_text("apart==1.0\n")
    return root


@pytest.fixture
def complete(bare, shelf):
    assert end(start(bare, shelf)) == (0, "")
    return bare


def start(root, shelf, change="", quick=True, **variables):
    """Start the script: with a shortcut and a `change`, or as it is."""
    command = ["-I", "-S", SCRIPT]  # no variables, no current folder, no site-packages
    if quick:
        command = ["-c", QUICK.format(change=change), shelf / "empty"]
    own = {
        name: value for name, value in os.environ.items() if not name.startswith("PIP_")
    }
    own |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1"}
    own |= {"PIP_FIND_LINKS": str(shelf / "wheels")}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        [sys.executable, *command], cwd=root, env=own | variables, **pipes
    )


def end(process):
    _, said = process.communicate(timeout=300)
    return process.returncode, said


def installed(root):
    """The packages of `.venv`, whose commands run."""
    folder = root / ".venv"
    assert (
        subprocess.check_output([folder / "bin" / "subject"], text=True)
        == f"{folder}\n"
    )
    return {path.stem.split("-")[0] for path in folder.glob("lib/*/*/*-1.0.dist-info")}


def test_other_python_uses_a_complete_environment_and_makes_none(complete):
    """The script must be readable by the very Python that it refuses."""
    script = [interpreter(8), SCRIPT]
    used = subprocess.run(script, cwd=complete, capture_output=True, text=True)
    assert (used.returncode, used.stderr) == (0, "")
    shutil.rmtree(complete / ".venv")
    refused = subprocess.run(script, cwd=complete, capture_output=True, text=True)
    assert refused.returncode == 1 and not (complete / ".venv").exists()
    named = ("Python 3.8", "3.11, 3.12, 3.13", "make PYTHON=")
    assert_one_line(refused.stderr, "error: Makefile: ", *named)


@pytest.mark.full
def test_two_at_once_make_one_environment(bare, shelf):
    """Nothing is replaced by a stand-in here, and the script has the standard library alone."""
    both = [start(bare, shelf, quick=False) for _ in range(2)]
    printed = sorted(run.communicate(timeout=300) for run in both)
    assert [run.returncode for run in both] == [0, 0], printed
    (first, _), (second, _) = printed
    assert first.splitlines()[1:] == ["Installing " + name for name in PINS]
    assert_one_line(second, "Waiting for another set-up")
    assert installed(bare) == PACKAGES


def test_a_second_call_does_nothing_until_pins_place_or_python_change(complete, shelf):
    (complete / PINS[0]).write_text("subject==1.0  # a comment\nhelper==1.0\n")
    assert end(start(complete, shelf, "environment.set_up = None")) == (0, "")
    moved = complete.rename(complete.with_name("l" * 150))
    assert end(start(moved, shelf)) == (0, "")
    assert installed(moved) == PACKAGES
    (moved / PINS[0]).write_text("subject==1.0\n")
    assert end(start(moved, shelf)) == (0, "")
    assert installed(moved) == {"subject", "apart"}
    python = moved / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/usr/bin/python-that-was")
    assert end(start(moved, shelf)) == (0, "")
    assert installed(moved) == {"subject", "apart"}


NOWHERE = {
    "PIP_NO_INDEX": "0",
    "PIP_INDEX_URL": "http://127.0.0.1:9/",
    "PIP_FIND_LINKS": "",
}


def test_after_an_interrupted_set_up_no_pip_runs_on_and_the_next_call_finishes(
    complete, shelf
):
    (complete / PINS[0]).write_text("helper==1.0\nsubject==1.0\n")
    with socket.create_server(
        ("127.0.0.1", 0)
    ) as server:  # an index that never answers
        server.settimeout(300)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/simple"
        run = start(complete, shelf, **NOWHERE | {"PIP_INDEX_URL": address})
        connection, _ = server.accept()
        run.send_signal(signal.SIGTERM)  # it does what Ctrl-C does
        code, said = end(run)
        assert code == 130
        assert_one_line(said, "interrupted: ", "again")
        connection.settimeout(300)
        while connection.recv(4096):  # it ends when pip does
            pass
    assert end(start(complete, shelf)) == (0, "")
    assert installed(complete) == PACKAGES


NO_ROOM = """
environment.SMALLEST_GB = 3
environment.shutil.disk_usage = lambda path: SimpleNamespace(free=1.24e9)"""
# Debian's python3 cannot make an environment until python3-venv is installed.
NO_VENV = "environment.run = lambda *words, **options: SimpleNamespace(returncode=1)"


@pytest.mark.parametrize(
    ("name", "change", "variables", "parts"),
    [
        ("absent", "", {}, [PINS[0], "no package index has absent==1.0 for Python 3."]),
        (
            "subject",
            "",
            NOWHERE,
            [PINS[0], "be reached (NewConnectionError); connect and run"],
        ),
        ("subject", NO_ROOM, {}, ["1.2 GB free", "make room"]),
        ("subject", NO_VENV, {}, [".venv: ", "python3-venv"]),
    ],
    ids=["no such package", "no network", "no room", "no venv"],
)
def test_what_fails_is_one_line_and_the_next_call_tries_again(
    bare, shelf, name, change, variables, parts
):
    (bare / PINS[0]).write_text(f"{name}==1.0\n")
    for _ in range(2):
        code, said = end(start(bare, shelf, change, **variables | {"PIP_RETRIES": "1"}))
        assert code == 1
        assert_one_line(said, "error: ", *parts)


def test_folder_that_cannot_be_written_to_and_missing_pins_are_one_line(bare, shelf):
    (bare / ".venv.lock").mkdir()
    code, said = end(start(bare, shelf))
    assert_one_line(said, "error: .venv: ", ".venv.lock", "can be written to")
    (bare / PINS[1]).unlink()
    again, said = end(start(bare, shelf))
    assert_one_line(said, f"error: {PINS[1]}: ", "git restore")
    assert (code, again) == (1, 1)
