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
from typing import Any

HERE = Path(__file__).parent
SINGLE = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"]
READY = 300  # s in which PyTorch must be imported, on a machine that is busy

START = """
import json, sys
sys.path[:0] = json.loads(sys.argv[2])["path"]
from inside import helper
del sys.path[0]  # that of this package: cells import nothing from here
helper.main(int(sys.argv[1]), json.loads(sys.argv[2]))
"""


class Helper:
    """A process that forks sessions; see `inside/helper.py`."""

    def __init__(self, about: dict, wrapping: list[str]) -> None:
        """Start one; `wrapping` is a command that puts it into bubblewrap, or empty.

        Raises RuntimeError, in one line, if it cannot be.
        """
        self.owner, self.wrapped = os.getpid(), bool(wrapping)
        self.folder = Path(f"/tmp/sandbox-{secrets.token_hex(4)}")  # within bubblewrap's own /tmp
        if not wrapping:
            self.folder = Path(tempfile.mkdtemp(prefix="sandbox-"))
            os.chmod(self.folder, 0o711)  # its user must get through to its session's folder
        about = about | {"folder": str(self.folder), "path": [str(HERE), *about["path"]]}
        environment = {"HOME": os.path.expanduser("~"), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        environment |= dict.fromkeys(SINGLE, "1") | about["runner"]["env"]
        environment |= {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        told, tells = os.pipe()
        if wrapping:
            wrapping = [*wrapping, "--info-fd", str(tells)]
            for name, value in (environment | {"HOME": "/tmp"}).items():
                wrapping += ["--setenv", name, value]
            wrapping.append("--")
            environment = {}  # bubblewrap would keep it where a session can read it
        python = [sys.executable, "-s", "-P", "-c", START, str(theirs.fileno()), json.dumps(about)]
        self.log = tempfile.TemporaryFile()
        try:
            with theirs:
                self.process = subprocess.Popen(
                    [*wrapping, *python],
                    env=environment,
                    cwd="/",
                    pass_fds=[theirs.fileno(), *([tells] if wrapping else [])],
                    stdin=subprocess.DEVNULL,
                    stdout=self.log,
                    stderr=self.log,
                    start_new_session=True,
                    umask=0o022,  # sessions run as another user, who must be able to read
                )
            os.close(tells)
            self.pid = self.process.pid  # of the helper itself
            if wrapping:
                with os.fdopen(told, "rb", closefd=False) as info:
                    self.pid = json.loads(info.read() or b'{"child-pid": 0}')["child-pid"]
            self.control.settimeout(READY)
            self._answer()
        except BaseException:
            self.close()
            raise
        finally:
            os.close(told)

    def start(self, room: dict, imports: Sequence[str] = ()) -> tuple[int, int, int]:
        """A session: (number of its agent's process, pipe for requests, pipe of replies)."""
        their_requests, requests = os.pipe()
        replies, their_replies = os.pipe()
        try:
            asked = {"do": "start", "room": room, "imports": list(imports)}
            message = json.dumps(asked).encode()
            socket.send_fds(self.control, [message], [their_requests, their_replies])
            answer = self._answer()
        except BaseException:
            os.close(requests)
            os.close(replies)
            raise
        finally:
            os.close(their_requests)
            os.close(their_replies)
        # Within bubblewrap it cannot know what is its session's number here.
        return only_child(self.pid) if self.wrapped else answer["pid"], requests, replies

    def end(self) -> None:
        """End the session."""
        try:
            self.control.send(b'{"do": "end"}')
            self._answer()
        except (RuntimeError, OSError):
            self.close()  # its sessions end with it

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
        self.log.close()
        if not self.wrapped:
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
            self.log.seek(0)
            log = self.log.read().decode(errors="replace").splitlines()
            raise RuntimeError(log[-1] if log else "the sandbox's helper ended")
        answer = json.loads(message)
        if "failed" in answer:
            raise RuntimeError(answer["failed"])
        return answer


def only_child(parent: int) -> int:
    """The number of the one process that has this parent. Raises RuntimeError if there is none."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                about = Path("/proc", name, "stat").read_text()
            except OSError:
                continue
            if int(about.rpartition(")")[2].split()[1]) == parent:
                return int(name)
    raise RuntimeError("the session ended before it began")
