"""What students' cells can do to the judge, to each other and to the machine: nothing.

Whatever is asserted is seen from outside. The strongest sandbox of this machine is tried by
`make test`, the others by `make test FULL=1`.
"""

import contextlib
import ipaddress
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from classroom import DATA, entries
from helpers import ROOT, wait_until

from coursework.grade.sandbox import Ended, Gap, NoData, Raised, Tier, try_out

resource = pytest.importorskip("resource", reason="only where Linux is")


@dataclass(frozen=True)
class Attack:
    """A program of hostile.txt, which says what the words of its header mean."""

    name: str
    words: frozenset[str]
    seconds: float
    source: str

    @property
    def ends(self):
        """How its session may end, or go on."""
        return self.words - {"alone"}


def read_attacks():
    attacks = []
    for header, source in entries(DATA / "hostile.txt"):
        name, _, text = header.partition(" | ")
        seconds = 5.0
        words = set()
        for word in text.split():
            if word[0].isdigit():
                seconds = float(word.removesuffix("s"))
            else:
                words.add(word)
        attacks.append(Attack(name, frozenset(words), seconds, source))
    return attacks


ENTRIES = read_attacks()
PARTS = {entry.name: entry.source for entry in ENTRIES if "apart" in entry.words}
WHAT_ATTACKERS_KNOW = PARTS["what every program knows"]
ALIASES = PARTS["has aliases of what measures time and memory"]
MEASURED = PARTS["the time and memory that the judge asks for"]
DRAWN = PARTS["orders, random numbers and times, which never differ"]
ATTACKS = [entry for entry in ENTRIES if "apart" not in entry.words]
TAME = [attack for attack in ATTACKS if not attack.words]
WILD = [pytest.param(attack, id=attack.name) for attack in ATTACKS if attack.words]
SMALL = 512  # MiB
# Bytes by which the judge may grow while it is attacked.
GROWTH = 256 << 20


def offered(name):
    """Return the tier, or skip with the reason why this machine does not offer it."""
    reason = try_out(name)
    if reason:
        pytest.skip(reason)
    return Tier(name)


@pytest.fixture(params=["strongest", pytest.param("landlock", marks=pytest.mark.full)])
def tier(request, sandbox):
    """The sandboxes of this machine, once each."""
    if request.param == sandbox.name:
        pytest.skip(f"{sandbox.name} is the strongest: {try_out('bubblewrap')}")
    if request.param == "strongest":
        return sandbox
    return offered(request.param)


# What a session may have left, and where.
PLACES = ("/", "/var/tmp", "/dev/shm", "/dev/mqueue", "/tmp", "/run")
PYTHON_FILES = [Path(os.__file__), Path(json.__file__), Path(os.__file__).parent]


def names_left():
    """Return the names of what attacks have left in folders for everybody."""
    names = []
    for place in PLACES:
        if not os.path.isdir(place):
            continue
        for name in os.listdir(place):
            if name == "mine" or name.startswith("hostile"):
                names.append(name)
    return sorted(names)


def has_shared_memory():
    """Tell whether the segment of shared memory exists that an attack would make."""
    segments = Path("/proc/sysvipc/shm")
    return segments.exists() and " 4660 " in segments.read_text()


def status_of(path):
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_mode


class World:
    """What is outside: a file, a folder, and somebody who listens."""

    def __init__(self, outside):
        self.outside = outside
        self.canary = outside / "canary"
        outside.chmod(0o777)
        self.canary.write_text(secrets.token_hex(16))
        self.canary.chmod(0o666)

        # An address of its own: whoever tries every port of 127.0.0.1 is no student.
        loopback = ipaddress.ip_address("127.0.0.0")
        host = str(loopback + random.randrange(2**16, 2**24))
        name = f"hostile-{os.getpid()}-{secrets.token_hex(4)}"
        network = listen(socket.AF_INET, (host, 0))
        abstract = listen(socket.AF_UNIX, f"\0{name}")
        path = outside / "socket"
        in_folder = listen(socket.AF_UNIX, str(path))
        path.chmod(0o777)
        self.listening = [network, abstract, in_folder]

        known = {
            "canary": str(self.canary),
            "outside": str(outside),
            "host": host,
            "name": name,
            "port": network.getsockname()[1],
            "judge": os.getpid(),
        }
        # The first cell of every session.
        self.known = WHAT_ATTACKERS_KNOW
        for name, value in known.items():
            self.known += f"{name} = {value!r}\n"
        self.before = self.look()

    def look(self):
        """Return all that a session could have changed outside."""
        modes = {path.name: path.lstat().st_mode for path in self.outside.iterdir()}
        return {
            "canary": self.canary.read_text(),
            "modes": modes,
            "names": names_left(),
            "shared memory": has_shared_memory(),
            "limits": [resource.prlimit(0, kind) for kind in range(15)],
            "priority": os.getpriority(os.PRIO_PROCESS, 0),
            "processors": os.sched_getaffinity(0),
            "Python": [status_of(path) for path in PYTHON_FILES],
        }

    def assert_untouched(self):
        assert self.look() == self.before
        for server in self.listening:
            # Nobody came.
            with pytest.raises(BlockingIOError):
                server.accept()


def listen(family, address):
    server = socket.socket(family)
    server.bind(address)
    server.listen()
    server.setblocking(False)
    return server


@pytest.fixture
def world():
    """Where anybody may come: pytest's own folders are closed to others as they are."""
    with tempfile.TemporaryDirectory(prefix="world-") as folder:
        world = World(Path(folder))
        yield world
        for server in world.listening:
            server.close()


def processes_of(helper):
    """Return what a helper forked, and what was orphaned of that."""
    return psutil.Process(helper.pid).children(recursive=True)


def peak_memory():
    """Return the most bytes that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextlib.contextmanager
def hostile_session(tier, world, memory=SMALL):
    """A session that knows all that an attacker might; it leaves no trace when it is over."""
    before = peak_memory()
    with tier.session(memory) as session:
        helper = session.helper
        assert session.run(world.known) is None
        yield session
    assert helper.alive()
    assert processes_of(helper) == []
    folder = Path(helper.files())
    assert folder.parent.exists()
    assert not folder.exists()
    world.assert_untouched()
    assert peak_memory() < before + GROWTH


# They raise an error of their own, and try something all the same.
RAISING = ("raises", "leaves politely", "shadows")


def attack_goes_on(session, attack):
    """Run one attack, and tell whether the session goes on."""
    try:
        error = session.run(f"loot.clear()\n{attack.source}", attack.seconds)
        session.run("1")
    except Ended as ended:
        assert ended.kind in attack.ends, attack.name
        return False

    may_go_on = not attack.ends or attack.ends & {"on", "later"}
    assert may_go_on, f"{attack.name}: it should have ended"
    if not attack.ends and not attack.name.startswith(RAISING):
        assert error is None, f"{attack.name}: it fails by itself, so it tries nothing"
    if "alone" not in attack.words and "later" not in attack.ends:
        assert session.ask("repr(loot)") == "[]", attack.name
    return True


def test_each_attack_has_a_name():
    assert len(ATTACKS) == 105
    assert len({attack.name for attack in ATTACKS}) == 105


def test_attacks_get_nothing(tier, world):
    with hostile_session(tier, world) as session:
        for attack in TAME:
            assert attack_goes_on(session, attack), attack.name
            world.assert_untouched()
        # The session is as it was.
        assert session.ask("[n, n + 1]", {"n": 5}) == [5, 6]


@pytest.mark.parametrize("attack", WILD)
def test_attacks_end_only_their_session(tier, attack, world):
    question = "[n, n + 1, torch.ones(1).tolist()]"
    with hostile_session(tier, world) as session:
        if attack_goes_on(session, attack):
            with contextlib.suppress(Raised, Ended, Gap):
                value = session.ask(question, {"n": 5}, seconds=1)
                if "later" in attack.words:
                    assert value == [5, 6, [1.0]]


# --- questions

# What an honest answer may be, and the data that it comes to.
PLAIN = {
    "(None, True, 2, 'ä', [0.5], {'a': ()})": [None, True, 2, "ä", [0.5], {"a": []}],
    "[numpy.float32(0.5), numpy.int64(2), numpy.bool_(True)]": [0.5, 2, True],
    "[numpy.arange(3), torch.tensor(3)]": [[0, 1, 2], 3],
    "torch.zeros(2, 3).shape": [2, 3],
    "torch.ones(1, 2, device='cuda:1')": [[1.0, 1.0]],
    "[collections.Counter('aab'), http.HTTPStatus.OK]": [{"a": 2, "b": 1}, 200],
}
NO_DATA = ("object()", "{1, 2}", "1j", "torch", "{1: 2}")
FAILING = ("1 / 0", "y = 1")


def test_a_cell_is_told_by_its_error_alone(tier):
    shows = "import torch\nprint('seen')\ntorch.ones(2, device='cuda:1')"
    with tier.session() as session:
        assert session.run(shows) is None
        assert session.run("1 / 0") == "ZeroDivisionError"
        assert session.run("await __import__('asyncio').sleep(0, 3)") is None


def test_a_question_has_inputs_of_its_own(tier):
    question = """\
y = torch.ones(2, device='cuda:1') * n
[str(y.device), [f(n) for _ in range(n)]]"""
    with tier.session() as session:
        assert session.run("import torch\nn = 4\ndef f(k): return k + n") is None
        # In the notebook, n is still 4.
        assert session.ask(question, {"n": 2}) == ["cuda:1", [6, 6]]
        assert session.run("n = 5") is None
        assert session.ask("n") == 5


def test_answers_come_as_plain_data(tier):
    with tier.session() as session:
        session.run("import collections, http, numpy, torch")
        for question, data in PLAIN.items():
            assert session.ask(question) == data, question
        for question in NO_DATA:
            with pytest.raises(NoData):
                session.ask(question)
        for question in FAILING:
            with pytest.raises(Raised):
                session.ask(question)


@pytest.mark.parametrize(
    "source",
    [ALIASES + "alias()", ALIASES],
    ids=["before the question", "in the question"],
)
def test_an_alias_tells_no_other_time_and_no_other_memory(sandbox, source):
    with sandbox.session() as session:
        assert session.run(source) is None
        assert session.ask(MEASURED) == [True, 1, True]


# --- the parts of a sandbox


INSIDE = ROOT / "coursework" / "grade" / "sandbox" / "inside"


@pytest.fixture
def leave_out(monkeypatch):
    """Leaves a function out of the sandboxes that are begun then, in a copy of their code."""
    with tempfile.TemporaryDirectory(prefix="part-") as folder:
        os.chmod(folder, 0o755)
        copy = Path(folder, "inside")
        shutil.copytree(INSIDE, copy)

        def leave(module, function):
            with (copy / module).open("a") as file:
                file.write(f"\n{function} = lambda *_: None\n")
            monkeypatch.setattr("coursework.grade.sandbox.helper.HERE", Path(folder))
            monkeypatch.setattr("coursework.grade.sandbox.helpers", {})

        yield leave


def namespaces_can_be_made():
    """Tell whether this process may make a namespace; in a chroot, say, it may not."""
    run = subprocess.run(["unshare", "--user", "true"], capture_output=True)
    return run.returncode == 0


LANDLOCK = ("confine.py", "restrict")
SECCOMP = ("seccomp.py", "load")


# What a tier lets out with a part of it left out.
@pytest.mark.parametrize(
    ("name", "part", "ways"),
    [
        ("landlock", LANDLOCK, ["reads files", "lists folders", "writes files"]),
        ("landlock", SECCOMP, ["starts processes"]),
        ("bubblewrap", SECCOMP, ["starts processes"]),
    ],
    ids=["landlock without itself", "landlock's filter", "bubblewrap's filter"],
)
def test_a_tier_without_a_part_is_not_offered(name, part, ways, leave_out):
    offered(name)
    leave_out(*part)

    reason = try_out.__wrapped__(name)

    for way in ways:
        assert way in reason
    if name == "landlock" and part == SECCOMP and namespaces_can_be_made():
        assert "leaves namespaces" in reason


def test_a_daemon_that_gets_through_is_killed(tier, world, leave_out):
    """Should the filter have a hole, what it let through ends with the session."""
    leave_out(*SECCOMP)
    [daemon] = [attack for attack in ATTACKS if attack.name == "leaves a daemon"]
    with hostile_session(tier, world) as session:
        session.run(daemon.source)
        wait_until(lambda: len(processes_of(session.helper)) > 1)


# --- limits


def test_what_is_drawn_is_the_same_every_time(tier):
    draws = []
    for _ in range(2):
        with tier.session() as session:
            draws.append(session.ask(DRAWN))
    first, second = draws
    assert first == second


def test_a_session_out_of_time_stays_ended(tier):
    with tier.session() as session:
        with pytest.raises(Ended, match="time"):
            session.run("while True: pass", seconds=0.5)
        with pytest.raises(Ended, match="time"):
            session.run("1")


def test_a_session_out_of_memory_goes_on(tier):
    with tier.session(memory=256) as session:
        assert session.run("x = bytearray(300 << 20)") == "MemoryError"
        assert session.run("x = bytearray(100 << 20)") is None


STARTS_THREADS = """
import threading
never = threading.Event()
for _ in range(20):
    threading.Thread(target=never.wait, daemon=True).start()
never.wait()
"""


def test_a_session_of_too_many_threads_ends(sandbox, monkeypatch):
    monkeypatch.setattr("coursework.grade.sandbox.session.THREADS", 16)
    with sandbox.session() as session:
        with pytest.raises(Ended, match="threads"):
            session.run(STARTS_THREADS)


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
        helper_pid, agent_pid, folder = judge.stdout.readline().split()
        helper = psutil.Process(int(helper_pid))
        agent = psutil.Process(int(agent_pid))
        victims = {"judge": judge.pid, "helper": helper.pid}
        os.kill(victims[victim], signal.SIGKILL)
    wait_until(lambda: not agent.is_running())
    wait_until(lambda: not helper.is_running())
    wait_until(lambda: not Path(folder).exists())
