"""The worker's side of a helper: starts it, and asks it for sessions, one at a time."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.grade.sandbox import bubblewrap, places
from tools.grade.sandbox.watch import status

HERE = Path(__file__).parent
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

    def __init__(self, wrapped: bool, runner: str, without: str) -> None:
        """Start one, within bubblewrap or not. Raises RuntimeError, in one line, if it cannot be.

        `without` is what a test leaves out.
        """
        self.owner = os.getpid()
        about, environment = runner_of(runner)
        read = places.readable()
        user = places.user(read)
        wrapping = bubblewrap.command(read, user) if wrapped else []
        self.wrapped = wrapped
        self.folder = f"/tmp/sandbox-{secrets.token_hex(4)}"  # within bubblewrap's own /tmp
        if not wrapped:
            self.folder = tempfile.mkdtemp(prefix="sandbox-")
            os.chmod(self.folder, 0o711)  # its user must get through to its session's folder
        about |= {"read": read, "user": None if wrapped else user, "wrapped": wrapped}
        about |= {"without": without, "folder": self.folder}
        path = os.pathsep.join(map(str, [HERE, places.KERNELS, *places.packages()]))
        environment = ENVIRONMENT | environment | {"HOME": self.folder, "PYTHONPATH": path}
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        python = [sys.executable, "-s", "-P", "-m", "inside.helper"]
        self.log = tempfile.TemporaryFile()
        with theirs:
            self.process = subprocess.Popen(
                [*wrapping, *python, str(theirs.fileno()), json.dumps(about)],
                env=environment,
                cwd="/",
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self.log,
                stderr=self.log,
                start_new_session=True,
                umask=0o022,  # sessions run as another user, who must be able to read
            )
        self.control.settimeout(READY)
        try:
            self._hear()
            self.pid = only_child(self.process.pid) if wrapped else self.process.pid
        except BaseException:
            self.close()
            raise

    def start(self, memory: int, imports: Sequence[str]) -> tuple[int, int, int]:
        """A session: (number of its process, pipe for requests, pipe of replies).

        It has `memory` MiB beyond what it begins with.
        """
        self._ask({"do": "import", "cells": list(imports)})
        most = status(self.pid)["VmData"] + (memory << 20)
        their_requests, requests = os.pipe()
        replies, their_replies = os.pipe()
        try:
            self._ask({"do": "start", "memory": most}, [their_requests, their_replies])
            return only_child(self.pid), requests, replies
        except BaseException:
            os.close(requests)
            os.close(replies)
            raise
        finally:
            os.close(their_requests)
            os.close(their_replies)

    def files(self) -> str:
        """The folder of the session, as it is seen from here."""
        root = f"/proc/{self.pid}/root" if self.wrapped else ""
        return f"{root}{self.folder}/session"

    def end(self) -> None:
        """End the session."""
        try:
            self._ask({"do": "end"})
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
        self.log.close()
        if not self.wrapped:
            shutil.rmtree(self.folder, ignore_errors=True)

    def alive(self) -> bool:
        """True if it is there, and this process's own: not one that forked it had."""
        return self.owner == os.getpid() and self.process.poll() is None

    def _ask(self, message: dict, pipes: Sequence[int] = ()) -> None:
        socket.send_fds(self.control, [json.dumps(message).encode()], pipes)
        self._hear()

    def _hear(self) -> None:
        """Wait for an answer. Raises RuntimeError with the reason if there is a failure."""
        try:
            message = self.control.recv(1 << 16)
        except TimeoutError:
            raise RuntimeError("the sandbox's helper does not answer") from None
        if not message:
            self.log.seek(0)
            log = self.log.read().decode(errors="replace").splitlines()
            raise RuntimeError(log[-1] if log else "the sandbox's helper ended")
        answer = json.loads(message)
        if "failed" in answer:
            raise RuntimeError(answer["failed"])


def only_child(parent: int) -> int:
    """The number of the one process that has this parent. Raises RuntimeError if there is none."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            about = Path("/proc", name, "stat").read_text()
        except OSError:
            continue
        if int(about.rpartition(")")[2].split()[1]) == parent:
            return int(name)
    raise RuntimeError("the session ended before it began")


def runner_of(name: str) -> tuple[dict, dict[str, str]]:
    """What a session of the runner `name` is set up with, and its environment."""
    kernel = json.loads((places.KERNELS / name / "kernel.json").read_text(encoding="utf-8"))
    words = kernel["argv"]
    said = {word: words[at + 1] for at, word in enumerate(words[:-1]) if word.startswith("--")}
    simulate = "--simulate" in words and {
        "gpus": int(said["--simulate"]),
        "device_type": said.get("--device-type", "cuda"),
        "card": said.get("--card"),
        "clock": said.get("--clock"),
    }
    return {"hide": "--hide-accelerators" in words, "simulate": simulate}, kernel.get("env", {})
