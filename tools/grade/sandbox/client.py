"""The worker's side of a helper: starts it, and asks it for sessions, one at a time."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.grade.sandbox.inside import cgroups

HERE = Path(__file__).parent
THREADS = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"]
READY = 300  # s in which PyTorch must be imported, on a machine that is busy

# The same addresses in every session, so that what prints one prints the same each time:
# personality(ADDR_NO_RANDOMIZE) holds from the next program on. Where it is refused, as in
# Docker, they differ.
START = """
import ctypes, os, sys
if ctypes.CDLL(None).personality(0xFFFFFFFF) & 0x40000 == 0 and "again" not in sys.argv:
    ctypes.CDLL(None).personality(0x40000)
    os.execv(sys.executable, [*sys.orig_argv, "again"])
import json
sys.path[:0] = json.loads(sys.argv[2])["path"]
from inside import helper
helper.main(int(sys.argv[1]), json.loads(sys.argv[2]))
"""


class Helper:
    """A process that forks sessions; see `inside/helper.py`."""

    def __init__(self, about: dict) -> None:
        """Start one. Raises RuntimeError, in one line, if it cannot be."""
        self.owner = os.getpid()
        self.folder = Path(tempfile.mkdtemp(prefix="sandbox-"))
        self.cgroups: list[str] = []
        os.chmod(self.folder, 0o711)  # its user must get through to its session's folder
        about = about | {"folder": str(self.folder), "path": [str(HERE), *about["path"]]}
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {"HOME": os.path.expanduser("~"), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        environment |= dict.fromkeys(THREADS, "1") | about["runner"]["env"]
        environment |= {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-s", "-P", "-c", START, str(theirs.fileno()), json.dumps(about)]
        try:
            with theirs, open(self.folder / "log", "wb") as log:
                self.process = subprocess.Popen(
                    command,
                    env=environment,
                    cwd="/",
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            self.control.settimeout(READY)
            self._answer()
        except BaseException:
            self.close()
            raise

    def start(self, room: dict) -> tuple[int, int, int]:
        """A session: (number of its agent's process, pipe for requests, pipe of replies)."""
        their_requests, requests = os.pipe()
        replies, their_replies = os.pipe()
        try:
            message = json.dumps({"do": "start", "room": room}).encode()
            socket.send_fds(self.control, [message], [their_requests, their_replies])
            answer = self._answer()
        except BaseException:
            os.close(requests)
            os.close(replies)
            raise
        finally:
            os.close(their_requests)
            os.close(their_replies)
        self.cgroups = answer["cgroups"]
        return answer["pid"], requests, replies

    def end(self) -> str | None:
        """End the session; `memory` if the kernel ended it for that."""
        cause = "memory" if cgroups.killed(self.cgroups) else None
        self.control.send(b'{"do": "end"}')
        self._answer()
        return cause

    def close(self) -> None:
        """End the helper, which takes away all that is left."""
        self.control.close()
        process = getattr(self, "process", None)
        if process is not None:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def alive(self) -> bool:
        """True if it is this process's own, and there."""
        return self.owner == os.getpid() and self.process.poll() is None

    def _answer(self) -> dict[str, Any]:
        try:
            message = self.control.recv(1 << 16)
        except TimeoutError:
            raise RuntimeError("the sandbox's helper does not answer") from None
        if not message:
            log = (self.folder / "log").read_text(errors="replace").splitlines()
            raise RuntimeError(log[-1] if log else "the sandbox's helper ended")
        answer = json.loads(message)
        if "failed" in answer:
            raise RuntimeError(answer["failed"])
        return answer
