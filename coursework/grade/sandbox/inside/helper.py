"""The helper of a worker: imports PyTorch once, then forks a session whenever it is asked.

It owns all that a session leaves: processes and a folder. When the worker is gone, however it
went, the helper's socket ends. The helper then takes these away and ends, too.

A message is the number of bytes that a new session may have, and comes with the session's
socket. A message without a socket ends the session. The answer is `ready`. If something cannot
be done, the helper ends, and its last line of errors says why.
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

# What PyTorch and IPython load only when a network is trained or a session begins. Each
# session would load it again.
LATER = """
    torch._dynamo torch._subclasses.schema_check_mode torch.distributed torch.profiler
    IPython.core.completer IPython.core.interactiveshell IPython.core.logger IPython.core.magics
    matplotlib.pyplot pygments.formatters.terminal256
""".split()


class Forker:
    def __init__(self, about: dict) -> None:
        """`about` is what the worker's side says: see `sandbox/helper.py`."""
        self.about = about
        self.session = 0  # its process, or 0 if there is none
        self.home = Path(about["folder"])
        self.folder = self.home / "session"
        self.home.mkdir(mode=0o700)
        confine.call("prctl", confine.SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.runner = prepare(about)
        gc.collect()
        gc.freeze()  # memory that a child does not touch is not copied for it

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
            self._detach(socket)
            confine.enter(self.about, memory)
            session_agent = self._make_agent()
            random.seed(0)  # every session draws the same numbers
            sys.modules["numpy"].random.seed(0)
            sys.modules["torch"].manual_seed(0)
            seccomp.load()
            session_agent.reply({"ready": True})
            session_agent.serve()
        except BaseException as error:
            reply = {"failed": f"{type(error).__name__}: {error}"}
            os.write(agent.SOCKET, json.dumps(reply).encode() + b"\n")
        finally:
            os._exit(1)

    def _detach(self, socket: int) -> None:
        """Let go of all that the helper has open, but for the socket of the session."""
        os.setsid()
        for standard in (0, 1, 2):
            os.dup2(os.open("/dev/null", os.O_RDWR), standard)
        os.dup2(socket, agent.SOCKET)
        os.closerange(agent.SOCKET + 1, 4096)
        os.chdir(self.folder)
        for name in ("HOME", "PWD", "TMPDIR", "MPLCONFIGDIR"):
            os.environ[name] = str(self.folder)
        tempfile.tempdir = None
        # Cells may import files that they write, which shadow nothing at the end.
        sys.path.append(str(self.folder))

    def _make_agent(self) -> agent.Agent:
        simulate = self.about["simulate"]
        if simulate:
            self.runner.simulate(**simulate)
        return agent.Agent(self.runner.kernel_config(), bool(simulate))


def prepare(about: dict) -> ModuleType:
    """Import what every session needs, and do all that can be done once.

    Returns `kernels/start.py`.
    """
    import torch

    torch.set_num_threads(1)
    for name in LATER:
        importlib.import_module(name)
    start = importlib.import_module("start")
    # Cells import nothing from where `start` and this package are.
    del sys.path[:2]
    del os.environ["PYTHONPATH"]
    if about["hide"]:
        start.hide_accelerators()
    start.complete_torchvision()
    if about["simulate"]:
        # As `start` does when a session begins. Some names are loaded when they are asked
        # for, and all must be there before the agent notes how things are.
        cudasim = importlib.import_module("cudasim")
        for name in dir(cudasim):
            getattr(cudasim, name)
    return start


def kill_children() -> None:
    """Kill the processes that a session left.

    It cannot have made any: this is for a hole in the filter.
    """
    place = Path(f"/proc/self/task/{os.getpid()}/children")
    with contextlib.suppress(ChildProcessError, ProcessLookupError):  # there is none
        while True:
            if os.getpid() == 1:  # within bubblewrap everybody else is a child
                os.kill(-1, signal.SIGKILL)
            elif place.exists():
                for child in place.read_text().split():
                    os.kill(int(child), signal.SIGKILL)
            os.waitpid(-1, 0)


def remove(folder: Path) -> None:
    """Remove a folder, however deep or closed.

    What is within its folders moves up, so that no path grows too long.
    """
    if not folder.exists():
        return
    while contents := list(folder.iterdir()):
        for path in contents:
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
