"""Bad input: the first rank to notice says what is wrong, and no process is left behind."""

import re

import pytest
import torch
from launch import TRAIN, TWO, epochs, free_port

RESUME = TRAIN, "--checkpoint", "checkpoints", "--resume"
ALONE = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "MASTER_ADDR": "localhost"}
FULL = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (40000, 40000)); "
FULL += "del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"


def complaint(job):
    (line,) = re.findall(r"^train\.py: (.*)$", job.fail(), re.MULTILINE)
    return line


@pytest.mark.full
@pytest.mark.parametrize(
    ("machine", "ranks", "options", "line"),
    [
        (
            "cpu",
            2,
            ("--global-batch", 63),
            "0: --global-batch is no multiple of 2 up to 1437",
        ),
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
        job.start(TRAIN, *options, **ALONE)
    assert complaint(job) == f"rank {line}"


@pytest.mark.parametrize(
    ("rank", "world", "words"),
    [
        ("-1", 2, "RANK is not below WORLD_SIZE, 2$"),
        # It looks for a rank 0, in vain; the other was never started.
        pytest.param("1", 2, "has timed out after 5000ms", marks=pytest.mark.full),
        pytest.param(
            "0", 2, "wait timeout after 5000ms|1/2 clients", marks=pytest.mark.full
        ),
    ],
)
def test_a_wrong_rank_or_world_size(job, rank, world, words):
    told = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": 0}
    met = {"MASTER_ADDR": "localhost", "MASTER_PORT": free_port()}
    job.start(TRAIN, "--timeout", 5, **told, **met)
    assert re.search(rf"^rank {rank}: .*({words})", complaint(job))


@pytest.mark.full
def test_a_process_without_a_rank_and_a_disk_with_room_for_40_kb(job):
    job.start(*RESUME)
    assert complaint(job) == "no RANK; start it by torchrun"
    job.start("-c", FULL, *RESUME, MASTER_PORT=free_port(), **ALONE)
    why = r"rank 0: cannot write checkpoints/part, \d+ MiB free: \w+: .+"
    assert re.fullmatch(why, complaint(job))
    assert "no checkpoint in checkpoints, starting\n" in job.said()


@pytest.mark.full
def test_a_folder_of_another_run_is_refused_and_one_that_is_done_says_so(
    job, undisturbed
):
    newest = undisturbed.give(job, 2)
    job.start(*RESUME, "--epochs", 2, MASTER_PORT=free_port(), **ALONE)
    assert "checkpoints has every epoch, nothing left to do" in job.succeed()
    state = torch.load(newest)
    for other in "net", "seed", "batch":
        torch.save(state | {"run": state["run"] | {other: 1}}, newest)
        job.start(*RESUME, **ALONE)
        assert complaint(job) == f"rank 0: checkpoints is of another {other}"


@pytest.mark.full
def test_a_checkpoint_of_another_world_size_is_taken_and_old_ones_go(job, undisturbed):
    undisturbed.give(job, 2)
    job.torchrun(*TWO[:-1], 1, *RESUME, "--epochs", 6)
    assert sorted(epochs(job.succeed())) == [2, 3, 4, 5]
    left = sorted(file.name for file in (job.folder / "checkpoints").iterdir())
    assert left == [f"epoch-{epoch:04}.pt" for epoch in (2, 3, 4, 5)]
