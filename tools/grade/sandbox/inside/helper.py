"""The helper of a worker: imports PyTorch once, then forks a session whenever it is asked.

It is started with a clean environment and one socket, on which the worker asks for sessions
and ends them. It owns all that a session leaves: processes, folder, cgroup. When the worker is
gone, however it went, the socket ends, and the helper takes all of these away and ends, too.

    {"do": "start", "room": {...}, "imports": [...]}, with two pipes
                    -> {"pid"} of the agent, or {"failed"}
    {"do": "end"}   -> {"status"}: how it ended, -9 for SIGKILL

`imports` are import statements of the assignment's; what they name is imported here, once.
"""

import base64
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

from . import agent, cgroups, confine, kernel, runner, seccomp
from .confine import Room

REHEARSAL = [
    "import torch\nx = torch.ones(2, device=torch.get_default_device()) * 2\nx",
    "torch.nn.Linear(2, 1)(x).sum().backward()",
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


class Helper:
    """One session at a time."""

    def __init__(self, control: socket.socket, about: dict) -> None:
        """`about` is what the worker's side says; see `sandbox/client.py`."""
        self.control, self.about = control, about
        self.parent = os.getppid()
        kernel.prctl(kernel.SET_CHILD_SUBREAPER, 1)
        self.folder = Path(about["folder"])
        self.session: Session | None = None
        self.folder.mkdir(exist_ok=True)
        self.start = runner.prepare(about["runner"])
        self.rehearsed: set[str] = set()
        rehearse(self, REHEARSAL)
        self.filter = base64.b64encode(seccomp.program(1)).decode()

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
                self.session = Session(self, Room(**message["room"]), pipes)
                return {"pid": self.session.agent, "cgroups": self.session.cgroups}
            return {"status": self.end()}
        except (OSError, RuntimeError) as error:
            self.end()
            return {"failed": f"{type(error).__name__}: {error}"}
        finally:
            for each in pipes:
                os.close(each)

    def end(self) -> int:
        """End the session, if there is one, and take away what it left."""
        session, self.session = self.session, None
        return session.end() if session else 0


class Session:
    """The processes, the folder and the cgroups of one session."""

    def __init__(self, helper: Helper, room: Room, pipes: list[int]) -> None:
        """Start the agent, which reads from and writes to two pipes."""
        self.folder = helper.folder / "session"
        self.folder.mkdir(mode=0o700)
        room.folder = str(self.folder)
        if room.namespaces:
            room.filter = helper.filter
        self.process, self.watch, self.cgroups = 0, -1, []
        try:
            if room.user is not None and not room.namespaces:
                os.chown(self.folder, room.user, room.user)
            told, tells = os.pipe()
            try:
                self.process = os.fork()
                if not self.process:
                    warm(helper, room, pipes, tells)
            finally:
                os.close(tells)
            with os.fdopen(told, "rb") as answer:
                self.agent = read_pid(answer)
            self.watch = os.pidfd_open(self.agent)
            if not room.bubblewrap:  # there the worker has to make them
                self.cgroups = cgroups.make(self.agent, room.memory, confine.THREADS)
        except BaseException:
            self.end()
            raise

    def end(self) -> int:
        """Kill, wait, take away; how the agent ended, negative for a signal."""
        status = 0
        if self.watch >= 0:
            try:
                signal.pidfd_send_signal(self.watch, signal.SIGKILL)
            except ProcessLookupError:
                pass
            os.close(self.watch)
        elif self.process:
            os.kill(self.process, signal.SIGKILL)
        if self.process:
            status = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        kill_children()
        cgroups.remove(self.cgroups)
        remove(self.folder)
        return 128 - status if status > 128 else status  # as a shell and bubblewrap say it


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


def read_pid(answer: Any) -> int:
    """What the keeper of a session says its agent is."""
    said = answer.readline()
    if not said:
        raise RuntimeError("the session could not be started")
    about = json.loads(said)
    if "failed" in about:
        raise RuntimeError(about["failed"])
    return about["pid"]


def warm(helper: Helper, room: Room, pipes: list[int], tells: int) -> NoReturn:
    """In a fork: become the agent, or the keeper of the namespaces that it is in."""
    try:
        helper.control.close()
        signal.set_wakeup_fd(-1)
        confine.die_with_parent()
        os.setsid()
        if room.namespaces:
            if confine.leave():
                room.user = None  # there is no other in a namespace of its own
            child = os.fork()
            if child:
                keep(child, tells)
        else:
            os.write(tells, json.dumps({"pid": os.getpid()}).encode() + b"\n")
    except BaseException as error:
        fail(tells, error)
    os.close(tells)
    live(room, pipes, helper)


def keep(child: int, tells: int) -> NoReturn:
    """Wait for the first process of the namespaces, and end as it ended."""
    os.write(tells, json.dumps({"pid": child}).encode() + b"\n")
    os.closerange(0, 1024)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os._exit(128 - status if status < 0 else status)


def fail(pipe: int, error: BaseException) -> NoReturn:
    """Say why in one line, and end."""
    said = {"failed": f"{type(error).__name__}: {error}"}
    os.write(pipe, json.dumps(said).encode() + b"\n")
    os._exit(1)


def live(room: Room, pipes: list[int], helper: Helper) -> NoReturn:
    """Shut this process in, get ready, and answer."""
    requests, replies = pipes
    try:
        nowhere = os.open("/dev/null", os.O_RDWR)
        for each in (0, 1, 2):
            os.dup2(nowhere, each)
        kept = sorted({0, 1, 2, requests, replies})
        for low, high in zip(kept, [*kept[1:], 4096], strict=True):
            os.closerange(low + 1, high)
        confine.enter(room)
        serve(room, pipes, helper.about["runner"], helper.start)
    except BaseException as error:
        fail(replies, error)


def serve(room: Room, pipes: list[int], about: dict, start: Any) -> NoReturn:
    """Begin the runner, load the filter, and answer."""
    made = ready(pipes, room.output, about, start)
    os.write(pipes[1], b'{"ready": false}\n')
    confine.limit_memory(json.loads(made.requests.readline())["memory"])
    confine.shut(room)
    os.write(pipes[1], b'{"ready": true}\n')
    made.serve()


def ready(pipes: list[int], output: int, about: dict, start: Any) -> agent.Agent:
    """The agent, with its runner begun; the working directory is all that it may write."""
    folder = os.getcwd()
    os.environ.clear()
    os.environ.update(about["env"] | ENVIRONMENT)
    os.environ.update(dict.fromkeys(["HOME", "TMPDIR", "MPLCONFIGDIR"], folder))
    tempfile.tempdir = None
    sys.stdin = open(os.devnull)
    runner.begin(about, start)
    made = agent.Agent(*pipes, output, start.kernel_config())
    agent.seed()
    return made


def rehearse(helper: Helper, cells: Sequence[str]) -> None:
    """Import what a session would import for these cells: a child runs them, and tells the names.

    Nothing else of that child is kept, so that each session begins from the same state.
    """
    helper.rehearsed.update(cells)
    folder = helper.folder / "rehearsal"
    folder.mkdir()
    told, tells = os.pipe()
    child = os.fork()
    if not child:
        before = set(sys.modules)
        os.chdir(folder)
        made = ready([*os.pipe()], 1 << 20, helper.about["runner"], helper.start)
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
    helper = None
    with socket.socket(fileno=control) as channel:
        try:
            helper = Helper(channel, about)
            channel.send(b'{"ready": true}')
            helper.serve()
        except Exception as error:
            with contextlib.suppress(OSError):  # the worker may be gone by now
                channel.send(json.dumps({"failed": f"{type(error).__name__}: {error}"}).encode())
        finally:
            if helper is not None:
                helper.end()
            remove(Path(about["folder"]))
