"""The worker's side of a helper: starts it, and asks it for sessions, one at a time."""

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
from typing import Any

import psutil

from coursework.grade.sandbox.inside import DEVICES, DISK
from tools.files import ROOT

HERE = Path(__file__).parent
KERNELS = ROOT / "kernels"
ROOM = tomllib.loads((HERE / "room.toml").read_text(encoding="utf-8"))
# Users that systemd would draw for its own services, so that nobody else has them:
# https://systemd.io/UIDS-GIDS/
FIRST_USER = 61184
USERS = 4096
NOBODY = "65534"
READY = 300  # s in which PyTorch must be imported, on a machine that is busy


class Helper:
    def __init__(self, wrapped: bool, runner: str) -> None:
        """Start a helper, within bubblewrap or not. Raises RuntimeError if it cannot be."""
        self.wrapped = wrapped
        self.folder = f"{tempfile.gettempdir()}/sandbox-{secrets.token_hex(4)}"
        self.log = tempfile.TemporaryFile()
        read = readable()
        user = user_for(read)
        kernel = kernel_of(runner)
        room = {
            "hide": "--hide-accelerators" in kernel["argv"],
            "simulate": simulation_of(kernel["argv"]),
            "read": read,
            "wrapped": wrapped,
            "folder": self.folder,
            "alone": user is not None,
        }
        python = [sys.executable, "-s", "-P", "-m", "inside.helper"]
        command = [*wrapping(read, user, wrapped), *python]
        environment = ROOM["environment"] | kernel.get("env", {})
        environment["HOME"] = self.folder
        environment["PYTHONPATH"] = ":".join(map(str, [HERE, KERNELS, *packages()]))

        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(READY)
        with theirs:
            self.process = subprocess.Popen(
                [*command, str(theirs.fileno()), json.dumps(room)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self.log,
                stderr=self.log,
                env=environment,
                cwd="/",
                start_new_session=True,
                umask=0o022,  # what a session writes has the same modes everywhere
            )
        try:
            self._wait_until_ready()
            process = psutil.Process(self.process.pid)
            self.pid = only_child(process) if wrapped else process.pid
        except BaseException:
            self.close()
            raise

    def start(self, memory: int) -> tuple[int, socket.socket]:
        """Begin a session, which may use so many MiB more than the helper.

        Returns its process, and the socket to its agent.
        """
        process = psutil.Process(self.pid)
        most = process.memory_info().data + (memory << 20)
        ours, theirs = socket.socketpair()
        with theirs:
            self._ask(str(most), [theirs.fileno()])
        return only_child(process), ours

    def files(self) -> str:
        """Return the folder of the session's files, as it is seen from here."""
        root = f"/proc/{self.pid}/root" if self.wrapped else ""
        return f"{root}{self.folder}/session"

    def end(self) -> None:
        """End the session."""
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
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        """Wait for the helper. Raises RuntimeError with its last words if it ended."""
        try:
            if self.control.recv(16):
                return
        except TimeoutError:
            raise RuntimeError("the sandbox's helper does not answer") from None
        self.log.seek(0)
        log = self.log.read().decode(errors="replace").splitlines()
        raise RuntimeError(log[-1] if log else "the sandbox's helper ended")


# --- what it runs as


def packages() -> list[str]:
    installed = [path for path in sys.path if path.endswith("-packages")]
    return [str(ROOT / "cudasim" / "src"), *installed]


def readable() -> list[str]:
    """Return what a session may read: Python, its packages, the system's libraries.

    No path is within another.
    """
    paths = {sys.executable, os.path.realpath(sys.executable)}
    for name in ("stdlib", "platstdlib", "purelib", "platlib"):
        paths.add(sysconfig.get_path(name))
    for prefix in (sys.prefix, sys.base_prefix):
        paths |= {f"{prefix}/lib", f"{prefix}/lib64", f"{prefix}/pyvenv.cfg"}
    paths.update(site.getsitepackages())
    paths.update(packages())
    paths.update(ROOM["read"])
    paths |= {str(HERE / "inside"), str(KERNELS / "start.py")}

    outermost = []
    for path in sorted(paths):
        parents = {str(parent) for parent in Path(path).parents}
        if os.path.exists(path) and paths.isdisjoint(parents):
            outermost.append(path)
    return outermost


def user_for(read: list[str]) -> int | None:
    """Return the user that root becomes for sessions, who has no name.

    None if this process is not root, or if such a user could not read all of `read`.
    """
    if os.geteuid() != 0:
        return None
    for path in read:
        place = Path(path).resolve()
        for part in (place, *place.parents):
            needed = stat.S_IXOTH if part.is_dir() else stat.S_IROTH
            if not part.stat().st_mode & needed:
                return None
    return FIRST_USER + os.getpid() % USERS


def wrapping(read: list[str], user: int | None, bubblewrap: bool) -> list[str]:
    """Return the words before a helper's own command.

    They take root's rights away and make namespaces. All sessions share these. Between
    sessions are the filter, Landlock, and the removal of their folder.
    """
    is_root = os.geteuid() == 0
    becomes_nobody = is_root and user is None and bubblewrap
    words = []
    if is_root and not becomes_nobody:  # else bubblewrap itself needs root
        words += ["setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
    if user is not None:
        words += [f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    if not bubblewrap:
        return words

    program = shutil.which("bwrap")
    if not program:
        raise RuntimeError("not installed; 'apt-get install bubblewrap' brings it")
    temporary = tempfile.gettempdir()
    words += [program, "--unshare-all", "--unshare-user", "--disable-userns"]
    words += ["--cap-drop", "ALL", "--new-session", "--as-pid-1"]
    words += ["--hostname", "sandbox"]
    words += ["--size", str(DISK << 20), "--tmpfs", temporary]  # before what is in it
    for path in read:
        words += ["--ro-bind", os.path.realpath(path), path]
    for path in DEVICES:
        words += ["--dev-bind", path, path]
    words += ["--remount-ro", "/", "--chdir", temporary]
    if becomes_nobody:
        words += ["--uid", NOBODY, "--gid", NOBODY]
    return words


def only_child(process: psutil.Process) -> int:
    """Return the number of a process's one child. Raises RuntimeError if there is none."""
    for child in process.children():
        return child.pid
    raise RuntimeError("the session ended before it began")


def kernel_of(runner: str) -> dict[str, Any]:
    return json.loads((KERNELS / runner / "kernel.json").read_text(encoding="utf-8"))


def simulation_of(arguments: list[str]) -> dict[str, Any] | None:
    """Return the GPUs that a kernel with these arguments simulates, or None."""
    if "--simulate" not in arguments:
        return None

    def value_of(option: str, default: str | None = None) -> str | None:
        if option not in arguments:
            return default
        return arguments[arguments.index(option) + 1]

    return {
        "gpus": int(value_of("--simulate")),
        "device_type": value_of("--device-type", "cuda"),
        "card": value_of("--card"),
        "clock": value_of("--clock"),
    }
