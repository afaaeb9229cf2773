"""The worker's side of a helper: starts it, and asks it for sessions, one at a time."""

import itertools
import json
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import psutil

from tools.grade.sandbox import room

READY = 300  # s in which PyTorch must be imported, on a machine that is busy
ENVIRONMENT = dict.fromkeys(["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"], "1") | {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "USER": "student",
    "MPLBACKEND": "agg",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}


class Helper:
    """A process that forks sessions; see `inside/helper.py`."""

    def __init__(self, wrapped: bool, runner: str) -> None:
        """Start one, within bubblewrap or not. Raises RuntimeError if it cannot be."""
        about, environment = runner_of(runner)
        read = room.readable()
        user = room.user(read)
        self.wrapped, self.log = wrapped, tempfile.TemporaryFile()
        self.folder = f"{tempfile.gettempdir()}/sandbox-{secrets.token_hex(4)}"
        about |= {"read": read, "alone": user is not None, "wrapped": wrapped}
        about |= {"folder": self.folder}
        path = ":".join(map(str, [room.HERE, room.KERNELS, *room.packages()]))
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(READY)
        command = [*room.wrapping(read, user, wrapped), sys.executable, "-s", "-P"]
        with theirs:
            self.process = subprocess.Popen(
                [*command, "-m", "inside.helper", str(theirs.fileno()), json.dumps(about)],
                env=ENVIRONMENT | environment | {"HOME": self.folder, "PYTHONPATH": path},
                cwd="/",
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self.log,
                stderr=self.log,
                start_new_session=True,
                umask=0o022,  # what a session writes has the same modes everywhere
            )
        try:
            self._hear()
            process = psutil.Process(self.process.pid)
            self.pid = only_child(process) if wrapped else process.pid
        except BaseException:
            self.close()
            raise

    def start(self, memory: int) -> tuple[int, socket.socket]:
        """A session of `memory` MiB beyond what it begins with: the number of its process, and
        the socket to its agent."""
        process = psutil.Process(self.pid)
        most = process.memory_info().data + (memory << 20)
        ours, theirs = socket.socketpair()
        with theirs:
            self._ask(str(most), [theirs.fileno()])
        return only_child(process), ours

    def files(self) -> str:
        """The folder of the session, as it is seen from here."""
        root = f"/proc/{self.pid}/root" if self.wrapped else ""
        return f"{root}{self.folder}/session"

    def end(self) -> None:
        """End the session."""
        try:
            self._ask("end")
        except (RuntimeError, OSError):
            self.close()  # its sessions end with it

    def close(self) -> None:
        """End the helper, which takes away all that is left."""
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


def only_child(process: psutil.Process) -> int:
    """The number of the one child of a process. Raises RuntimeError if there is none."""
    for child in process.children():
        return child.pid
    raise RuntimeError("the session ended before it began")


def runner_of(name: str) -> tuple[dict, dict[str, str]]:
    """What a session of the runner `name` is set up with, and its environment."""
    kernel = json.loads((room.KERNELS / name / "kernel.json").read_text(encoding="utf-8"))
    said = dict(itertools.pairwise([*kernel["argv"], None]))
    simulate = {"device_type": said.get("--device-type", "cuda")}
    simulate |= {name: said.get(f"--{name}") for name in ("card", "clock")}
    simulate = "--simulate" in said and simulate | {"gpus": int(said["--simulate"])}
    return {"hide": "--hide-accelerators" in said, "simulate": simulate}, kernel.get("env", {})
