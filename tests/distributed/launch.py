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
TWO = "--standalone", "--nproc-per-node", 2
MARK = "WHOSE_TEST"
PATIENCE = 30  # seconds in which every process of a run that failed is gone
LONGEST = (
    300  # seconds that a run may take on a busy machine before the test gives it up
)
# Workers that are started again must not meet at the addresses of those before them, which the
# store that torchrun keeps still holds: https://github.com/pytorch/pytorch/issues/135712.
AGAIN = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
MACHINES = {  # what the processes of a run see
    "cpu": {"CUDA_VISIBLE_DEVICES": "-1"},
    "simulated": {"CUDASIM_GPUS": "2", "CUDASIM_QUIET": "1"},
}


def written_by_the_chapter() -> str:
    """The script that readers have when they have executed the chapter."""
    chapter = read(ROOT / "notebooks" / "many-processes-many-servers.ipynb")
    cells = (cell.source.partition("\n") for cell in chapter.cells)
    parts = [
        body for magic, _, body in cells if re.match("%%writefile .*train.py$", magic)
    ]
    return "".join(part.removesuffix("\n") + "\n" for part in parts)


TRAIN.write_text(written_by_the_chapter(), encoding="utf-8")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@dataclass
class Job:
    folder: Path  # working directory, and where outputs are written
    machine: str = "cpu"
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    agents: dict[str, subprocess.Popen] = field(default_factory=dict)
    outputs: dict[str, Path] = field(default_factory=dict)

    def start(
        self, *command: object, server: str = "a", **variables: object
    ) -> subprocess.Popen:
        """Start `python *command` as the agent of a server; variables go to its environment."""
        path = [CUDASIM / "cudasim" / "inherit", CUDASIM, self.folder]
        environ = {
            name: os.environ[name] for name in os.environ if name[:7] != "CUDASIM"
        }
        environ |= {
            "PYTHONPATH": os.pathsep.join(map(str, path)),
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            **MACHINES[self.machine],
            **{name: str(value) for name, value in variables.items()},
            MARK: f"{self.mark}-{server}",
        }
        self.outputs[server] = self.folder / f"{server}-{len(self.agents)}.log"
        options = {"cwd": self.folder, "env": environ, "start_new_session": True}
        words = [sys.executable, *map(str, command)]
        with self.outputs[server].open("w") as output:
            streams = {"stdout": output, "stderr": subprocess.STDOUT}
            self.agents[server] = subprocess.Popen(words, **options, **streams)
        return self.agents[server]

    def torchrun(
        self, *options: object, server: str = "a", **variables: object
    ) -> None:
        self.start("-m", "torch.distributed.run", *options, server=server, **variables)

    def alive(self, server: str = "") -> list[psutil.Process]:
        """The processes of this job, or of one of its servers, that run now."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):  # another user's, or gone by now
                if process.environ().get(MARK, "").startswith(f"{self.mark}-{server}"):
                    found += (
                        [process] if process.status() != psutil.STATUS_ZOMBIE else []
                    )
        return found

    def kill(self, server: str = "") -> int:
        """End a server as a power cut does, or all that is left; returns how many it ran."""
        processes = self.alive(server)
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        return len(processes)

    def said(self, server: str = "a") -> str:
        return re.sub(
            r"\x1b\[[0-9;]*m", "", self.outputs[server].read_text(errors="replace")
        )

    def end(self, server: str = "a") -> tuple[int, str]:
        """Wait until a server's agent has ended; its exit code, and what was printed."""
        wait(
            lambda: self.agents[server].poll() is not None,
            LONGEST,
            lambda: self.said(server),
        )
        return self.agents[server].returncode, self.said(server)

    def fail(self, server: str = "a") -> str:
        return self.succeed(server, well=False)

    def succeed(self, server: str = "a", well: bool = True) -> str:
        """What was printed by a run that ended well, when all of its processes have gone."""
        code, said = self.end(server)
        assert (code == 0) == well, said
        self.assert_gone()
        return said

    def assert_gone(self) -> None:
        """No process of this job is left, at the latest `PATIENCE` seconds from now."""
        wait(lambda: not self.alive(), PATIENCE, lambda: f"left: {self.alive()}")


def wait(
    happened: Callable[[], object], seconds: float, otherwise: Callable[[], str]
) -> None:
    """Wait until something has happened; raises AssertionError with `otherwise()` if not."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"not within {seconds} s:\n{otherwise()}"
        time.sleep(0.1)


def epochs(output: str) -> dict[int, str]:
    """The last line that was printed of each epoch: `{0: "loss 1.2, accuracy 0.8"}`."""
    return {
        int(n): rest
        for n, rest in re.findall(r"^epoch (\d+): (.*)$", output, re.MULTILINE)
    }


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
    """Train with two processes to the end; what they printed. No thread of gloo is left."""
    (job.folder / "sitecustomize.py").write_text(COUNT)
    job.torchrun(*TWO, TRAIN, "--checkpoint", "checkpoints")
    said = job.succeed()
    left = sorted(re.findall(r"rank \d ends with \d threads", said))
    assert left == ["rank 0 ends with 0 threads", "rank 1 ends with 0 threads"]
    assert sorted(epochs(said)) == [0, 1, 2, 3]
    return said
