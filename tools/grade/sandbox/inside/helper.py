"""The helper of a worker: imports PyTorch once, then forks a session whenever it is asked.

It is started with a clean environment and one socket, on which the worker asks for sessions
and ends them. It owns all that a session leaves: processes and a folder. When the worker is gone,
however it went, the socket ends, and the helper takes all of these away and ends, too.

    {"do": "start", "room": {...}, "imports": [...]}, with two pipes
                    -> {"pid"} of the agent, or {"failed"}
    {"do": "end"}   -> {}

`imports` are import statements of the assignment's; what they name is imported here, once.
"""

import contextlib
import gc
import importlib
import json
import os
import secrets
import select
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from . import agent, confine, kernel, runner, seccomp
from .confine import Room

REHEARSAL = [
    "import torch\nx = torch.ones(2, device=torch.get_default_device()) * 2\nx",
    "net = torch.nn.Linear(2, 1)\nnet(x).sum().backward()",
    "torch.optim.SGD(net.parameters(), lr=1).step()",
    "print(torch.cuda.is_available() and x.cuda(), x.tolist())\n1 / 0",
]
WATCH = 1000  # ms between looks at whether the worker is still there
THREADS = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"]
ENVIRONMENT = dict.fromkeys(THREADS, "1") | {
    "PATH": "/usr/bin:/bin",
    "USER": "student",
    "MPLBACKEND": "agg",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}


class Forker:
    """Forks sessions, one at a time."""

    def __init__(self, control: socket.socket, about: dict) -> None:
        """`about` is what the worker's side says; see `sandbox/client.py`."""
        self.control, self.about = control, about
        self.parent = os.getppid()
        kernel.prctl(kernel.SET_CHILD_SUBREAPER, 1)
        self.folder = Path(about["folder"])
        self.session: Child | None = None
        self.folder.mkdir(exist_ok=True)
        self.start = runner.prepare(about["runner"])
        self.rehearsed: set[str] = set()
        rehearse(self, REHEARSAL)
        seccomp.program(os.getpid())  # which finds its library by a program, as no session could

    def serve(self) -> None:
        """Until the worker hangs up or is gone."""
        waiting = select.poll()
        waiting.register(self.control, select.POLLIN)
        while os.getppid() == self.parent:
            if not waiting.poll(WATCH):
                continue
            message, pipes, _, _ = socket.recv_fds(self.control, 1 << 16, 2)
            if not message:
                return
            self.control.send(json.dumps(self.answer(json.loads(message), pipes)).encode())

    def answer(self, message: dict, pipes: list[int]) -> dict:
        """Start a session, or end it."""
        try:
            if message["do"] == "start":
                if new := [each for each in message["imports"] if each not in self.rehearsed]:
                    rehearse(self, new)
                self.session = Child(self, Room(**message["room"]), pipes)
                return {"pid": self.session.process}
            self.end()
            return {}
        except (OSError, RuntimeError) as error:
            self.end()
            return {"failed": f"{type(error).__name__}: {error}"}
        finally:
            for each in pipes:
                os.close(each)

    def end(self) -> None:
        """End the session, if there is one, and take away what it left."""
        session, self.session = self.session, None
        if session:
            session.end()


class Child:
    """The process and the folder of one session."""

    def __init__(self, forker: Forker, room: Room, pipes: list[int]) -> None:
        """Start the agent, which reads from and writes to two pipes."""
        self.folder = forker.folder / "session"
        self.folder.mkdir(mode=0o700)
        room.folder = str(self.folder)
        self.process = 0
        try:
            if room.user is not None:
                os.chown(self.folder, room.user, room.user)
            self.process = os.fork()
            if not self.process:
                live(room, pipes, forker)
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Kill, wait, take away."""
        if self.process:
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
        kill_children()
        remove(self.folder)


def kill_children() -> None:
    """Kill whatever a session might have left, which comes to this process when it is orphaned.

    None can have been made; this is for a hole in the filter.
    """
    place = Path(f"/proc/self/task/{os.getpid()}/children")
    while True:
        if os.getpid() == 1:  # within bubblewrap: everybody else
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        elif place.exists():
            for child in place.read_text().split():
                os.kill(int(child), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def live(room: Room, pipes: list[int], forker: Forker) -> NoReturn:
    """Shut this process in, get ready, and answer."""
    requests, replies = pipes
    try:
        forker.control.close()
        signal.set_wakeup_fd(-1)
        confine.die_with_parent()
        os.setsid()
        nowhere = os.open("/dev/null", os.O_RDWR)
        for each in (0, 1, 2):
            os.dup2(nowhere, each)
        kept = sorted({0, 1, 2, requests, replies})
        for low, high in zip(kept, [*kept[1:], 4096], strict=True):
            os.closerange(low + 1, high)
        confine.enter(room)
        serve(room, pipes, forker.about["runner"], forker.start)
    except BaseException as error:
        said = {"failed": f"{type(error).__name__}: {error}"}
        os.write(replies, json.dumps(said).encode() + b"\n")
        os._exit(1)


def serve(room: Room, pipes: list[int], about: dict, start: Any) -> NoReturn:
    """Begin the runner, load the filter, and answer."""
    made = ready(pipes, about, start)
    os.write(pipes[1], b'{"ready": false}\n')
    confine.limit_memory(json.loads(made.requests.readline())["memory"])
    confine.shut(room)
    os.write(pipes[1], b'{"ready": true}\n')
    made.serve()


def ready(pipes: list[int], about: dict, start: Any) -> agent.Agent:
    """The agent, with its runner begun; the working directory is all that it may write."""
    folder = os.getcwd()
    os.environ.clear()
    os.environ.update(about["env"] | ENVIRONMENT)
    os.environ.update(dict.fromkeys(["HOME", "TMPDIR", "MPLCONFIGDIR"], folder))
    tempfile.tempdir = None
    sys.stdin = open(os.devnull)
    runner.begin(about, start)
    made = agent.Agent(*pipes, start.kernel_config())
    agent.seed()
    return made


def rehearse(forker: Forker, cells: Sequence[str]) -> None:
    """Import what a session would import for these cells: a child runs them, and tells the names.

    Nothing else of that child is kept, so that each session begins from the same state.
    """
    forker.rehearsed.update(cells)
    folder = forker.folder / "rehearsal"
    folder.mkdir()
    told, tells = os.pipe()
    child = os.fork()
    if not child:
        before = set(sys.modules)
        os.chdir(folder)
        made = ready([*os.pipe()], forker.about["runner"], forker.start)
        for cell in cells:
            made.run({"code": cell})
        made.ask({"code": "[1.0]", "inputs": {}})
        names = [name for name in sys.modules if name not in before]
        os.write(tells, json.dumps(names).encode())
        os._exit(0)
    os.close(tells)
    with os.fdopen(told, "rb") as pipe:
        names = json.loads(pipe.read())
    os.waitpid(child, 0)
    remove(folder)
    for name in names:
        with contextlib.suppress(ImportError):  # made by others' code, under no file's name
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is not looked at in a child is not copied for it


def remove(folder: Path) -> None:
    """Remove a folder, however deep and however closed what is in it."""
    if not folder.exists():
        return
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        while empty(top):
            pass
    finally:
        os.close(top)
    folder.rmdir()


def empty(top: int) -> bool:
    """Remove what is in a folder, of each chain of folders the deepest; True while some is left.

    A folder that is not empty is moved up beside its parent, so that no path grows long.
    """
    for name in os.listdir(top):
        try:
            os.unlink(name, dir_fd=top)
            continue
        except IsADirectoryError:
            pass
        os.chmod(name, 0o700, dir_fd=top)
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
        try:
            for each in os.listdir(inner):
                try:
                    os.unlink(each, dir_fd=inner)
                except IsADirectoryError:
                    os.chmod(each, 0o700, dir_fd=inner)
                    os.rename(each, secrets.token_hex(16), src_dir_fd=inner, dst_dir_fd=top)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=top)
    return bool(os.listdir(top))


def main(control: int, about: dict) -> None:
    """Be the helper."""
    forker = None
    with socket.socket(fileno=control) as channel:
        try:
            forker = Forker(channel, about)
            channel.send(b'{"ready": true}')
            forker.serve()
        except Exception as error:
            with contextlib.suppress(OSError):  # the worker may be gone by now
                channel.send(json.dumps({"failed": f"{type(error).__name__}: {error}"}).encode())
        finally:
            if forker is not None:
                forker.end()
            remove(Path(about["folder"]))
