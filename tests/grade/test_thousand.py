"""A class of mixed submissions gets what is known, however often its grader or workers are killed.

`make test FULL=1` grades 30; THOUSAND=1000 does the thousand, with twenty kills.
"""

import functools
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from crowd import crowd
from distributed import Client
from small_masters import contents

from tools.grade.store import LOCK
from tools.root import ROOT

COUNT = int(os.environ.get("THOUSAND", "30"))
KILLS = 20 if COUNT >= 1000 else 3
WORKERS = "2"
pytestmark = [pytest.mark.full, pytest.mark.usefixtures("sandbox")]


def start(folder, out, engine=WORKERS):
    """Start a grading in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, Path(__file__).with_name("crowd.py"), folder / "submissions", out, engine],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        # It heeds Ctrl-C also where these tests run in the background.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )


def written(out):
    """Every file that a grading wrote, byte for byte."""
    return {path: data for path, data in contents(out).items() if path != LOCK}


def done(out):
    return len(list((out / "results").glob("*.json")))


@pytest.fixture(scope="module")
def graded(once):
    """(folder, what must come out, the files of an undisturbed run), made once for all tests."""

    def make(folder):
        expected = crowd(folder / "submissions", COUNT)
        (folder / "expected.pickle").write_bytes(pickle.dumps(expected))
        assert start(folder, folder / "plain").wait() == 0

    folder = once("crowd", make)
    expected = pickle.loads((folder / "expected.pickle").read_bytes())
    return folder, expected, written(folder / "plain")


def test_every_submission_gets_what_is_known(graded):
    _, expected, files = graded
    results = [json.loads(data) for path, data in files.items() if path.startswith("results/")]
    assert len(results) == len(expected) == COUNT
    wrong = []
    for result in results:
        known = expected[result["student"]]
        got = {int(number): asked["points"] for number, asked in result["questions"].items()}
        if got != known if isinstance(known, dict) else known not in str(result["reason"]):
            wrong.append((result["student"], known, got, result["reason"]))
    assert not wrong
    assert sum(path.startswith("feedback/") for path in files) == COUNT


def test_interrupted_or_killed_at_any_moment_it_ends_with_the_same_bytes(graded):
    folder, _, files = graded
    rng, out, at = random.Random(20), folder / "killed", []
    for number in range(KILLS):
        process, before = start(folder, out), done(out)
        share = max(1, COUNT // (KILLS + 2))  # so that kills fall on the whole of the run
        until = before + rng.randrange(share // 2, 3 * share // 2 + 1)
        while done(out) < until and process.poll() is None:
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 0.5))  # at any point of what is under way
        workers = []
        if process.poll() is None:
            workers = psutil.Process(process.pid).children(recursive=True)
            os.killpg(process.pid, signal.SIGINT if number == 0 else signal.SIGKILL)
        assert process.wait(60) != 0 or done(out) == COUNT
        assert not psutil.wait_procs(workers, timeout=60)[1]
        assert number or not list(out.rglob("*.part"))  # Ctrl-C leaves nothing half written
        at.append(done(out))
    assert at[0] < at[-1] and at == sorted(at), at  # it went on, and lost nothing
    assert start(folder, out).wait() == 0
    assert written(out) == files


def test_dask_workers_that_are_killed_are_survived(graded):
    folder, _, files = graded
    out = folder / "dask"
    # A scheduler and workers that know nothing of this checkout.
    environment = {name: os.environ[name] for name in os.environ.keys() - {"PYTHONPATH"}}
    command = [sys.executable, str(ROOT / "course" / "dask" / "local.py"), "2"]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as cluster:
        address = cluster.stdout.readline().split("DASK=")[1].split()[0]
        with Client(address, set_as_default=False) as client:
            assert not any(client.run(lambda: "tools" in sys.modules).values())
            process = start(folder, out, address)
            for share in (0.2, 0.6):
                while done(out) < share * COUNT and process.poll() is None:
                    time.sleep(0.05)
                assert process.poll() is None, "it had ended before a worker was killed"
                os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
            assert process.wait() == 0
            where = client.run(lambda: sys.modules["tools"].__file__)
        cluster.terminate()
    assert written(out) == files
    assert all("/grading-" in path for path in where.values())  # the code that was sent
