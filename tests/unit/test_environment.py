"""The set-up of `.venv`: it holds exactly the pins, and a complete one is never lost.

pip installs tiny wheels from a folder, so nothing here needs a network.
"""

import functools
import importlib.util
import inspect
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers import ROOT, assert_one_line
from pythons import interpreter, write_wheel

from tools.environment import PINS

SCRIPT = Path("tools", "environment.py")
PACKAGES = {"subject", "helper", "apart"}
NAMED = "subject==1.0  # what it is about\nhelper==1.0\n"


def quicken(script, empty):
    """Let the script copy an empty environment where it would make one, which takes seconds."""
    run_venv = script.run_venv

    def copy(python, *words):
        if words[0] == "--without-pip":
            return run_venv(python, *words)
        shutil.copytree(empty, words[0], symlinks=True)

    script.run_venv, script.SMALLEST_GB = copy, 0


QUICK = f"""
import shutil, sys
sys.path.insert(0, "tools")
import environment
{inspect.getsource(quicken)}
quicken(environment, sys.argv[1])
sys.exit(environment.main())
"""


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
    with pytest.MonkeyPatch.context() as patch:
        offline(patch, folder)
        run = start(root, folder)
        assert (run.wait(300), run.stderr.read()) == (0, "")
    return folder


def make_bare(root):
    """A root that holds the script and the pins."""
    (root / SCRIPT.parent).mkdir(parents=True)
    shutil.copy(ROOT / SCRIPT, root / SCRIPT)
    (root / "requirements.txt").write_text(NAMED)
    (root / "requirements-no-deps.txt").write_text("apart==1.0\n")
    return root


def offline(patch, shelf):
    """Let pip take wheels from the shelf, whatever this machine's settings are."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        patch.delenv(name)
    patch.setenv("PIP_CONFIG_FILE", os.devnull)
    patch.setenv("PIP_NO_INDEX", "1")
    patch.setenv("PIP_FIND_LINKS", str(shelf / "wheels"))


def start(root, shelf=None, **variables):
    """Start the script; with a shelf, it does not make an environment but copies the empty one."""
    # -I: no variables, no current folder; -S: no site-packages
    command = ["-c", QUICK, shelf / "empty"] if shelf else ["-I", "-S", SCRIPT]
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=root,
        env=os.environ | variables,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def load(root):
    """The script as a module, loaded by its path as the bare Python does."""
    spec = importlib.util.spec_from_file_location("environment", root / SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def bare(tmp_path, shelf, monkeypatch):
    """A root without an environment."""
    offline(monkeypatch, shelf)
    return make_bare(tmp_path / "bare")


@pytest.fixture
def complete(bare, shelf):
    """The script as a module, in a root with a complete environment, moved there."""
    module = load(bare)
    shutil.copytree(shelf / "finished" / ".venv", module.VENV, symlinks=True)
    quicken(module, shelf / "empty")
    term = signal.getsignal(signal.SIGTERM)
    yield module
    signal.signal(signal.SIGTERM, term)


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


def test_two_at_once_make_one_environment(bare):
    """Nothing is replaced by a stand-in here, and the script has the standard library alone."""
    both = [start(bare), start(bare)]
    printed = sorted(run.communicate(timeout=300) for run in both)
    assert [run.returncode for run in both] == [0, 0], printed
    (first, _), (second, _) = printed
    assert first.splitlines()[1:] == ["Installing " + name for name in PINS]
    assert_one_line(second, "Waiting for another set-up")
    assert installed(bare) == PACKAGES


def test_second_call_does_nothing_but_where_the_python_of_the_environment_is_gone(
    complete, monkeypatch, capsys
):
    assert complete.main() == 0
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(complete, "only_one", None)  # not even the lock is taken
        (complete.ROOT / "requirements.txt").write_text(NAMED.replace("what", "all that"))
        assert complete.main() == 0
    assert capsys.readouterr().out == ""
    (complete.VENV / "pyvenv.cfg").write_text("executable = /usr/bin/python-that-was\n")
    assert complete.main() == 0
    assert installed(complete.ROOT) == PACKAGES


def test_moved_environment_works_also_where_the_path_has_a_space(complete, tmp_path):
    for name in ("my books", "l" * 150):
        moved = load(complete.ROOT.rename(tmp_path / name))
        complete.ROOT = moved.ROOT
        assert moved.main() == 0
        assert installed(moved.ROOT) == PACKAGES


@pytest.mark.parametrize("stop", ["between the two renames", "correct_scripts"])
def test_killed_anywhere_the_next_call_finishes(complete, stop, monkeypatch):
    def killed(*arguments):
        raise SystemExit

    rename = Path.rename
    assert complete.main() == 0
    (complete.ROOT / "requirements.txt").write_text("subject==1.0\n")
    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        if stop == "correct_scripts":
            patch.setattr(complete, stop, killed)
        else:
            second = complete.NEW
            patch.setattr(Path, "rename", lambda a, b: killed() if a == second else rename(a, b))
        complete.main()
    assert any((folder / "pins").is_file() for folder in (complete.VENV, complete.OLD))
    assert complete.main() == 0
    assert installed(complete.ROOT) == {"subject", "apart"}


@pytest.fixture
def silent():
    """An index that takes a question and never answers, and the variables that lead pip to it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(300)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/simple"
        variables = {"PIP_NO_INDEX": "0", "PIP_INDEX_URL": address, "PIP_RETRIES": "0"}
        yield server, variables | {"PIP_FIND_LINKS": ""}


def test_interrupted_install_leaves_the_old_one_and_no_pip(complete, shelf, silent):
    server, variables = silent
    assert complete.main() == 0
    (complete.ROOT / "requirements.txt").write_text("subject==1.0\n")
    run = start(complete.ROOT, shelf, **variables)
    connection, _ = server.accept()
    run.send_signal(signal.SIGTERM)  # it does what Ctrl-C does
    assert_one_line(run.communicate(timeout=300)[1], "interrupted: ", "again")
    assert run.returncode == 130
    connection.settimeout(300)
    while connection.recv(4096):  # it ends when pip does
        pass
    (complete.ROOT / "requirements.txt").write_text(NAMED)
    assert complete.main() == 0
    assert installed(complete.ROOT) == PACKAGES


def test_next_call_waits_for_the_pip_of_a_killed_one(bare, shelf, silent):
    server, variables = silent
    first = start(bare, shelf, **variables)
    connection, _ = server.accept()
    first.kill()
    second = start(bare, shelf)
    assert_one_line(second.stdout.readline(), "Waiting for another set-up")
    connection.close()
    server.close()
    assert second.wait(300) == 0
    assert installed(bare) == PACKAGES


NOWHERE = {"PIP_NO_INDEX": "0", "PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_FIND_LINKS": ""}


@pytest.mark.parametrize(
    ("file", "pin", "variables", "said"),
    [
        (PINS[1], "absent==1.0", {}, "no package index has absent==1.0 for Python 3."),
        (PINS[0], "subject==1.0", NOWHERE, "be reached (NewConnectionError); connect and run"),
    ],
)
def test_failing_pip_is_explained_in_one_line(
    complete, file, pin, variables, said, monkeypatch, capsys
):
    before = (complete.VENV / "pins").read_text()
    (complete.ROOT / file).write_text(f"{pin}\n")
    for name, value in (variables | {"PIP_RETRIES": "1"}).items():
        monkeypatch.setenv(name, value)
    assert complete.main() == 1
    assert_one_line(capsys.readouterr().err, f"error: {file}: ", said, ".venv is unchanged")
    assert (complete.VENV / "pins").read_text() == before


@pytest.mark.parametrize(
    ("function", "returned", "parts"),
    [
        ("shutil.disk_usage", SimpleNamespace(free=1.24e9), [".venv: 1.2 GB free", "make room"]),
        # Debian's python3 cannot make an environment until python3-venv is installed.
        ("subprocess.run", SimpleNamespace(returncode=1), [".venv: ", "python3-venv"]),
    ],
)
def test_machine_that_cannot_make_one_is_one_line(
    bare, function, returned, parts, monkeypatch, capsys
):
    monkeypatch.setattr(function, lambda *arguments, **options: returned)
    assert load(bare).main() == 1
    assert_one_line(capsys.readouterr().err, "error: ", *parts)
    assert not (bare / ".venv").exists()


def test_full_disk_folder_that_cannot_be_written_to_and_missing_pins_are_one_line(bare, capsys):
    full = load(bare).reason("ERROR: [Errno 28] No space left on device: '/x'")
    assert "the disk is full" in full
    (bare / ".venv.lock").mkdir()
    assert load(bare).main() == 1
    assert_one_line(capsys.readouterr().err, "error: .venv: ", ".venv.lock", "can be written to")
    (bare / PINS[1]).unlink()
    assert load(bare).main() == 1
    assert_one_line(capsys.readouterr().err, f"error: {PINS[1]}: ", "git restore")
