"""Bad input: the first rank to notice says what is wrong, and no process is left behind."""

import re
import socket

import pytest
import torch
from launch import FAULT, TRAIN, epochs, free_port

TWO = "--standalone", "--nproc-per-node", 2


def complaints(said):
    """The lines in which train.py says what is wrong, each once."""
    lines = re.findall(r"^train\.py: .*$", said, re.MULTILINE)
    assert lines, said
    return set(lines)


def ended(job, server="a"):
    """What was printed by a run that failed, when all of its processes have gone."""
    code, said = job.end(server)
    assert code != 0, said
    job.assert_gone()
    return said


def test_more_processes_than_gpus(job):
    job.machine = "simulated"
    job.torchrun("--standalone", "--nproc-per-node", 3, TRAIN, "--global-batch", 63)
    (line,) = complaints(ended(job))
    assert "no GPU" in line and "rank 2" in line


def test_nccl_without_a_gpu(job):
    job.torchrun(*TWO, TRAIN, "--backend", "nccl")
    assert any("no GPU" in line for line in complaints(ended(job)))


def test_a_port_in_use(job):
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        job.torchrun("--master-port", port, "--nproc-per-node", 2, TRAIN)
        assert re.search(rf"port: {port}, .*EADDRINUSE", ended(job))


@pytest.mark.parametrize(
    ("rank", "world", "words"),
    [
        (2, 2, "client socket has timed out after 5000ms"),  # it looks for a rank 0, in vain
        (-1, 2, "rank"),
        (0, 2, "wait timeout after 5000ms|1/2 clients joined"),  # the other was never started
        ("one", 2, "invalid literal for int.*'one'"),
    ],
)
def test_a_wrong_rank_or_world_size(job, rank, world, words):
    told = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": 0}
    met = {"MASTER_ADDR": "localhost", "MASTER_PORT": free_port()}
    job.start(TRAIN, "--timeout", 5, **told, **met)
    assert re.search(words, ended(job))


def test_an_unknown_backend(job):
    job.torchrun(*TWO, TRAIN, "--backend", "mpi")
    (line,) = {line for line in complaints(ended(job)) if "error" in line}
    assert "invalid choice: 'mpi'" in line and "nccl" in line


def test_bad_input_on_one_server_ends_the_other(job):
    meet = "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{free_port()}"
    for server, backend in (("a", "mpi"), ("b", "gloo")):
        options = "--nnodes", 2, *meet, "--nproc-per-node", 1
        job.torchrun(*options, TRAIN, "--backend", backend, "--timeout", 20, server=server)
    assert "invalid choice: 'mpi'" in ended_together(job)


def ended_together(job):
    """What two servers printed that both failed."""
    ends = [job.end(server) for server in "ab"]
    assert all(code != 0 for code, _ in ends), ends
    job.assert_gone()
    return "\n".join(said for _, said in ends)


@pytest.fixture
def checkpoint(job):
    """The newest checkpoint of a run of two processes, of two epochs."""
    job.torchrun(*TWO, TRAIN, "--epochs", 2, "--checkpoint", "checkpoints")
    assert job.end()[0] == 0
    return job.folder / "checkpoints" / "epoch-0001.pt"


def test_a_checkpoint_of_another_model_is_refused(job, checkpoint):
    state = torch.load(checkpoint)
    torch.save(state | {"fingerprint": "Sequential()"}, checkpoint)
    job.torchrun(*TWO, TRAIN, "--checkpoint", "checkpoints", "--resume")
    (line,) = complaints(ended(job))
    assert "checkpoints" in line and "another model" in line


def test_a_checkpoint_of_another_world_size_is_taken(job, checkpoint):
    job.torchrun("--nproc-per-node", 1, TRAIN, "--checkpoint", "checkpoints", "--resume")
    code, said = job.end()
    assert code == 0, said
    assert sorted(epochs(said)) == [2, 3]
    job.assert_gone()


def test_two_ranks_that_share_a_gpu(job):
    job.machine = "simulated"
    job.torchrun(*TWO, FAULT, "shared", TRAIN, "--timeout", 10)
    said = ended(job)
    assert re.search(r"Duplicate GPU detected\s?: rank \d and rank \d both on CUDA device", said)
