"""The helper of a worker: imports PyTorch once, then forks a session whenever it is asked.

It is started with a clean environment and one socket, on which the worker asks for sessions
and ends them. It owns all that a session leaves: processes and a folder. When the worker is gone,
however it went, the socket ends, and the helper takes all of these away and ends, too.

    {"do": "import", "cells": [...]}
    {"do": "start", "memory": bytes}, with two pipes, on which the agent says when it is ready
    {"do": "end"}

The answer is {}, or {"failed"} if it cannot be done. `cells` are import statements of the
assignment's; what they name is imported here, once.
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
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from . import agent, confine, kernel, seccomp

REHEARSAL = [
    "import torch\nx = torch.ones(2, device=torch.get_default_device()) * 2\nx",
    "net = torch.nn.Linear(2, 1)\nnet(x).sum().backward()",
    "torch.optim.SGD(net.parameters(), lr=1).step()",
    "print(torch.cuda.is_available() and x.cuda(), x.tolist())\n1 / 0",
]


class Forker:
    """One session at a time: a process and a folder."""

    def __init__(self, control: socket.socket, about: dict) -> None:
        """`about` is what the worker's side says; see `sandbox/client.py`."""
        self.control, self.about = control, about
        self.folder = Path(about["folder"])
        self.folder.mkdir(exist_ok=True)
        self.session = 0
        self.start_module = prepare(about)
        self.rehearsed: set[str] = set()
        kernel.prctl(kernel.SET_CHILD_SUBREAPER, 1)
        self.rehearse(REHEARSAL)

    def serve(self) -> None:
        """Until the worker hangs up or is gone."""
        while True:
            message, pipes, _, _ = socket.recv_fds(self.control, 1 << 16, 2)
            if not message:
                return
            try:
                answer = self.answer(json.loads(message), pipes)
            except (OSError, RuntimeError) as error:
                answer = {"failed": f"{type(error).__name__}: {error}"}
            for each in pipes:
                os.close(each)
            self.control.send(json.dumps(answer).encode())

    def answer(self, message: dict, pipes: list[int]) -> dict:
        """Import, start a session, or end it."""
        if message["do"] == "import":
            self.rehearse([cell for cell in message["cells"] if cell not in self.rehearsed])
        elif message["do"] == "start":
            self.start(message["memory"], pipes)
        else:
            self.end()
        return {}

    def start(self, memory: int, pipes: list[int]) -> None:
        """Start an agent, which reads from and writes to two pipes, in a folder of its own."""
        folder, user = self.folder / "session", self.about["user"]
        folder.mkdir(mode=0o700)
        if user is not None:
            os.chown(folder, user, user)
        self.session = os.fork()
        if not self.session:
            self.live(folder, memory, pipes)

    def end(self) -> None:
        """End the session, if there is one, and take away what it left."""
        if self.session:
            os.kill(self.session, signal.SIGKILL)
            os.waitpid(self.session, 0)
            self.session = 0
        kill_children()
        remove(self.folder / "session")

    def live(self, folder: Path, memory: int, pipes: list[int]) -> NoReturn:
        """Shut this process in, get ready, and answer."""
        requests, replies = pipes
        try:
            os.setsid()
            nowhere = os.open("/dev/null", os.O_RDWR)
            for each in (0, 1, 2):
                os.dup2(nowhere, each)
            kept = sorted({0, 1, 2, requests, replies})
            for low, high in zip(kept, [*kept[1:], 4096], strict=True):
                os.closerange(low + 1, high)
            os.chdir(folder)
            confine.enter(self.about, memory)
            made = self.ready(folder, requests, replies)
            if self.about["without"] != "seccomp":
                seccomp.load()
            made.reply({"ready": True})
            made.serve()
        except BaseException as error:
            said = {"failed": f"{type(error).__name__}: {error}"}
            os.write(replies, json.dumps(said).encode() + b"\n")
        finally:
            os._exit(1)

    def ready(self, folder: Path, requests: int, replies: int) -> agent.Agent:
        """The agent, with its runner begun; `folder` is all that it may write."""
        os.environ.update(dict.fromkeys(["HOME", "PWD", "TMPDIR", "MPLCONFIGDIR"], str(folder)))
        tempfile.tempdir = None
        if self.about["simulate"]:
            self.start_module.simulate(**self.about["simulate"])
        made = agent.Agent(requests, replies, self.start_module.kernel_config())
        random.seed(0)  # every session draws the same numbers
        sys.modules["numpy"].random.seed(0)
        sys.modules["torch"].manual_seed(0)
        return made

    def rehearse(self, cells: Sequence[str]) -> None:
        """Import what a session would import for these cells: a child runs them, and tells.

        Nothing else of that child is kept, so that each session begins from the same state.
        """
        if not cells:
            return
        self.rehearsed.update(cells)
        folder = self.folder / "rehearsal"
        folder.mkdir()
        told, tells = os.pipe()
        child = os.fork()
        if not child:
            try:
                before = set(sys.modules)
                os.chdir(folder)
                made = self.ready(folder, *os.pipe())
                for cell in cells:
                    made.run({"code": cell})
                made.ask({"code": "[1.0]", "inputs": {}})
                names = [name for name in sys.modules if name not in before]
                os.write(tells, json.dumps(names).encode())
            finally:
                os._exit(0)
        os.close(tells)
        with os.fdopen(told, "rb") as pipe:
            names = json.loads(pipe.read() or b"[]")
        os.waitpid(child, 0)
        remove(folder)
        for name in names:
            with contextlib.suppress(ImportError):  # made by others' code, under no file's name
                importlib.import_module(name)
        gc.collect()
        gc.freeze()  # what is not looked at in a child is not copied for it


def prepare(about: dict) -> ModuleType:
    """Import what every session needs, and do what can be done once; gives `kernels/start.py`."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot
    import torch

    torch.set_num_threads(1)
    start = importlib.import_module("start")
    del sys.path[:2]  # where `start` and this package are: cells import nothing from there
    del os.environ["PYTHONPATH"]
    if about["hide"]:
        start.hide_accelerators()
    start.complete_torchvision()
    if about["simulate"]:
        cudasim = importlib.import_module("cudasim")  # as `start` does when a session begins
        for name in dir(cudasim):
            getattr(cudasim, name)  # some are loaded when they are asked for: see agent.Frozen
    return start


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


def remove(folder: Path) -> None:
    """Remove a folder, if it is there, however deep and however closed what is in it.

    What is in a folder within moves up beside it first, so that no path grows long.
    """
    if not folder.exists():
        return
    while inner := list(folder.iterdir()):
        for each in inner:
            try:
                each.unlink()
            except IsADirectoryError:
                each.chmod(0o700)
                for deeper in each.iterdir():
                    if deeper.is_dir() and not deeper.is_symlink():
                        deeper.chmod(0o700)  # a folder that is closed cannot be moved
                    deeper.rename(folder / secrets.token_hex(16))
                each.rmdir()
    folder.rmdir()


def main() -> None:
    """Be the helper: `python -m inside.helper SOCKET ABOUT`."""
    about = json.loads(sys.argv[2])
    forker = None
    with socket.socket(fileno=int(sys.argv[1])) as control:
        try:
            forker = Forker(control, about)
            control.send(b"{}")
            forker.serve()
        except Exception as error:
            with contextlib.suppress(OSError):  # the worker may be gone by now
                control.send(json.dumps({"failed": f"{type(error).__name__}: {error}"}).encode())
        finally:
            if forker is not None:
                forker.end()
            remove(Path(about["folder"]))


if __name__ == "__main__":
    main()
