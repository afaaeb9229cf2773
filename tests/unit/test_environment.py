"""The set-up of `.venv`: it holds exactly the pins, and a complete one is never lost.

pip installs tiny wheels from a folder, so nothing here needs a network.
"""

import functools
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
from pathlib import Path
from types import SimpleNamespace
sys.path.insert(0, "tools")
import environment
run_venv = environment.run_venv
def copy(python, *words):
    if words[0] == "--without-pip":
        return run_venv(python, *words)
    shutil.copytree(sys.argv[1], words[0], symlinks=True)
environment.run_venv, environment.SMALLEST_GB = copy, 0
{change}
sys.exit(environment.main())
"""
PACKAGES = {"subject", "helper", "apart"}
NAMED = "subject==1.0  # what it is about\nhelper==1.0\n"


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    """A folder of wheels; an empty environment; a root with a complete one."""
    if sys.platform == "win32":
        pytest.skip("these tests name folders and signals of POSIX; Windows was not tried")
    folder = tmp_path_factory.mktemp("shelf")
    (folder / "wheels").mkdir()
    for name in ("subject", "helper"):
        write_wheel(folder / "wheels", name)
    write_wheel(folder / "wheels", "apart", requires="Requires-Dist: nowhere\n")
    subprocess.run([sys.executable, "-m", "venv", folder / "empty"], check=True)
    for package in (folder / "empty").glob("lib/*/site-packages/*"):  # a link is quick to copy
        package.symlink_to(package.rename(folder / package.name))
    root = make_bare(folder / "finished")
    assert end(start(root, folder)) == (0, "")
    return folder


def make_bare(root):
    """A root that holds the script and the pins."""
    (root / SCRIPT.parent).mkdir(parents=True)
    shutil.copy(ROOT / SCRIPT, root / SCRIPT)
    (root / PINS[0]).write_text(NAMED)
    (root / PINS[1]).write_text("apart==1.0\n")
    return root


def start(root, shelf, change="", quick=True, **variables):
    """Start the script: with a shortcut and a `change`, or as it is."""
    command = ["-I", "-S", SCRIPT]  # no variables, no current folder, no site-packages
    if quick:
        command = ["-c", QUICK.format(change=change), shelf / "empty"]
    own = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    own |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1"}
    own |= {"PIP_FIND_LINKS": str(shelf / "wheels")}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, *command], cwd=root, env=own | variables, **pipes)


def end(process):
    """The exit code of a script that ends now, and its errors."""
    _, said = process.communicate(timeout=300)
    return process.returncode, said


@pytest.fixture
def bare(tmp_path, shelf):
    """A root without an environment."""
    return make_bare(tmp_path / "bare")


@pytest.fixture
def complete(bare, shelf):
    """A root with a complete environment, which was made elsewhere."""
    shutil.copytree(shelf / "finished" / ".venv", bare / ".venv", symlinks=True)
    return bare


def installed(root):
    """What `.venv` holds and whether its commands run, by path and by activation."""
    folder = root / ".venv"
    run = functools.partial(subprocess.check_output, text=True)
    assert run([folder / "bin" / "subject"]) == f"{folder}\n"
    activated = ["bash", "-c", 'source "$1"; subject; echo "$VIRTUAL_ENV_PROMPT"', "bash"]
    prefix, prompt = run([*activated, folder / "bin" / "activate"]).splitlines()
    assert prefix == str(folder) and ".venv" in prompt and "new" not in prompt
    assert not [path for path in root.iterdir() if path.name in (".venv.new", ".venv.old")]
    return {path.stem.split("-")[0] for path in folder.glob("lib/*/*/*-1.0.dist-info")}


def test_other_python_uses_a_complete_environment_and_makes_none(bare, shelf):
    """The script must be readable by the very Python that it refuses."""
    run = functools.partial(
        subprocess.run, [interpreter(8), SCRIPT], capture_output=True, text=True
    )
    refused = run(cwd=bare)
    assert refused.returncode == 1
    named = ("Python 3.8", "3.11, 3.12, 3.13", "make PYTHON=")
    assert_one_line(refused.stderr, "error: Makefile: ", *named)
    assert not (bare / ".venv").exists()
    used = run(cwd=shelf / "finished")
    assert (used.returncode, used.stderr) == (0, "")


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


def test_second_call_does_nothing_but_where_the_python_of_the_environment_is_gone(complete, shelf):
    assert end(start(complete, shelf)) == (0, "")
    (complete / PINS[0]).write_text(NAMED.replace("what", "all that"))
    untouched = "environment.only_one = environment.set_up = None"
    assert end(start(complete, shelf, untouched)) == (0, "")
    (complete / ".venv" / "pyvenv.cfg").write_text("executable = /usr/bin/python-that-was\n")
    assert end(start(complete, shelf)) == (0, "")
    assert installed(complete) == PACKAGES


@pytest.mark.parametrize("name", ["my books", "l" * 150])
def test_moved_environment_works_also_where_the_path_has_a_space(complete, shelf, tmp_path, name):
    moved = complete.rename(tmp_path / name)
    assert end(start(moved, shelf)) == (0, "")
    assert installed(moved) == PACKAGES


@pytest.mark.parametrize(
    "killed",
    [
        """
rename = Path.rename
Path.rename = lambda a, b: sys.exit(9) if a.name == ".venv.new" else rename(a, b)""",
        "environment.correct_scripts = lambda folder: sys.exit(9)",
    ],
    ids=["between the two renames", "before the scripts are corrected"],
)
def test_killed_anywhere_the_next_call_finishes(complete, shelf, killed):
    (complete / PINS[0]).write_text("subject==1.0\n")
    assert end(start(complete, shelf, killed)) == (9, "")
    (complete / PINS[0]).write_text("absent==1.0\n")  # not even by one that fails is it lost
    assert end(start(complete, shelf))[0] == 1
    assert (complete / ".venv" / "pins").is_file()
    (complete / PINS[0]).write_text("subject==1.0\n")
    assert end(start(complete, shelf)) == (0, "")
    assert installed(complete) == {"subject", "apart"}


NOWHERE = {"PIP_NO_INDEX": "0", "PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_FIND_LINKS": ""}


def test_interrupted_install_leaves_the_old_one_and_no_pip(complete, shelf):
    (complete / PINS[0]).write_text("subject==1.0\n")
    with socket.create_server(("127.0.0.1", 0)) as server:  # an index that never answers
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
    (complete / PINS[0]).write_text(NAMED)
    assert end(start(complete, shelf)) == (0, "")
    assert installed(complete) == PACKAGES


NO_ROOM = """
environment.SMALLEST_GB = 3
environment.shutil.disk_usage = lambda path: SimpleNamespace(free=1.24e9)"""
# Debian's python3 cannot make an environment until python3-venv is installed.
NO_VENV = """
environment.run_venv = run_venv
environment.subprocess.run = lambda *words, **options: SimpleNamespace(returncode=1)"""


@pytest.mark.parametrize(
    ("pin", "change", "variables", "parts"),
    [
        ("absent==1.0", "", {}, [PINS[0], "no package index has absent==1.0 for Python 3."]),
        (
            "subject==1.0",
            "",
            NOWHERE,
            [PINS[0], "be reached (NewConnectionError); connect and run"],
        ),
        ("subject==1.0", NO_ROOM, {}, ["1.2 GB free", "make room"]),
        ("subject==1.0", NO_VENV, {}, [".venv: ", "python3-venv"]),
    ],
    ids=["no such package", "no network", "no room", "no venv"],
)
def test_what_fails_is_one_line_and_the_environment_stays(
    complete, shelf, pin, change, variables, parts
):
    before = (complete / ".venv" / "pins").read_text()
    (complete / PINS[0]).write_text(f"{pin}\n")
    code, said = end(start(complete, shelf, change, **variables | {"PIP_RETRIES": "1"}))
    assert code == 1
    assert_one_line(said, "error: ", *parts)
    assert (complete / ".venv" / "pins").read_text() == before


def test_folder_that_cannot_be_written_to_and_missing_pins_are_one_line(bare, shelf):
    (bare / ".venv.lock").mkdir()
    code, said = end(start(bare, shelf))
    assert_one_line(said, "error: .venv: ", ".venv.lock", "can be written to")
    (bare / PINS[1]).unlink()
    again, said = end(start(bare, shelf))
    assert_one_line(said, f"error: {PINS[1]}: ", "git restore")
    assert (code, again) == (1, 1)
