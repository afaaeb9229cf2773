"""Bad input: the first rank to notice says what is wrong, and no process is left behind."""

import re
import socket

import pytest
import torch
from launch import FAULT, TRAIN, TWO, epochs, free_port

RESUME = TRAIN, "--checkpoint", "checkpoints", "--resume"


def complaint(job, server="a"):
    """The one line in which a train.py that failed says why, once; its processes are gone."""
    (line,) = re.findall(r"^train\.py: (.*)$", job.fail(server), re.MULTILINE)
    return line


THREE = "--standalone", "--nproc-per-node", 3


@pytest.mark.parametrize(
    ("machine", "started", "line"),
    [
        ("cpu", (*TWO, TRAIN, "--global-batch", 63), "0: --global-batch is no multiple of 2"),
        ("cpu", (*TWO, TRAIN, "--backend", "mpi"), "0: --backend is nccl or gloo"),
        ("cpu", (*TWO, TRAIN, "--resume"), "0: --resume needs --checkpoint"),
        ("cpu", (*TWO[:-1], 1, TRAIN, "--backend", "nccl"), "0: no GPU, start 0 at most"),
        ("simulated", (*THREE, TRAIN, "--global-batch", 63), "2: no GPU, start 2 at most"),
    ],
    ids=["batch", "backend", "resume", "nccl", "gpus"],
)
@pytest.mark.full
def test_an_option_that_cannot_be_is_said_once(job, machine, started, line):
    job.machine = machine
    job.torchrun(*started)
    assert complaint(job) == f"rank {line}"


@pytest.mark.parametrize(
    ("rank", "world", "words"),
    [
        ("-1", 2, "RANK is not below WORLD_SIZE, 2$"),
        pytest.param("2", 2, "RANK is not below WORLD_SIZE, 2$", marks=pytest.mark.full),
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
def test_a_port_in_use(job):
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        job.torchrun("--master-port", port, "--nproc-per-node", 2, TRAIN)
        assert re.search(rf"port: {port}, .*EADDRINUSE", job.fail())


@pytest.mark.full
@pytest.mark.parametrize("machine", ["cpu", "simulated"])
def test_a_rank_that_never_arrives(job, machine):
    job.machine = machine
    job.torchrun(*TWO, FAULT, "absent", TRAIN, "--timeout", 5)
    assert re.search(r"^rank 0: .*wait timeout after 5000ms, keys: \S+/1$", complaint(job))


@pytest.mark.full
def test_bad_input_on_one_server_ends_the_other(job):
    meet = "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{free_port()}"
    for server, backend in (("a", "mpi"), ("b", "gloo")):
        options = "--nnodes", 2, *meet, "--nproc-per-node", 1
        job.torchrun(*options, TRAIN, "--backend", backend, "--timeout", 10, server=server)
    ends = [job.end(server) for server in "ab"]
    assert all(code != 0 for code, _ in ends), ends
    assert "--backend is nccl or gloo" in "".join(said for _, said in ends)
    job.assert_gone()


@pytest.mark.full
def test_a_checkpoint_of_another_model_is_refused(job, undisturbed):
    checkpoint = undisturbed.give(job, 2)
    state = torch.load(checkpoint)
    torch.save(state | {"fingerprint": "Sequential()"}, checkpoint)
    job.torchrun(*TWO, *RESUME)
    line = complaint(job)
    assert "checkpoints" in line and "another model" in line


@pytest.mark.full
def test_a_checkpoint_of_another_world_size_is_taken(job, undisturbed):
    undisturbed.give(job, 2)
    job.torchrun(*TWO[:-1], 1, *RESUME)
    assert sorted(epochs(job.succeed())) == [2, 3]


@pytest.mark.full
def test_two_ranks_that_share_a_gpu(job):
    job.machine = "simulated"
    job.torchrun(*TWO, FAULT, "shared", TRAIN)
    assert re.search(r"Duplicate GPU detected\s?: rank \d and rank \d both on", job.fail())
