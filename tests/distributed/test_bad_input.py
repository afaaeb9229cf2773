"""Bad input: the first rank to notice says what is wrong, and no process is left behind."""

import re

import pytest
from launch import FAULT, TRAIN, TWO, epochs, free_port

RESUME = TRAIN, "--checkpoint", "checkpoints", "--resume"


def complaint(job):
    (line,) = re.findall(r"^train\.py: (.*)$", job.fail(), re.MULTILINE)
    return line


@pytest.mark.full
@pytest.mark.parametrize(
    ("machine", "ranks", "options", "line"),
    [
        ("cpu", 2, ("--global-batch", 63), "0: --global-batch is no multiple of 2 up to 1437"),
        ("simulated", 3, ("--global-batch", 63), "2: no GPU, start 2 at most"),
        ("cpu", None, ("--backend", "mpi"), "0: --backend is nccl or gloo"),
        ("cpu", None, ("--backend", "nccl"), "0: no GPU, start 0 at most"),
        ("cpu", None, ("--resume",), "0: --resume needs --checkpoint"),
    ],
)
def test_an_option_that_cannot_be_is_said_once(job, machine, ranks, options, line):
    job.machine = machine
    if ranks:
        job.torchrun(*TWO[:-1], ranks, TRAIN, *options)
    else:  # by one process, which is started sooner
        job.start(TRAIN, *options, RANK=0, WORLD_SIZE=1, LOCAL_RANK=0)
    assert complaint(job) == f"rank {line}"


@pytest.mark.parametrize(
    ("rank", "world", "words"),
    [
        ("-1", 2, "RANK is not below WORLD_SIZE, 2$"),
        # It looks for a rank 0, in vain; the other was never started.
        pytest.param("1", 2, "has timed out after 5000ms", marks=pytest.mark.full),
        pytest.param("0", 2, "wait timeout after 5000ms|1/2 clients", marks=pytest.mark.full),
    ],
)
def test_a_wrong_rank_or_world_size(job, rank, world, words):
    told = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": 0}
    met = {"MASTER_ADDR": "localhost", "MASTER_PORT": free_port()}
    job.start(TRAIN, "--timeout", 5, **told, **met)
    assert re.search(rf"^rank {rank}: .*({words})", complaint(job))


@pytest.mark.full
def test_a_rank_that_never_arrives(job):
    job.torchrun(*TWO, FAULT, "absent", TRAIN, "--timeout", 5)
    assert re.search(r"^rank 0: .*wait timeout after 5000ms, keys: \S+/1$", complaint(job))


@pytest.mark.full
def test_a_folder_of_another_run_is_refused_and_one_that_is_done_says_so(job, undisturbed):
    undisturbed.give(job, 2)
    job.torchrun(*TWO, *RESUME, "--seed", 1)
    assert complaint(job) == "rank 0: checkpoints is of another seed"
    job.torchrun(*TWO, *RESUME, "--epochs", 2)
    assert "checkpoints has every epoch, nothing left to do" in job.succeed()


@pytest.mark.full
def test_a_checkpoint_of_another_world_size_is_taken(job, undisturbed):
    undisturbed.give(job, 2)
    job.torchrun(*TWO[:-1], 1, *RESUME)
    assert sorted(epochs(job.succeed())) == [2, 3]
