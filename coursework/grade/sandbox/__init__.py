"""Runs students' cells where they can do no harm, with the judge outside.

    with Tier("bubblewrap").session(memory=1024) as session:
        session.run("x = 1")                       # a cell: None, or the name of its error
        session.ask("x + n", {"n": 2}, seconds=5)  # data: 3

A helper with PyTorch loaded forks a session whenever it is asked. Each shuts itself in: Landlock's
rules on files, a filter of system calls that lets no process be made and no socket, and limits of
time, memory and disk, watched from outside. `bubblewrap` has the helper in namespaces of its own,
without a network, with a root of which nothing can be written. `landlock` is the same without them,
for containers as Gradescope's: what else is there is kept from a session by one thing, not two.
What a session sees is the same in both, so that grades are. One is offered if its session begins
here and does not get out: nothing is concluded from versions.
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

from coursework.grade.sandbox.helper import Helper
from coursework.grade.sandbox.session import Ended, Gap, NoData, Raised, Session  # noqa: F401
from tools.errors import BookError

TIERS = {  # what to write into a result
    "bubblewrap": "bubblewrap + seccomp",
    "landlock": "landlock + seccomp, without namespaces of its own",
}
TRIED = "GRADE_TIER"  # the variable that names a sandbox which this machine offers
WAYS = tomllib.loads(Path(__file__).with_name("ways.toml").read_text(encoding="utf-8"))


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
    def session(
        self, memory: int = 1024, runner: str = "simulated"
    ) -> Iterator[Session]:
        """A new session of `memory` MiB beyond PyTorch's, in a helper of its own as long as it
        lasts. Raises RuntimeError."""
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


# By sandbox and runner, those that wait for the next session: two, where one asks beside another.
helpers: dict[tuple[str, str], list[Helper]] = {}


@functools.cache
def try_out(name: str) -> str | None:
    """Why the tier `name` is not offered here, as a session of it found that tries to get out."""
    if not sys.platform.startswith("linux"):
        return (
            f"{name}: needs Linux; grade on a Linux machine, in WSL or in the container"
        )
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as named,
    ):
        os.chmod(folder, 0o777)  # so that it is not for its owner that a session fails
        Path(folder, "secret").write_text("secret")
        known = {
            "judge": os.getpid(),
            "name": f"sandbox-{os.getpid()}",
            "folder": folder,
        }
        known["port"] = server.getsockname()[1]
        named.bind("\0" + known["name"])
        named.listen()
        try:
            with Tier(name).session() as session:
                if error := session.run("import ctypes, os, socket"):
                    raise RuntimeError(f"{error} in a session's first cell")
                ways = [
                    way for way, code in WAYS.items() if is_open(session, code, known)
                ]
        except (RuntimeError, OSError) as error:
            return f"{name}: {error}"
        except Ended as error:
            return f"{name}: a session that tries to get out ends ({error!r})"
    return f"{name}: a session of it {', '.join(ways)}" if ways else None


def is_open(session: Session, way: str, known: dict) -> bool:
    try:
        return session.ask(f"({way}) is not False", known)
    except Raised:
        return False


@functools.cache
def strongest() -> Tier:
    """The strongest sandbox, or the one that GRADE_TIER says was tried. Raises NoSandbox."""
    if name := os.environ.get(TRIED):
        return Tier(name)
    reasons = []
    for name in TIERS:
        if not (reason := try_out(name)):
            return Tier(name)
        reasons.append(reason)
    raise NoSandbox(
        f"no sandbox on this machine, so nothing is graded ({'; '.join(reasons)})"
    )
