"""The sandbox, and the weaker one for machines that do not let bubblewrap in, each tried first.

One is offered if its session begins here and does not get out. Nothing is concluded from versions.
"""

import contextlib
import functools
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.errors import BookError
from tools.grade.sandbox.helper import Helper
from tools.grade.sandbox.session import Ended, Raised, Session

TIERS = {  # what to write into a result
    "bubblewrap": "bubblewrap + seccomp",
    "landlock": "landlock + seccomp, without namespaces of its own",
}
TRIED = "GRADE_TIER"  # the variable that names a sandbox which this machine offers
# Each way out that is open is a word in the list that it gives; it is to be empty.
PROBE = """
import ctypes, os, signal, socket
def is_open(attempt):
    try:
        return attempt() is not False
    except BaseException:
        return False
ways = {
    "reads files": lambda: open(folder + "/secret").read(),
    "lists folders": lambda: os.listdir(folder),
    "writes files": lambda: open(folder + "/written", "w"),
    "changes Python": lambda: open(os.__file__, "a"),
    "connects": lambda: socket.create_connection(("127.0.0.1", port), 2),
    "connects by name": lambda: socket.socket(socket.AF_UNIX).connect(chr(0) + name),
    "starts processes": lambda: os.fork() or os._exit(0),
    "starts programs": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "sends signals": lambda: os.kill(judge, 0),
    "leaves namespaces": lambda: ctypes.CDLL(None).unshare(0x10000000) == 0,
}
[name for name, attempt in ways.items() if is_open(attempt)]
"""


class NoSandbox(BookError):
    """This machine offers no sandbox; the message says why."""


@dataclass(frozen=True)
class Tier:
    name: str

    @property
    def about(self) -> str:
        """What it consists of here, in one line, for the record of a grade."""
        return TIERS[self.name]

    @contextlib.contextmanager
    def session(self, memory: int = 1024, runner: str = "simulated") -> Iterator[Session]:
        """A new session of `memory` MiB beyond PyTorch's, one at a time. Raises RuntimeError."""
        helper = helpers.pop((self.name, runner), None)
        if helper is None or not helper.alive():
            helper = Helper(self.name == "bubblewrap", runner)
        try:
            with contextlib.closing(Session(helper, memory)) as session:
                yield session
        except (RuntimeError, OSError):
            helper.close()  # it may be what failed
            raise
        finally:
            if helper.alive():
                helpers[self.name, runner] = helper


helpers: dict[tuple[str, str], Helper] = {}  # by sandbox and runner, kept for the next session


@functools.cache
def try_out(name: str) -> str | None:
    """Why the tier `name` is not offered here, as a session of it found that tries to get out."""
    if not sys.platform.startswith("linux"):
        return f"{name}: needs Linux; grade on a Linux machine, in WSL or in the container"
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as named,
    ):
        os.chmod(folder, 0o777)  # so that it is not for its owner that a session fails
        Path(folder, "secret").write_text("secret")
        known = {"judge": os.getpid(), "name": f"sandbox-{os.getpid()}", "folder": folder}
        known["port"] = server.getsockname()[1]
        named.bind("\0" + known["name"])
        named.listen()
        try:
            with Tier(name).session() as session:
                ways = session.ask(PROBE, known)
        except (RuntimeError, OSError) as error:
            return f"{name}: {error}"
        except (Ended, Raised) as error:
            return f"{name}: a session that tries to get out ends ({error!r})"
    return f"{name}: a session of it {', '.join(ways)}" if ways else None


@functools.cache
def strongest() -> Tier:
    """The strongest sandbox, or the one that GRADE_TIER says was tried. Raises NoSandbox."""
    if name := os.environ.get(TRIED):
        return Tier(name)
    reasons = {}
    for name in TIERS:
        reasons[name] = try_out(name)
        if reasons[name] is None:
            return Tier(name)
    why = "; ".join(reasons.values())
    raise NoSandbox(f"no sandbox on this machine, so nothing is graded ({why})")
