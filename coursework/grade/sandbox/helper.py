"""The worker's side of a helper: starts it, and asks it for sessions, one at a time."""

import itertools
import json
import os
import secrets
import shutil
import site
import socket
import stat
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

import psutil

from coursework.grade.sandbox.inside import DEVICES, DISK
from tools.root import ROOT

HERE = Path(__file__).parent
KERNELS = ROOT / "kernels"
ROOM = tomllib.loads((HERE / "room.toml").read_text(encoding="utf-8"))
# Users that systemd would draw for its own services; nobody else has them:
# https://systemd.io/UIDS-GIDS/
FIRST_USER, USERS = 61184, 4096
NOBODY = "65534"
READY = 300  # s in which PyTorch must be imported, on a machine that is busy


class Helper:
    def __init__(self, wrapped: bool, runner: str) -> None:
        """Start one, within bubblewrap or not. Raises RuntimeError if it cannot be."""
        about, environment = runner_of(runner)
        read = readable()
        student = user(read)
        self.wrapped, self.log = wrapped, tempfile.TemporaryFile()
        self.folder = f"{tempfile.gettempdir()}/sandbox-{secrets.token_hex(4)}"
        about |= {"read": read, "wrapped": wrapped, "folder": self.folder}
        about["alone"] = student is not None
        path = ":".join(map(str, [HERE, KERNELS, *packages()]))
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(READY)
        command = [*wrapping(read, student, wrapped), sys.executable, "-s", "-P", "-m"]
        options = {"stdin": subprocess.DEVNULL, "stdout": self.log, "stderr": self.log}
        options["env"] = ROOM["environment"] | environment
        options["env"] |= {"HOME": self.folder, "PYTHONPATH": path}
        options |= {"cwd": "/", "start_new_session": True}
        options["umask"] = 0o022  # what a session writes has the same modes everywhere
        with theirs:
            command += ["inside.helper", str(theirs.fileno()), json.dumps(about)]
            self.process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], **options
            )
        try:
            self._hear()
            process = psutil.Process(self.process.pid)
            self.pid = only_child(process) if wrapped else process.pid
        except BaseException:
            self.close()
            raise

    def start(self, memory: int) -> tuple[int, socket.socket]:
        """A session of so many MiB beyond its first: its process, and the socket to its agent."""
        process = psutil.Process(self.pid)
        most = process.memory_info().data + (memory << 20)
        ours, theirs = socket.socketpair()
        with theirs:
            self._ask(str(most), [theirs.fileno()])
        return only_child(process), ours

    def files(self) -> str:
        root = f"/proc/{self.pid}/root" if self.wrapped else ""
        return f"{root}{self.folder}/session"

    def end(self) -> None:
        try:
            self._ask("end")
        except (RuntimeError, OSError):
            self.close()  # its sessions end with it

    def close(self) -> None:
        self.control.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)  # of one that was killed

    def alive(self) -> bool:
        return self.process.poll() is None

    def _ask(self, message: str, sockets: Sequence[int] = ()) -> None:
        socket.send_fds(self.control, [message.encode()], sockets)
        self._hear()

    def _hear(self) -> None:
        """Wait until it is ready. Raises RuntimeError with the reason if it cannot be."""
        try:
            if self.control.recv(16):
                return
        except TimeoutError:
            raise RuntimeError("the sandbox's helper does not answer") from None
        self.log.seek(0)
        log = self.log.read().decode(errors="replace").splitlines()
        raise RuntimeError(log[-1] if log else "the sandbox's helper ended")


def packages() -> list[str]:
    installed = [path for path in sys.path if path.endswith("-packages")]
    return [str(ROOT / "cudasim" / "src"), *installed]


def readable() -> list[str]:
    """What a session may read: Python, the packages, the system's. None is within another."""
    found = {
        sysconfig.get_path(name)
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
    for prefix in (sys.prefix, sys.base_prefix):
        found |= {f"{prefix}/lib", f"{prefix}/lib64", f"{prefix}/pyvenv.cfg"}
    found |= {
        *site.getsitepackages(),
        *packages(),
        str(KERNELS / "start.py"),
        *ROOM["read"],
    }
    found |= {str(HERE / "inside"), sys.executable, os.path.realpath(sys.executable)}
    there = sorted(filter(os.path.exists, found))
    return [path for path in there if found.isdisjoint(map(str, Path(path).parents))]


def user(read: list[str]) -> int | None:
    """Whom root becomes for sessions: a nameless user, who can `read`; None without choice."""
    real = [Path(path).resolve() for path in read]
    places = {place for path in real for place in (path, *path.parents)}
    wanted = {
        place: stat.S_IXOTH if place.is_dir() else stat.S_IROTH for place in places
    }
    if os.geteuid() == 0 and all(
        place.stat().st_mode & bit for place, bit in wanted.items()
    ):
        return FIRST_USER + os.getpid() % USERS
    return None


def wrapping(read: list[str], user: int | None, bubblewrap: bool) -> list[str]:
    """The command before a helper's own: it takes root's rights away and makes namespaces. Sessions
    share these: between them are the filter, Landlock and a folder's removal."""
    is_root, words = os.geteuid() == 0, []
    nobody = is_root and user is None and bubblewrap  # bubblewrap itself needs root
    if is_root and not nobody:
        words = ["setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
    if user is not None:
        words += [f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    if not bubblewrap:
        return words
    if not (program := shutil.which("bwrap")):
        raise RuntimeError("not installed; 'apt-get install bubblewrap' brings it")
    temporary = tempfile.gettempdir()
    words += [
        program,
        "--unshare-all",
        "--unshare-user",
        "--disable-userns",
        "--cap-drop",
        "ALL",
    ]
    words += ["--new-session", "--as-pid-1", "--hostname", "sandbox"]
    words += ["--size", str(DISK << 20), "--tmpfs", temporary]  # before what is in it
    for path in read:
        words += ["--ro-bind", os.path.realpath(path), path]
    for path in DEVICES:
        words += ["--dev-bind", path, path]
    words += ["--remount-ro", "/", "--chdir", temporary]
    return [*words, "--uid", NOBODY, "--gid", NOBODY] if nobody else words


def only_child(process: psutil.Process) -> int:
    """The number of the one child of a process. Raises RuntimeError if there is none."""
    for child in process.children():
        return child.pid
    raise RuntimeError("the session ended before it began")


def runner_of(name: str) -> tuple[dict, dict[str, str]]:
    kernel = json.loads((KERNELS / name / "kernel.json").read_text(encoding="utf-8"))
    said = dict(itertools.pairwise([*kernel["argv"], None]))
    simulate = {"device_type": said.get("--device-type", "cuda")}
    simulate |= {name: said.get(f"--{name}") for name in ("card", "clock")}
    simulate = "--simulate" in said and simulate | {"gpus": int(said["--simulate"])}
    return {"hide": "--hide-accelerators" in said, "simulate": simulate}, kernel.get(
        "env", {}
    )
