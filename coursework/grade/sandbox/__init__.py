"""Runs students' cells where they can do no harm, with the judge outside.

    with Tier("bubblewrap").session(memory=1024) as session:
        session.run("x = 1")                       # a cell: None, or the name of its error
        session.ask("x + n", {"n": 2}, seconds=5)  # data: 3

A helper process with PyTorch loaded forks a session whenever it is asked. Each session shuts
itself in: by Landlock's rules on files, by a filter of system calls that lets it make no
process and no socket, and by limits of time, memory and disk, which are watched from outside.

There are two tiers. With `bubblewrap` the helper has namespaces of its own, without a network,
and a root file system to which nothing can be written. `landlock` is the same without them, for
containers such as Gradescope's: there a session is kept from what else is on the machine by one
mechanism, not two. A session sees the same in both, so that grades are the same. A tier is
offered if a session of it begins here and does not get out. Nothing is concluded from versions.
"""

import contextlib
import functools
import os
import socket
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coursework.grade.sandbox.helper import Helper
from coursework.grade.sandbox.session import Ended, Gap, NoData, Raised, Session
from tools.errors import BookError

__all__ = [
    "TRIED",
    "Ended",
    "Gap",
    "NoData",
    "NoSandbox",
    "Raised",
    "Session",
    "Tier",
    "strongest",
    "try_out",
]

TIERS = {  # what to write into a result, the strongest first
    "bubblewrap": "bubblewrap + seccomp",
    "landlock": "landlock + seccomp, without namespaces of its own",
}
TRIED = "GRADE_TIER"  # the variable that names a tier which this machine offers
WAYS = tomllib.loads(Path(__file__).with_name("ways.toml").read_text(encoding="utf-8"))


class NoSandbox(BookError):
    """This machine offers no sandbox; the message says why."""


@dataclass(frozen=True)
class Tier:
    name: str

    @property
    def about(self) -> str:
        """One line for the record of a grade: what the tier consists of."""
        return TIERS[self.name]

    @contextlib.contextmanager
    def session(
        self, memory: int = 1024, runner: str = "simulated"
    ) -> Iterator[Session]:
        """Begin a session that may use `memory` MiB beyond PyTorch's.

        It has its helper to itself as long as it lasts. Raises RuntimeError.
        """
        idle = helpers.setdefault((self.name, runner), [])
        helper = idle.pop() if idle else None
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
                idle.append(helper)


# The helpers that wait for their next session, by tier and runner. There are two where one
# session is asked beside another.
helpers: dict[tuple[str, str], list[Helper]] = {}


# --- which tiers a machine offers


@functools.cache
def try_out(name: str) -> str | None:
    """Return why a tier is not offered here, or None if it is.

    A session of it tries to get out in all the ways of `ways.toml`.
    """
    if not sys.platform.startswith("linux"):
        advice = "grade on a Linux machine, in WSL or in the container"
        return f"{name}: needs Linux; {advice}"
    try:
        ways = _ways_out(Tier(name))
    except (RuntimeError, OSError) as error:
        return f"{name}: {error}"
    except Ended as error:
        return f"{name}: a session that tries to get out ends ({error!r})"
    return f"{name}: a session of it {', '.join(ways)}" if ways else None


def _ways_out(tier: Tier) -> list[str]:
    """Return the ways that are open to a session. Raises RuntimeError, OSError or Ended."""
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as named,
    ):
        os.chmod(folder, 0o777)  # a session must not fail only because of its owner
        Path(folder, "secret").write_text("secret")
        known = {
            "judge": os.getpid(),
            "name": f"sandbox-{os.getpid()}",
            "folder": folder,
            "port": server.getsockname()[1],
        }
        named.bind("\0" + known["name"])
        named.listen()
        with tier.session() as session:
            error = session.run("import ctypes, os, socket")
            if error:
                raise RuntimeError(f"{error} in a session's first cell")
            return [way for way, code in WAYS.items() if _is_open(session, code, known)]


def _is_open(session: Session, code: str, known: dict[str, Any]) -> bool:
    try:
        return session.ask(f"({code}) is not False", known)
    except Raised:
        return False


@functools.cache
def strongest() -> Tier:
    """Return the strongest tier, or the one that GRADE_TIER names. Raises NoSandbox."""
    tried = os.environ.get(TRIED)
    if tried:
        return Tier(tried)
    reasons = []
    for name in TIERS:
        reason = try_out(name)
        if reason is None:
            return Tier(name)
        reasons.append(reason)
    details = "; ".join(reasons)
    raise NoSandbox(f"no sandbox on this machine, so nothing is graded ({details})")
