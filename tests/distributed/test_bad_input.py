"""Bad input: the first rank to notice says what is wrong, and no process is left behind."""

import re
import socket

import pytest
import torch
from launch import FAULT, TRAIN, TWO, epochs, free_port


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
    assert line == "train.py: rank 2: no GPU, start 2 at most"


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


def one_process(job, rank, world, *options):
    """What a process says that is told which of how many it is, and ends."""
    told = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": 0}
    met = {"MASTER_ADDR": "localhost", "MASTER_PORT": free_port()}
    job.start(TRAIN, "--timeout", 5, *options, **told, **met)
    return ended(job)


@pytest.mark.parametrize(
    ("rank", "world", "words"),
    [
        (2, 2, "RANK is not below WORLD_SIZE, 2$"),
        (-1, 2, "RANK is not below WORLD_SIZE, 2$"),
        (1, 2, "client socket has timed out after 5000ms"),  # it looks for a rank 0, in vain
        (0, 2, "wait timeout after 5000ms|1/2 clients joined"),  # the other was never started
    ],
)
def test_a_wrong_rank_or_world_size(job, rank, world, words):
    (line,) = complaints(one_process(job, rank, world))
    assert re.search(rf"^train\.py: rank {rank}: .*({words})", line)


def test_a_rank_that_is_no_number(job):
    assert re.search("invalid literal for int.*'one'", one_process(job, "one", 2))


def test_a_rank_that_never_arrives(job, machine):
    job.machine = machine
    job.torchrun(*TWO, FAULT, "absent", TRAIN, "--timeout", 5)
    (line,) = complaints(ended(job))
    missing = r"wait timeout after 5000ms, keys: \S+/1$"
    assert re.search(rf"^train\.py: rank 0: {missing}", line)


def test_an_unknown_backend_is_said_once(job):
    job.torchrun(*TWO, TRAIN, "--backend", "mpi")
    said = ended(job)
    assert complaints(said) == {"train.py: rank 0: --backend is nccl or gloo"}
    assert said.count("train.py: ") == 1 and "invalid" not in said


def test_a_resume_from_nowhere_is_said_once(job):
    job.torchrun(*TWO, TRAIN, "--resume")
    assert complaints(ended(job)) == {"train.py: rank 0: --resume needs --checkpoint"}


def test_a_batch_that_cannot_be_shared_is_said_once(job):
    job.torchrun(*TWO, TRAIN, "--global-batch", 63)
    assert complaints(ended(job)) == {"train.py: rank 0: --global-batch is no multiple of 2"}


def test_bad_input_on_one_server_ends_the_other(job):
    meet = "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{free_port()}"
    for server, backend in (("a", "mpi"), ("b", "gloo")):
        options = "--nnodes", 2, *meet, "--nproc-per-node", 1
        job.torchrun(*options, TRAIN, "--backend", backend, "--timeout", 10, server=server)
    assert "--backend is nccl or gloo" in ended_together(job)


def ended_together(job):
    """What two servers printed that both failed."""
    ends = [job.end(server) for server in "ab"]
    assert all(code != 0 for code, _ in ends), ends
    job.assert_gone()
    return "\n".join(said for _, said in ends)


def test_a_checkpoint_of_another_model_is_refused(job, undisturbed):
    checkpoint = undisturbed.give(job, 2)
    state = torch.load(checkpoint)
    torch.save(state | {"fingerprint": "Sequential()"}, checkpoint)
    job.torchrun(*TWO, TRAIN, "--checkpoint", "checkpoints", "--resume")
    (line,) = complaints(ended(job))
    assert "checkpoints" in line and "another model" in line


def test_a_checkpoint_of_another_world_size_is_taken(job, undisturbed):
    undisturbed.give(job, 2)
    job.torchrun(
        "--standalone", "--nproc-per-node", 1, TRAIN, "--checkpoint", "checkpoints", "--resume"
    )
    code, said = job.end()
    assert code == 0, said
    assert sorted(epochs(said)) == [2, 3]
    job.assert_gone()


def test_two_ranks_that_share_a_gpu(job):
    job.machine = "simulated"
    job.torchrun(*TWO, FAULT, "shared", TRAIN)
    said = ended(job)
    assert re.search(r"Duplicate GPU detected\s?: rank \d and rank \d both on CUDA device", said)
