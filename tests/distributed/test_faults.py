"""Faults that training survives, or that end it with words that say why and no process left."""

import pytest
from launch import AGAIN, FAULT, LONGEST, TRAIN, TWO, epochs, free_port, train, wait

SOON = 10  # seconds; on a busy machine a rank that is well may come that late
TRAINING = TRAIN, "--checkpoint", "checkpoints", "--resume"


@pytest.mark.full
def test_simulated_gpus_train_to_the_end(job):
    job.machine = "simulated"
    train(job)


def test_a_killed_worker_is_started_again_and_nothing_is_lost(job, undisturbed):
    job.torchrun(*TWO, "--max-restarts", 1, FAULT, "killed", *TRAINING, **AGAIN)
    said = job.succeed()
    assert "exitcode: -9" in said and "local_rank: 1" in said
    assert epochs(said) == undisturbed.epochs
    assert said.count("epoch 0:") == 1, "the first epoch was in a checkpoint"


LATE = f"Timed out waiting {SOON}000ms for recv operation to complete"


@pytest.mark.full
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("killed", ["Signal 9 (SIGKILL) received"]),
        ("stopped", [LATE]),
        ("shape", ["Is there a distributed collective mismatch in your code?"]),
        ("order", [LATE, ", in order\n"]),
    ],
)
def test_a_fault_of_one_rank_ends_them_all(job, fault, words):
    # train.py flushes by itself what it says of the first epoch.
    job.torchrun(*TWO, FAULT, fault, TRAIN, "--timeout", SOON, PYTHONUNBUFFERED="")
    said = job.fail()
    assert [text for text in words if text not in said] == [] and sorted(epochs(said)) == [0]


@pytest.mark.full
def test_a_checkpoint_cut_short_is_passed_over(job, undisturbed):
    newest = undisturbed.give(job, 3)
    newest.write_bytes(newest.read_bytes()[:1000])
    job.torchrun(*TWO, *TRAINING)
    said = job.succeed()
    assert "cannot read epoch-0002.pt: PytorchStreamReader failed" in said
    assert sorted(epochs(said)) == [2, 3] and epochs(said).items() <= undisturbed.epochs.items()


def two_servers(job, *command, nodes="1:2"):
    """Start the agents `a`, at which they meet, and `b`, which a fault may strike."""
    port = free_port()
    for server in "ab":
        spared = {"SPARED": 1} if server == "a" else {}
        options = join(port, nodes, host=server == "a")
        job.torchrun(*options, *command, server=server, **AGAIN, **spared)
    return port


def join(port, nodes, host=False):
    """The options of an agent with one process that meets the others at a port.

    The store is at the `host`: else the first to come would open it, be it the one that is lost.
    """
    conf = "last_call_timeout=10,keep_alive_interval=2,keep_alive_max_attempt=4"
    conf += f",is_host={int(host)}"
    meet = "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}", "--rdzv-conf", conf
    return "--nnodes", nodes, *meet, "--nproc-per-node", 1, "--max-restarts", 2


def all_said(job):
    """What all servers have printed."""
    return "\n".join(job.said(server) for server in job.agents)


def lose(job, server):
    """Wait until the rank of `b` stands still in mid-epoch, then cut a server's power."""
    wait(lambda: (job.folder / "stopped").exists(), LONGEST, lambda: all_said(job))
    assert len(job.alive(server)) == 2  # an agent and its worker
    job.kill(server)


@pytest.mark.full
def test_two_servers_agree_with_one(job, undisturbed):
    two_servers(job, TRAIN, nodes=2)
    assert [job.end(server)[0] for server in "ab"] == [0, 0], all_said(job)
    assert epochs(all_said(job)) == undisturbed.epochs
    job.assert_gone()


@pytest.mark.full
def test_training_goes_on_without_a_server_that_is_lost(job, undisturbed):
    two_servers(job, FAULT, "stopped", *TRAINING)
    lose(job, "b")
    said = job.succeed()
    assert sorted(epochs(said)) == [0, 1, 2, 3] and said.count("epoch 0:") == 1
    here, there = (float(found[3].split()[-1]) for found in (epochs(said), undisturbed.epochs))
    assert here == pytest.approx(there, abs=0.01)  # accuracies


@pytest.mark.full
def test_a_server_that_was_lost_is_waited_for_and_taken_in(job, undisturbed):
    port = two_servers(job, FAULT, "stopped", *TRAINING, nodes=2)
    lose(job, "b")
    job.torchrun(*join(port, 2), *TRAINING, server="c", **AGAIN)
    ends = {server: job.end(server)[0] for server in "ac"}
    assert ends == {"a": 0, "c": 0}, all_said(job)
    assert epochs(all_said(job)) == undisturbed.epochs
    job.assert_gone()


@pytest.mark.full
def test_losing_the_server_where_they_meet_ends_the_others(job):
    two_servers(job, FAULT, "stopped", *TRAINING)
    lose(job, "a")
    assert "RendezvousConnectionError" in job.fail("b")
