"""What students' cells can do to the judge, to each other and to the machine: nothing.

Whatever is asserted is seen from outside. The strongest sandbox of this machine is tried by
`make test`, the others by `make test FULL=1`.
"""

import contextlib
import ipaddress
import json
import os
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from classroom import DATA
from helpers import ROOT, wait_until

from coursework.grade.sandbox import Ended, Gap, NoData, Raised, Tier, try_out

resource = pytest.importorskip("resource", reason="only where Linux is")


class Attack:
    """A program of hostile.txt, which says what its header means."""

    def __init__(self, entry):
        header, self.source = entry.split("\n", 1)
        self.name, _, words = header.partition(" | ")
        limits = [word for word in words.split() if word[0] in "0123456789"]
        self.seconds = float(limits[0].removesuffix("s")) if limits else 5
        self.words = {*words.split()} - {*limits}


TABLE = (DATA / "hostile.txt").read_text(encoding="utf-8")
_, *ENTRIES = map(Attack, re.split("^== ", TABLE, flags=re.M))
KNOWN, ALIASES, MEASURED, DRAWN = (
    entry.source for entry in ENTRIES if "apart" in entry.words
)
ATTACKS = [entry for entry in ENTRIES if "apart" not in entry.words]
TAME = [attack for attack in ATTACKS if not attack.words]
WILD = [pytest.param(attack, id=attack.name) for attack in ATTACKS if attack.words]
SMALL = 512  # MiB
HOLDS = 256 << 20  # bytes by which the judge may grow while it is attacked


def offered(name):
    """The tier, or a skip that says why this machine does not offer it."""
    if reason := try_out(name):
        pytest.skip(reason)
    return Tier(name)


@pytest.fixture(params=["strongest", pytest.param("landlock", marks=pytest.mark.full)])
def tier(request, sandbox):
    """The sandboxes of this machine, once each."""
    if request.param == sandbox.name:
        pytest.skip(f"{sandbox.name} is the strongest: {try_out('bubblewrap')}")
    return sandbox if request.param == "strongest" else offered(request.param)


class World:
    """What is outside: a file, a folder, and somebody who listens."""

    def __init__(self, outside):
        self.outside, self.canary = outside, outside / "canary"
        outside.chmod(0o777)
        self.canary.write_text(secrets.token_hex(16))
        self.canary.chmod(0o666)
        name = f"hostile-{os.getpid()}-{secrets.token_hex(4)}"
        # An address of its own: whoever tries every port of 127.0.0.1 is no student.
        host = str(ipaddress.ip_address("127.0.0.0") + random.randrange(2**16, 2**24))
        addresses = (host, 0), "\0" + name, str(outside / "socket")
        families = socket.AF_INET, socket.AF_UNIX, socket.AF_UNIX
        self.listening = [socket.socket(family) for family in families]
        for server, address in zip(self.listening, addresses, strict=True):
            server.bind(address)
            server.listen()
            server.setblocking(False)
        os.chmod(outside / "socket", 0o777)
        facts = {
            "canary": str(self.canary),
            "outside": str(outside),
            "host": host,
            "name": name,
        }
        facts |= {"port": self.listening[0].getsockname()[1], "judge": os.getpid()}
        lines = (f"{name} = {value!r}\n" for name, value in facts.items())
        self.known = KNOWN + "".join(lines)  # the first cell: what the attackers know
        self.seen = self.look()

    def look(self):
        """All that a session could have changed outside."""
        places = map(Path, ("/", "/var/tmp", "/dev/shm", "/dev/mqueue", "/tmp", "/run"))
        left = [
            name for place in places if place.is_dir() for name in os.listdir(place)
        ]
        shared = Path("/proc/sysvipc/shm")
        python = [Path(os.__file__), Path(json.__file__), Path(os.__file__).parent]
        return (
            self.canary.read_text(),
            {path.name: path.lstat().st_mode for path in self.outside.iterdir()},
            sorted(
                name for name in left if name.startswith("hostile") or name == "mine"
            ),
            shared.exists() and " 4660 " in shared.read_text(),
            [resource.prlimit(0, kind) for kind in range(15)],
            (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0)),
            [(s.st_mtime_ns, s.st_size, s.st_mode) for s in map(Path.stat, python)],
        )

    def is_untouched(self):
        assert self.look() == self.seen
        for server in self.listening:
            with pytest.raises(BlockingIOError):  # nobody came
                server.accept()


@pytest.fixture
def world():
    """Where anybody may come: pytest's own folders are closed to others as they are."""
    with (
        tempfile.TemporaryDirectory(prefix="world-") as folder,
        contextlib.ExitStack() as open,
    ):
        made = World(Path(folder))
        for server in made.listening:
            open.enter_context(server)
        yield made


def processes_of(helper):
    """What a helper forked, and what was orphaned of that."""
    return psutil.Process(helper.pid).children(recursive=True)


@contextlib.contextmanager
def hostile_session(tier, world, memory=SMALL):
    """A session that knows all that an attacker might, and what must hold when it is over."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    with tier.session(memory) as session:
        helper = session.helper
        assert session.run(world.known) is None
        yield session
    assert helper.alive() and processes_of(helper) == []
    assert Path(helper.files()).parent.exists()
    assert not Path(helper.files()).exists()
    world.is_untouched()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < before + HOLDS


def try_it(session, attack):
    """Run one attack; True if the session goes on."""
    ends = attack.words - {"alone"}
    try:
        error = session.run("loot.clear()\n" + attack.source, attack.seconds)
        session.run("1")
    except Ended as ended:
        assert ended.kind in ends, attack.name
        return False
    assert not ends or ends & {"on", "later"}, f"{attack.name}: it should have ended"
    meant = ends or attack.name.startswith(("raises", "leaves politely", "shadows"))
    assert error is None or meant, (
        f"{attack.name}: it fails by itself, so it tries nothing"
    )
    if "alone" not in attack.words and "later" not in ends:
        assert session.ask("repr(loot)") == "[]", attack.name
    return True


def test_attacks_get_nothing(tier, world):
    assert len(ATTACKS) == len({attack.name for attack in ATTACKS}) == 105
    with hostile_session(tier, world) as session:
        for attack in TAME:
            assert try_it(session, attack), attack.name
            world.is_untouched()
        assert session.ask("[n, n + 1]", {"n": 5}) == [
            5,
            6,
        ]  # and the session is as it was


@pytest.mark.parametrize("attack", WILD)
def test_attacks_end_only_their_session(tier, attack, world):
    with hostile_session(tier, world) as session:
        if try_it(session, attack):
            with contextlib.suppress(Raised, Ended, Gap):
                value = session.ask(
                    "[n, n + 1, torch.ones(1).tolist()]", {"n": 5}, seconds=1
                )
                assert "later" not in attack.words or value == [5, 6, [1.0]]


PLAIN = {  # what an honest answer may be, and the data that it comes to
    "(None, True, 2, 'ä', [0.5], {'a': ()})": [None, True, 2, "ä", [0.5], {"a": []}],
    "[numpy.float32(0.5), numpy.int64(2), numpy.bool_(True)]": [0.5, 2, True],
    "[numpy.arange(3), torch.tensor(3), torch.zeros(2, 3).shape]": [
        [0, 1, 2],
        3,
        [2, 3],
    ],
    "torch.ones(1, 2, device='cuda:1')": [[1.0, 1.0]],
    "[collections.Counter('aab'), http.HTTPStatus.OK]": [{"a": 2, "b": 1}, 200],
}
STRANGE = ("object()", "{1, 2}", "1j", "torch", "{1: 2}")


def test_cells_are_run_and_asked_for_data(tier):
    with tier.session() as session:
        assert (
            session.run("import torch\nprint('seen')\ntorch.ones(2, device='cuda:1')")
            is None
        )
        assert session.run("n = 4\ndef f(k): return k + n") is None
        assert session.run("1 / 0") == "ZeroDivisionError"
        assert session.run("await __import__('asyncio').sleep(0, 3)") is None
        ask = "y = torch.ones(2, device='cuda:1') * n\n[str(y.device), [f(n) for _ in range(n)]]"
        assert session.ask(ask, {"n": 2}) == ["cuda:1", [6, 6]]  # its own n is 4 still
        assert session.run("n = 5") is None
        assert session.ask("n") == 5
        session.run("import collections, http, numpy")
        assert {asked: session.ask(asked) for asked in PLAIN} == PLAIN
        for kind, codes in {Raised: ("1 / 0", "y = 1"), NoData: STRANGE}.items():
            for code in codes:
                with pytest.raises(kind):
                    session.ask(code)


@pytest.mark.parametrize("when", ["before", "as it is asked"])
def test_an_alias_tells_no_other_time_and_no_other_memory(sandbox, when):
    with sandbox.session() as session:
        assert session.run(ALIASES + ("alias()" if when == "before" else "")) is None
        assert session.ask(MEASURED) == [True, 1, True]


@pytest.fixture
def leave_out(monkeypatch):
    """Leaves a part out of the sandboxes that are begun then, by a copy of their code."""
    with tempfile.TemporaryDirectory(prefix="part-") as folder:
        os.chmod(folder, 0o755)
        shutil.copytree(
            ROOT / "coursework/grade/sandbox/inside", Path(folder, "inside")
        )

        def leave(module, function):
            with open(Path(folder, "inside", module), "a") as file:
                file.write(f"\n{function} = lambda *_: None\n")
            monkeypatch.setattr("coursework.grade.sandbox.helper.HERE", Path(folder))
            monkeypatch.setattr("coursework.grade.sandbox.helpers", {})

        yield leave


# In a chroot, say, nobody may make one.
UNSHARED = (
    subprocess.run(["unshare", "--user", "true"], capture_output=True).returncode == 0
)
NAMESPACES = ["leaves namespaces"] if UNSHARED else []
PARTS = {"landlock": ("confine.py", "restrict"), "seccomp": ("seccomp.py", "load")}


@pytest.mark.parametrize(
    ("name", "part", "ways"),
    [
        ("landlock", "landlock", ["reads files", "lists folders", "writes files"]),
        ("landlock", "seccomp", ["starts processes", *NAMESPACES]),
        ("bubblewrap", "seccomp", ["starts processes"]),
    ],
)
def test_each_part_is_needed(name, part, ways, leave_out):
    """With a part of it left out, a tier lets out what it otherwise holds, and is not offered."""
    offered(name)
    leave_out(*PARTS[part])
    said = try_out.__wrapped__(name)
    assert all(way in said for way in ways)


def test_a_daemon_that_gets_through_is_killed(tier, world, leave_out):
    """Should the filter have a hole, what it let through ends with the session."""
    leave_out(*PARTS["seccomp"])
    with hostile_session(tier, world) as session:
        [daemon] = [attack for attack in ATTACKS if attack.name == "leaves a daemon"]
        session.run(daemon.source)
        wait_until(lambda: len(processes_of(session.helper)) > 1)


def test_all_is_the_same_every_time_and_limits_cost_the_question_alone(tier):
    drawn = []
    for _ in range(2):
        with tier.session() as session:
            drawn.append(session.ask(DRAWN))
            for source in (
                "while True: pass",
                "1",
            ):  # of processor time; it stays ended
                with pytest.raises(Ended, match="time"):
                    session.run(source, seconds=0.5)
    assert drawn[0] == drawn[1]
    with tier.session(memory=256) as session:
        assert session.run("x = bytearray(300 << 20)") == "MemoryError"
        assert session.run("x = bytearray(100 << 20)") is None


JUDGE = """
import sys
from coursework.grade.sandbox import Tier
with Tier(sys.argv[1]).session() as session:
    print(session.helper.pid, session.watch.process.pid, session.helper.folder, flush=True)
    session.run("while True: pass", seconds=1000)
"""


@pytest.mark.parametrize(
    "victim", ["judge", pytest.param("helper", marks=pytest.mark.full)]
)
def test_nothing_survives_a_killed_worker(tier, victim):
    command = [sys.executable, "-c", JUDGE, tier.name]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as judge:
        *pids, folder = judge.stdout.readline().split()
        helper, agent = map(psutil.Process, map(int, pids))
        os.kill(judge.pid if victim == "judge" else helper.pid, signal.SIGKILL)
    wait_until(
        lambda: not (agent.is_running() or helper.is_running() or Path(folder).exists())
    )
