"""Jobs on this machine, and one run without a fault."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from launch import Job, epochs, train


@dataclass(frozen=True)
class Undisturbed:
    """A run of two processes without a fault."""

    epochs: dict[int, str]  # what it printed of each
    checkpoints: Path

    def give(self, job: Job, count: int) -> Path:
        """Let a job begin after `count` epochs of this run; return its newest checkpoint."""
        folder = job.folder / "checkpoints"
        folder.mkdir()
        for file in sorted(self.checkpoints.iterdir())[:count]:
            newest = shutil.copy(file, folder)
        return Path(newest)


@pytest.fixture(scope="session")
def undisturbed(once):
    """One run without a fault, which many tests compare with or continue."""

    def make(folder):
        folder.mkdir()
        (folder / "log.txt").write_text(train(Job(folder)))

    folder = once("undisturbed", make)
    log = (folder / "log.txt").read_text()
    return Undisturbed(epochs(log), folder / "checkpoints")


@pytest.fixture
def job(tmp_path):
    """A job on this machine without GPUs; none of its processes outlives the test."""
    job = Job(tmp_path)
    yield job
    assert job.kill() == 0, "processes were left behind"
