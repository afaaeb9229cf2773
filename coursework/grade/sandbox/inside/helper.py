"""The helper of a worker: imports PyTorch once, then forks a session whenever it is asked.

It owns all that a session leaves: processes and a folder. When the worker is gone, however it went,
its socket ends, and the helper takes these away and ends, too.

With a socket comes the number of bytes that a new session may have; without one, the session ends.
The answer is `ready`. What cannot be done ends the helper: its last line of errors says why.
"""

import contextlib
import gc
import importlib
import json
import os
import random
import secrets
import signal
import socket
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from . import agent, confine, seccomp

# What PyTorch and IPython load only when a network is trained or a session begins: each would.
LATER = """
    torch._dynamo torch._subclasses.schema_check_mode torch.distributed torch.profiler
    IPython.core.completer IPython.core.interactiveshell IPython.core.logger IPython.core.magics
    matplotlib.pyplot pygments.formatters.terminal256
""".split()


class Forker:
    def __init__(self, about: dict) -> None:
        self.about, self.session = (
            about,
            0,
        )  # what the worker's side says, see `sandbox/helper.py`
        self.home = Path(about["folder"])
        self.folder = self.home / "session"
        self.home.mkdir(mode=0o700)
        confine.call("prctl", confine.SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.runner = prepare(about)
        gc.collect()
        gc.freeze()  # what is not looked at in a child is not copied for it

    def serve(self, control: socket.socket) -> None:
        while True:
            message, sockets, _, _ = socket.recv_fds(control, 1 << 16, 1)
            if not message:
                return
            if sockets:
                self.folder.mkdir(mode=0o700)
                self.session = os.fork()
                if not self.session:
                    self.live(int(message), *sockets)
                os.close(*sockets)
            else:
                self.end()
            control.send(b"ready")

    def end(self) -> None:
        if self.session:
            os.kill(self.session, signal.SIGKILL)
            os.waitpid(self.session, 0)
            self.session = 0
        kill_children()
        remove(self.folder)

    def live(self, memory: int, socket: int) -> NoReturn:
        """Be an agent, shut in, which may have so many bytes and answers at a socket."""
        try:
            os.setsid()
            for standard in (0, 1, 2):
                os.dup2(os.open("/dev/null", os.O_RDWR), standard)
            os.dup2(socket, agent.SOCKET)
            os.closerange(agent.SOCKET + 1, 4096)
            os.chdir(self.folder)
            sys.path.append(
                str(self.folder)
            )  # for files that cells write; they shadow nothing
            confine.enter(self.about, memory)
            for name in ("HOME", "PWD", "TMPDIR", "MPLCONFIGDIR"):
                os.environ[name] = str(self.folder)
            tempfile.tempdir = None
            if self.about["simulate"]:
                self.runner.simulate(**self.about["simulate"])
            made = agent.Agent(
                self.runner.kernel_config(), bool(self.about["simulate"])
            )
            random.seed(0)  # every session draws the same numbers
            sys.modules["numpy"].random.seed(0)
            sys.modules["torch"].manual_seed(0)
            seccomp.load()
            made.reply({"ready": True})
            made.serve()
        except BaseException as error:
            said = {"failed": f"{type(error).__name__}: {error}"}
            os.write(agent.SOCKET, json.dumps(said).encode() + b"\n")
        finally:
            os._exit(1)


def prepare(about: dict) -> ModuleType:
    """Import what every session needs, and do what can be done once; gives `kernels/start.py`."""
    import torch

    torch.set_num_threads(1)
    for name in LATER:
        importlib.import_module(name)
    start = importlib.import_module("start")
    del sys.path[
        :2
    ]  # where `start` and this package are: cells import nothing from there
    del os.environ["PYTHONPATH"]
    if about["hide"]:
        start.hide_accelerators()
    start.complete_torchvision()
    if about["simulate"]:
        cudasim = importlib.import_module(
            "cudasim"
        )  # as `start` does when a session begins
        for name in dir(cudasim):
            getattr(
                cudasim, name
            )  # some are loaded when they are asked for: see agent.Frozen
    return start


def kill_children() -> None:
    """Kill what a session left. None can have been made: this is for a hole in the filter."""
    place = Path(f"/proc/self/task/{os.getpid()}/children")
    with contextlib.suppress(ChildProcessError, ProcessLookupError):  # there is none
        while True:
            within_bubblewrap = os.getpid() == 1  # where everybody else is a child
            children = place.read_text().split() if place.exists() else []
            for child in ["-1"] if within_bubblewrap else children:
                os.kill(int(child), signal.SIGKILL)
            os.waitpid(-1, 0)


def remove(folder: Path) -> None:
    """Remove a folder, however deep or closed: what is within moves up, so no path grows long."""
    if not folder.exists():
        return
    while inner := list(folder.iterdir()):
        for path in inner:
            if path.is_symlink() or not path.is_dir():
                path.unlink()
                continue
            path.chmod(0o700)
            for deeper in path.iterdir():
                if deeper.is_dir() and not deeper.is_symlink():
                    deeper.chmod(0o700)  # a folder that is closed cannot be moved
                deeper.rename(folder / secrets.token_hex(16))
            path.rmdir()
    folder.rmdir()


def main() -> None:
    with socket.socket(fileno=int(sys.argv[1])) as control:
        forker = Forker(json.loads(sys.argv[2]))
        try:
            control.send(b"ready")
            forker.serve(control)
        finally:
            forker.end()
            remove(forker.home)


if __name__ == "__main__":
    main()
