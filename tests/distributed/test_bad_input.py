"""Bad input: the first rank to notice says what is wrong, and no process is left behind."""

import re

import pytest
import torch
from launch import TRAIN, TWO, epochs, free_port

RESUME = (TRAIN, "--checkpoint", "checkpoints", "--resume")
ONE = ("--standalone", "--nproc-per-node", 1)
THREE = ("--standalone", "--nproc-per-node", 3)
# What torchrun tells a process that is alone.
ALONE = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "MASTER_ADDR": "localhost"}
# Run a script on a disk that has room for files of 40 kB.
ON_A_FULL_DISK = """\
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (40000, 40000))
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name='__main__')
"""


def complaint(job):
    """Return the one line that train.py prints when it fails."""
    [line] = re.findall(r"^train\.py: (.*)$", job.fail(), re.M)
    return line


@pytest.mark.full
def test_a_batch_that_ranks_cannot_share_is_refused(job):
    job.torchrun(*TWO, TRAIN, "--global-batch", 63)
    assert complaint(job) == "rank 0: --global-batch is no multiple of 2 up to 1437"


@pytest.mark.full
def test_a_rank_without_a_gpu_is_refused(job):
    job.machine = "simulated"
    job.torchrun(*THREE, TRAIN, "--global-batch", 63)
    assert complaint(job) == "rank 2: no GPU, start 2 at most"


@pytest.mark.full
@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--backend", "mpi"], "rank 0: --backend is nccl or gloo"),
        (["--backend", "nccl"], "rank 0: no GPU, start 0 at most"),
        (["--resume"], "rank 0: --resume needs --checkpoint"),
    ],
)
def test_an_option_that_cannot_be_is_refused(job, options, line):
    # One process is started sooner than torchrun.
    job.start(TRAIN, *options, **ALONE)
    assert complaint(job) == line


# It looks for a rank 0, or for a rank 1, in vain.
@pytest.mark.parametrize(
    ("rank", "words"),
    [
        ("-1", "RANK is not below WORLD_SIZE, 2$"),
        pytest.param("1", "has timed out after 5000ms", marks=pytest.mark.full),
        pytest.param(
            "0", "(wait timeout after 5000ms|1/2 clients)", marks=pytest.mark.full
        ),
    ],
)
def test_a_wrong_rank_or_world_size(job, rank, words):
    variables = {
        "RANK": rank,
        "WORLD_SIZE": 2,
        "LOCAL_RANK": 0,
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": free_port(),
    }
    job.start(TRAIN, "--timeout", 5, **variables)
    assert re.search(f"^rank {rank}: .*{words}", complaint(job))


@pytest.mark.full
def test_a_process_without_a_rank_is_refused(job):
    job.start(*RESUME)
    assert complaint(job) == "no RANK; start it by torchrun"


@pytest.mark.full
def test_a_disk_that_is_full_is_named(job):
    job.start("-c", ON_A_FULL_DISK, *RESUME, MASTER_PORT=free_port(), **ALONE)
    reason = r"rank 0: cannot write checkpoints/part, \d+ MiB free: \w+: .+"
    assert re.fullmatch(reason, complaint(job))
    assert "no checkpoint in checkpoints, starting\n" in job.log()


@pytest.mark.full
def test_a_run_that_is_done_says_so(job, undisturbed):
    undisturbed.give(job, 2)
    job.start(*RESUME, "--epochs", 2, MASTER_PORT=free_port(), **ALONE)
    assert "checkpoints has every epoch, nothing left to do" in job.succeed()


@pytest.mark.full
@pytest.mark.parametrize("setting", ["net", "seed", "batch"])
def test_checkpoints_of_another_run_are_refused(job, undisturbed, setting):
    newest = undisturbed.give(job, 2)
    checkpoint = torch.load(newest)
    checkpoint["run"][setting] = 1
    torch.save(checkpoint, newest)
    job.start(*RESUME, **ALONE)
    assert complaint(job) == f"rank 0: checkpoints is of another {setting}"


@pytest.mark.full
def test_a_checkpoint_of_another_world_size_is_taken(job, undisturbed):
    undisturbed.give(job, 2)
    job.torchrun(*ONE, *RESUME, "--epochs", 6)
    assert sorted(epochs(job.succeed())) == [2, 3, 4, 5]
    names = [file.name for file in (job.folder / "checkpoints").iterdir()]
    assert sorted(names) == [
        "epoch-0002.pt",
        "epoch-0003.pt",
        "epoch-0004.pt",
        "epoch-0005.pt",
    ]
