"""The sandbox, and the weaker one for machines that do not let bubblewrap in, each tried first.

One is offered if a session of it begins here and does not get out: by files, the network,
processes or signals. Nothing is concluded from versions.
"""

import contextlib
import functools
import json
import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.grade.sandbox import bubblewrap, places
from tools.grade.sandbox.client import Helper
from tools.grade.sandbox.disk import too_many_below, too_many_in_tmpfs
from tools.grade.sandbox.inside import DISK
from tools.grade.sandbox.session import Ended, Limits, Raised, Session
from tools.grade.sandbox.watch import Watch, own_memory
from tools.root import ROOT

ABOUT = {  # what to write into a result
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
    """A sandbox by its name; `weakened` names what a test leaves out, to show what it is for."""

    name: str
    weakened: frozenset[str] = frozenset()

    @property
    def about(self) -> str:
        """What it consists of here, in one line, for the record of a grade."""
        return ABOUT[self.name]

    @contextlib.contextmanager
    def session(
        self, limits: Limits | None = None, runner: str = "simulated", imports: Sequence[str] = ()
    ) -> Iterator[Session]:
        """A new session; everything of it is gone afterwards.

        What `imports` says is imported once for all sessions of a worker: statements of ours, as
        they run outside of a session. Raises RuntimeError, in one line, if none can be had.
        """
        limits = limits or Limits()
        about = runner_of(runner)
        with helper(self.name == "bubblewrap", runner) as place:
            pid, requests, replies = place.start(self._room(about), imports)
            session = Session(place, requests, replies, limits)
            try:
                session.begin(lambda: own_memory(pid))
                files = functools.partial(too_many_in_tmpfs, pid)
                if self.name == "landlock":
                    folder = str(place.folder / "session")
                    files = functools.partial(too_many_below, folder, pid, DISK)
                session.watch = Watch(pid, limits.memory, files)
                yield session
            finally:
                session.close()

    def _room(self, about: dict) -> dict:
        from tools.grade.sandbox.inside import landlock  # which there is on Linux alone

        read, wrapped = places.readable(about["start"]), self.name == "bubblewrap"
        # It stays root without capabilities where no other user could read its Python.
        user = places.user() if not wrapped and places.open_to_all(read) else None
        rules = "landlock" not in self.weakened and (not wrapped or landlock.abi() > 0)
        return {
            "read": read,
            "user": user,
            "landlock": rules,
            "seccomp": "seccomp" not in self.weakened,
        }


@functools.cache
def runner_of(name: str) -> dict:
    """What a session of the runner `name` is set up with, from its `kernel.json`."""
    folder = ROOT / "kernels"
    kernel = json.loads((folder / name / "kernel.json").read_text(encoding="utf-8"))
    words = kernel["argv"]
    said = {word: words[at + 1] for at, word in enumerate(words[:-1]) if word.startswith("--")}
    simulate = "--simulate" in words and {
        "gpus": int(said["--simulate"]),
        "device_type": said.get("--device-type", "cuda"),
        "card": said.get("--card"),
        "clock": said.get("--clock"),
    }
    return {
        "start": str(folder / "start.py"),
        "hide": "--hide-accelerators" in words,
        "simulate": simulate or None,
        "env": kernel.get("env", {}),
    }


_kept: dict[tuple, Helper] = {}  # a process's own, which wait for the next session


@contextlib.contextmanager
def helper(wrapped: bool, runner: str) -> Iterator[Helper]:
    """A helper, which has one session at a time; kept for the next one."""
    key = (os.getpid(), wrapped, runner)
    place = _kept.pop(key, None)
    if place is not None and not place.alive():
        place.close()
        place = None
    if place is None:
        about = {"runner": runner_of(runner), "path": places.packages()}
        wrapping = []
        if wrapped:
            read = places.readable(about["runner"]["start"])
            user = places.user() if places.open_to_all(read) else None
            wrapping = bubblewrap.command(read, user)
        place = Helper(about, wrapping)
    try:
        yield place
    except (RuntimeError, OSError):
        place.close()  # it may be what failed
        raise
    finally:
        if place.alive() and _kept.setdefault(key, place) is not place:
            place.close()  # another was begun within this one's session


def close() -> None:
    """End all helpers of this process."""
    while _kept:
        key, place = _kept.popitem()
        if key[0] == os.getpid():
            place.close()


@functools.cache
def try_out(name: str) -> str | None:
    """Why the tier `name` is not offered here; None if it is."""
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
