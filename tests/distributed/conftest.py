import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from launch import Job, epochs, train


class Undisturbed(NamedTuple):
    """What a run of two processes prints of each epoch, and the folder of its checkpoints."""

    epochs: dict[int, str]
    checkpoints: Path

    def give(self, job: Job, count: int) -> Path:
        """Let a job begin after `count` epochs of this run; returns its newest checkpoint."""
        folder = job.folder / "checkpoints"
        folder.mkdir()
        for file in sorted(self.checkpoints.iterdir())[:count]:
            newest = shutil.copy(file, folder)
        return Path(newest)


@pytest.fixture(scope="session")
def undisturbed(once):
    """One run without a fault, which many tests compare with or go on from."""

    def make(folder):
        folder.mkdir()
        (folder / "said.txt").write_text(train(Job(folder)))

    folder = once("undisturbed", make)
    return Undisturbed(
        epochs((folder / "said.txt").read_text()), folder / "checkpoints"
    )


@pytest.fixture
def job(tmp_path):
    """A job on this machine without GPUs; none of its processes outlives the test."""
    job = Job(tmp_path)
    yield job
    assert job.kill() == 0, "processes were left behind"
