"""The setup of `.venv`: it holds exactly the pins, wherever the last setup stopped.

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

from tools.environment import REQUIREMENTS

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
        pytest.skip("these tests name folders and signals of POSIX")
    folder = tmp_path_factory.mktemp("shelf")
    (folder / "wheels").mkdir()
    for name in ("subject", "helper"):
        write_wheel(folder / "wheels", name)
    write_wheel(folder / "wheels", "apart", requires="Requires-Dist: nowhere\n")
    subprocess.run([sys.executable, "-m", "venv", folder / "empty"], check=True)
    # A link is quick to copy.
    for package in (folder / "empty").glob("lib/*/site-packages/*"):
        package.symlink_to(package.rename(folder / package.name))
    return folder


@pytest.fixture
def bare(tmp_path):
    """A root that holds the script and the pins, and no environment."""
    root = tmp_path / "my books"
    (root / SCRIPT.parent).mkdir(parents=True)
    shutil.copy(ROOT / SCRIPT, root / SCRIPT)
    (root / REQUIREMENTS[0]).write_text(
        "subject==1.0  # what it is about\nhelper==1.0\n"
    )
    (root / REQUIREMENTS[1]).write_text("apart==1.0\n")
    return root


@pytest.fixture
def complete(bare, shelf):
    assert end(start(bare, shelf)) == (0, "")
    return bare


def start(root, shelf, change="", quick=True, **variables):
    """Start the script: with a shortcut and a `change`, or as it is."""
    if quick:
        command = ["-c", QUICK.format(change=change), shelf / "empty"]
    else:
        # No variables, no current folder, no site-packages.
        command = ["-I", "-S", SCRIPT]

    environment = {}
    for name, value in os.environ.items():
        if not name.startswith("PIP_"):
            environment[name] = value
    environment["PIP_CONFIG_FILE"] = os.devnull
    environment["PIP_NO_INDEX"] = "1"
    environment["PIP_FIND_LINKS"] = str(shelf / "wheels")
    environment.update(variables)

    return subprocess.Popen(
        [sys.executable, *command],
        cwd=root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process):
    """Wait for the script, and return its exit code and its errors."""
    _, errors = process.communicate(timeout=300)
    return process.returncode, errors


def installed(root):
    """Return the packages of `.venv`, after a command of one of them has run."""
    folder = root / ".venv"
    printed = subprocess.check_output([folder / "bin" / "subject"], text=True)
    assert printed == f"{folder}\n"
    return {path.stem.split("-")[0] for path in folder.glob("lib/*/*/*-1.0.dist-info")}


def test_an_old_python_makes_no_environment(complete):
    """The script must be readable by the very Python that it refuses."""
    script = [interpreter(8), SCRIPT]
    used = subprocess.run(script, cwd=complete, capture_output=True, text=True)
    assert (used.returncode, used.stderr) == (0, "")
    shutil.rmtree(complete / ".venv")
    refused = subprocess.run(script, cwd=complete, capture_output=True, text=True)
    assert refused.returncode == 1
    assert not (complete / ".venv").exists()
    parts = ("Python 3.8", "3.11, 3.12, 3.13", "make PYTHON=")
    assert_one_line(refused.stderr, "error: Makefile: ", *parts)


@pytest.mark.full
def test_two_at_once_make_one_environment(bare, shelf):
    """The script as it is, without a shortcut, and with the standard library alone."""
    both = [start(bare, shelf, quick=False) for _ in range(2)]
    printed = sorted(run.communicate(timeout=300) for run in both)
    assert [run.returncode for run in both] == [0, 0], printed
    (first, _), (second, _) = printed
    assert first.splitlines()[1:] == [f"Installing {name}" for name in REQUIREMENTS]
    assert_one_line(second, "Waiting for another setup")
    assert installed(bare) == PACKAGES


def test_a_second_call_does_nothing_while_all_is_current(complete, shelf):
    commented = "# A comment of its own.\n\nsubject==1.0  # another\nhelper==1.0\n"
    (complete / REQUIREMENTS[0]).write_text(commented)
    assert end(start(complete, shelf, "environment.set_up = None")) == (0, "")


def test_other_pins_another_place_or_python_are_set_up(complete, shelf):
    moved = complete.rename(complete.with_name("l" * 150))
    assert end(start(moved, shelf)) == (0, "")
    assert installed(moved) == PACKAGES

    (moved / REQUIREMENTS[0]).write_text("subject==1.0\n")
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


def test_after_an_interruption_the_next_call_finishes(complete, shelf):
    (complete / REQUIREMENTS[0]).write_text("helper==1.0\nsubject==1.0\n")
    # This package index never answers.
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(300)
        port = server.getsockname()[1]
        index = {"PIP_INDEX_URL": f"http://127.0.0.1:{port}/simple"}
        run = start(complete, shelf, **NOWHERE | index)
        connection, _ = server.accept()
        # The script treats it like Ctrl-C.
        run.send_signal(signal.SIGTERM)
        code, errors = end(run)
        assert code == 130
        assert_one_line(errors, "interrupted: ", "again")
        # The connection ends when pip does: none runs on.
        connection.settimeout(300)
        while connection.recv(4096):
            pass
    assert end(start(complete, shelf)) == (0, "")
    assert installed(complete) == PACKAGES


NO_ROOM = """
environment.SMALLEST_GB = 3
environment.shutil.disk_usage = lambda path: SimpleNamespace(free=1.24e9)"""
# Debian's python3 cannot make an environment until python3-venv is installed.
NO_VENV = "environment.run = lambda *words, **options: SimpleNamespace(returncode=1)"


ABSENT = [REQUIREMENTS[0], "no package index has absent==1.0 for Python 3."]
UNREACHED = [REQUIREMENTS[0], "be reached (NewConnectionError); connect and run"]
FAILURES = {
    "no such package": ("absent", "", {}, ABSENT),
    "no network": ("subject", "", NOWHERE, UNREACHED),
    "no room": ("subject", NO_ROOM, {}, ["1.2 GB free", "make room"]),
    "no venv": ("subject", NO_VENV, {}, [".venv: ", "python3-venv"]),
}


@pytest.mark.parametrize(
    ("name", "change", "variables", "parts"), FAILURES.values(), ids=FAILURES.keys()
)
def test_a_failure_is_one_line_each_time(bare, shelf, name, change, variables, parts):
    (bare / REQUIREMENTS[0]).write_text(f"{name}==1.0\n")
    for _ in range(2):
        code, errors = end(start(bare, shelf, change, PIP_RETRIES="1", **variables))
        assert code == 1
        assert_one_line(errors, "error: ", *parts)


def test_a_folder_that_cannot_be_written_to_is_one_line(bare, shelf):
    (bare / ".venv.lock").mkdir()
    code, errors = end(start(bare, shelf))
    assert code == 1
    assert_one_line(errors, "error: .venv: ", ".venv.lock", "can be written to")


def test_missing_pins_are_one_line(bare, shelf):
    (bare / REQUIREMENTS[1]).unlink()
    code, errors = end(start(bare, shelf))
    assert code == 1
    assert_one_line(errors, f"error: {REQUIREMENTS[1]}: ", "git restore")
