"""Start `torchrun` as a reader would, and count the processes that it leaves behind.

What is started carries a mark in its environment, which its children inherit: a process of a
run is found by the mark, whoever its parent is by now.
"""

import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from helpers import ROOT, read

HERE = Path(__file__).resolve().parent
FOLDER = tempfile.TemporaryDirectory()  # one for each process that runs tests
TRAIN = Path(FOLDER.name) / "train.py"
FAULT = HERE / "fault.py"
CUDASIM = ROOT / "cudasim" / "src"
TWO = ("--standalone", "--nproc-per-node", 2)
MARK = "WHOSE_TEST"
PATIENCE = 30  # seconds in which every process of a run that failed is gone
LONGEST = 300  # seconds that a run may take on a busy machine
# Workers that are started again must not meet at the addresses of those before them, which the
# store that torchrun keeps still holds: https://github.com/pytorch/pytorch/issues/135712.
AGAIN = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
# What the processes of a run see.
MACHINES = {
    "cpu": {"CUDA_VISIBLE_DEVICES": "-1"},
    "simulated": {"CUDASIM_GPUS": "2", "CUDASIM_QUIET": "1"},
}


def written_by_the_chapter() -> str:
    """Return the script that readers have when they have executed the chapter."""
    chapter = read(ROOT / "notebooks" / "many-processes-many-servers.ipynb")
    script = ""
    for cell in chapter.cells:
        magic, _, part = cell.source.partition("\n")
        if re.match("%%writefile .*train.py$", magic):
            script += part.removesuffix("\n") + "\n"
    return script


TRAIN.write_text(written_by_the_chapter(), encoding="utf-8")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@dataclass
class Job:
    """What a test starts: on each of its servers an agent, with the workers of that."""

    folder: Path  # working directory, and where outputs are written
    machine: str = "cpu"
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    agents: dict[str, subprocess.Popen] = field(default_factory=dict)
    logs: dict[str, Path] = field(default_factory=dict)

    def start(
        self, *command: object, server: str = "a", **variables: object
    ) -> subprocess.Popen:
        """Start `python *command` as the agent of a server; variables go to its environment."""
        log = self.folder / f"{server}-{len(self.agents)}.log"
        with log.open("w") as stream:
            agent = subprocess.Popen(
                [sys.executable, *map(str, command)],
                cwd=self.folder,
                env=self._environment(server, variables),
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.agents[server] = agent
        self.logs[server] = log
        return agent

    def _environment(self, server: str, variables: dict[str, object]) -> dict[str, str]:
        environment = {}
        for name, value in os.environ.items():
            if not name.startswith("CUDASIM"):
                environment[name] = value

        path = [CUDASIM / "cudasim" / "inherit", CUDASIM, self.folder]
        environment["PYTHONPATH"] = os.pathsep.join(map(str, path))
        environment["PYTHONUNBUFFERED"] = "1"
        environment["OMP_NUM_THREADS"] = "1"
        environment |= MACHINES[self.machine]
        environment[MARK] = f"{self.mark}-{server}"
        for name, value in variables.items():
            environment[name] = str(value)
        return environment

    def torchrun(
        self, *options: object, server: str = "a", **variables: object
    ) -> None:
        self.start("-m", "torch.distributed.run", *options, server=server, **variables)

    def alive(self, server: str = "") -> list[psutil.Process]:
        """Return the processes of this job, or of one of its servers, that run now."""
        alive = []
        for process in psutil.process_iter():
            # One may be another user's, or gone by now.
            with contextlib.suppress(psutil.Error):
                mark = process.environ().get(MARK, "")
                is_ours = mark.startswith(f"{self.mark}-{server}")
                if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                    alive.append(process)
        return alive

    def kill(self, server: str = "") -> int:
        """End a server as a power cut does, or all that is left; return how many it ran."""
        processes = self.alive(server)
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        return len(processes)

    def log(self, server: str = "a") -> str:
        """Return what the processes of a server have printed, without colours."""
        text = self.logs[server].read_text(errors="replace")
        return re.sub(r"\x1b\[[0-9;]*m", "", text)

    def wait(self, server: str = "a") -> int:
        """Wait until a server's agent has ended, and return its exit code."""
        agent = self.agents[server]
        wait(lambda: agent.poll() is not None, LONGEST, lambda: self.log(server))
        return agent.returncode

    def fail(self, server: str = "a") -> str:
        """Return what a run has printed that has failed, and left no process behind."""
        assert self.wait(server) != 0, self.log(server)
        self.assert_gone()
        return self.log(server)

    def succeed(self, server: str = "a") -> str:
        """Return what a run has printed that has ended well, and left no process behind."""
        assert self.wait(server) == 0, self.log(server)
        self.assert_gone()
        return self.log(server)

    def assert_gone(self) -> None:
        """Assert that no process is left, at the latest `PATIENCE` seconds from now."""
        wait(lambda: not self.alive(), PATIENCE, lambda: f"left: {self.alive()}")


def wait(
    happened: Callable[[], object], seconds: float, otherwise: Callable[[], str]
) -> None:
    """Wait until something has happened; raise AssertionError with `otherwise()` if not."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"not within {seconds} s:\n{otherwise()}"
        time.sleep(0.1)


def epochs(log: str) -> dict[int, str]:
    """Return the last line printed of each epoch: `{0: "loss 1.2, accuracy 0.8"}`."""
    lines = {}
    for number, rest in re.findall(r"^epoch (\d+): (.*)$", log, re.M):
        lines[int(number)] = rest
    return lines


# A thread of gloo that is left aborts a process, but only now and then: so threads are counted.
# https://github.com/pytorch/pytorch/issues/190489
COUNT = """\
import atexit, os
from pathlib import Path

def tell():
    names = [comm.read_text() for comm in Path("/proc/self/task").glob("*/comm")]
    left = sum("gloo_runloop" in name for name in names)
    os.write(1, f"rank {os.environ['RANK']} ends with {left} threads\\n".encode())

if "RANK" in os.environ:
    atexit.register(tell)
"""


def train(job: Job) -> str:
    """Train with two processes to the end; return what they printed.

    No thread of gloo is left.
    """
    (job.folder / "sitecustomize.py").write_text(COUNT)
    job.torchrun(*TWO, TRAIN, "--checkpoint", "checkpoints")
    log = job.succeed()
    counts = sorted(re.findall(r"rank \d ends with \d threads", log))
    assert counts == ["rank 0 ends with 0 threads", "rank 1 ends with 0 threads"]
    assert sorted(epochs(log)) == [0, 1, 2, 3]
    return log
