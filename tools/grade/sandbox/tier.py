"""The sandbox, and the weaker one for machines that do not let bubblewrap in, each tried first.

One is offered if a session of it begins here and does not get out: by files, the network,
processes or signals. Nothing is concluded from versions.
"""

import contextlib
import functools
import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.grade.sandbox.client import Helper
from tools.grade.sandbox.session import Ended, Limits, Raised, Session

TIERS = {  # what to write into a result
    "bubblewrap": "bubblewrap + seccomp",
    "landlock": "landlock + seccomp, without namespaces of its own",
}
# Each way out that is open is a word in the list that it gives; it is to be empty.
PROBE = """
import ctypes, os, signal, socket
def ways(attempts):
    out = []
    for name, attempt in attempts.items():
        try:
            if attempt() is not False:
                out.append(name)
        except BaseException:
            pass
    return out
ways({
    "reads files": lambda: open(secret).read(),
    "lists folders": lambda: os.listdir(folder),
    "writes files": lambda: open(folder + "/written", "w"),
    "changes Python": lambda: open(os.__file__, "a"),
    "connects": lambda: socket.create_connection(("127.0.0.1", port), 2),
    "connects by name": lambda: socket.socket(socket.AF_UNIX).connect(chr(0) + name),
    "starts processes": lambda: os.fork() or os._exit(0),
    "starts programs": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "sends signals": lambda: os.kill(judge, 0),
    "leaves namespaces": lambda: ctypes.CDLL(None).unshare(0x10000000) == 0,
})
"""


@dataclass(frozen=True)
class Tier:
    """A sandbox by its name; `without` is what a test leaves out, to show what it is for."""

    name: str
    without: str = ""

    @property
    def about(self) -> str:
        """What it consists of here, in one line, for the record of a grade."""
        return TIERS[self.name]

    @contextlib.contextmanager
    def session(
        self, limits: Limits | None = None, runner: str = "simulated", imports: Sequence[str] = ()
    ) -> Iterator[Session]:
        """A new session; everything of it is gone afterwards.

        What `imports` says is imported once for all sessions of a worker: statements of ours, as
        they run outside of a session. Raises RuntimeError, in one line, if none can be had.
        """
        key = (self, runner)
        place = idle.pop(key, None)
        if place is None or not place.alive():
            place = Helper(self.name == "bubblewrap", runner, self.without)
        try:
            with contextlib.closing(Session(place, limits or Limits(), imports)) as session:
                yield session
        except (RuntimeError, OSError):
            place.close()  # it may be what failed
            raise
        finally:
            if place.alive() and idle.setdefault(key, place) is not place:
                place.close()  # another was begun within this one's session


idle: dict[tuple[Tier, str], Helper] = {}  # by sandbox and runner, kept for the next session


def close() -> None:
    """End all helpers of this process."""
    while idle:
        _, place = idle.popitem()
        if place.alive():
            place.close()


@functools.cache
def try_out(name: str) -> str | None:
    """Why the tier `name` is not offered here; None if it is. It is tried once a process."""
    if not sys.platform.startswith("linux"):
        return f"{name}: needs Linux; grade on a Linux machine, in WSL or in the container"
    try:
        ways = ways_out(Tier(name))
    except (RuntimeError, OSError) as error:
        return f"{name}: {error}"
    except (Ended, Raised) as error:
        return f"{name}: a session that tries to get out ends ({error!r})"
    return f"{name}: a session of it {', '.join(ways)}" if ways else None


def ways_out(tier: Tier) -> list[str]:
    """What a session of `tier` can do that it must not; it is asked to try."""
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as server:
        os.chmod(folder, 0o777)  # so that it is not for its owner that a session fails
        secret = Path(folder, "secret")
        secret.write_text("secret")
        with socket.socket(socket.AF_UNIX) as named, tier.session() as session:
            name = f"sandbox-{os.getpid()}"
            named.bind("\0" + name)
            named.listen()
            inputs = {"folder": folder, "secret": str(secret), "port": server.getsockname()[1]}
            ways = session.ask(PROBE, inputs | {"name": name, "judge": os.getpid()})
    return ways
