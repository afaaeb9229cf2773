"""Faults that training survives, or that end it with words that say why and no process left."""

import pytest
import torch
from launch import AGAIN, FAULT, LONGEST, TRAIN, TWO, Job, epochs, free_port, wait

SOON = 10  # seconds; on a busy machine a rank that is well may come that late
TRAINING = (TRAIN, "--checkpoint", "checkpoints")


def test_a_killed_worker_is_started_again_and_nothing_is_lost(job, undisturbed):
    # torchrun's own restart goes on from a checkpoint unasked.
    job.torchrun(*TWO, "--max-restarts", 1, FAULT, "killed", *TRAINING, **AGAIN)
    log = job.succeed()
    assert "exitcode: -9" in log
    assert "local_rank: 1" in log
    assert epochs(log) == undisturbed.epochs
    assert log.count("epoch 0:") == 1, "the first epoch was in a checkpoint"


LATE = f"Timed out waiting {SOON}000ms for recv operation to complete"


@pytest.mark.full
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("stopped", [LATE]),
        ("shape", ["Is there a distributed collective mismatch in your code?"]),
        ("order", [LATE, ", in order\n"]),
    ],
)
def test_a_fault_of_one_rank_ends_them_all(job, fault, words):
    # train.py flushes by itself what it says of the first epoch.
    job.torchrun(*TWO, FAULT, fault, TRAIN, "--timeout", SOON, PYTHONUNBUFFERED="")
    log = job.fail()
    for part in words:
        assert part in log
    assert sorted(epochs(log)) == [0]


@pytest.mark.full
def test_a_checkpoint_that_does_not_fit_is_passed_over(job, undisturbed):
    newest = undisturbed.give(job, 3)
    newest.write_bytes(newest.read_bytes()[:1000])
    torch.save({"epoch": 7}, newest.with_name("epoch-0007.pt"))
    job.torchrun(*TWO, *TRAINING, "--resume")
    log = job.succeed()
    assert "cannot read epoch-0007.pt: AssertionError: it is not of train.py\n" in log
    assert "cannot read epoch-0002.pt: RuntimeError: PytorchStreamReader failed" in log
    assert sorted(epochs(log)) == [2, 3]
    assert epochs(log).items() <= undisturbed.epochs.items()


@pytest.mark.full
def test_ranks_end_with_their_launcher(job):
    job.torchrun(*TWO, FAULT, "stopped", TRAIN)
    wait((job.folder / "stopped").exists, LONGEST, job.log)
    job.agents["a"].kill()
    job.assert_gone()


class Servers:
    """Servers of one process each that meet at a port; a fault stops the rank of `b`."""

    def __init__(self, job: Job, nodes: object):
        """`nodes` says how many they are, or from how many to how many."""
        self.job = job
        self.nodes = nodes
        self.port = free_port()

    def start(self, server, *command):
        # The store is at `a`: else the first to come would open it, maybe the one that is lost.
        conf = "last_call_timeout=10,keep_alive_interval=2,keep_alive_max_attempt=4"
        is_host = int(server == "a")
        options = {
            "--nnodes": self.nodes,
            "--rdzv-backend": "c10d",
            "--rdzv-endpoint": f"localhost:{self.port}",
            "--rdzv-conf": f"{conf},is_host={is_host}",
            "--max-restarts": 2,
        }
        words = [word for option in options.items() for word in option]
        variables = dict(AGAIN)
        if server == "a":
            variables["SPARED"] = 1
        self.job.torchrun(*words, *command, server=server, **variables)

    def lose(self, server):
        """Start both; when `b` stands still in mid-epoch, cut a server's power."""
        for name in ("a", "b"):
            self.start(name, FAULT, "stopped", *TRAINING, "--resume")
        wait((self.job.folder / "stopped").exists, LONGEST, self.log)
        agent_and_worker = self.job.alive(server)
        assert len(agent_and_worker) == 2
        self.job.kill(server)

    def log(self):
        return "\n".join(self.job.log(server) for server in self.job.agents)


def accuracy(epoch):
    """Return the number at the end of what was printed of an epoch."""
    return float(epoch.split()[-1])


@pytest.mark.full
def test_training_goes_on_without_a_server_that_is_lost(job, undisturbed):
    Servers(job, "1:2").lose("b")
    log = job.succeed()
    assert sorted(epochs(log)) == [0, 1, 2, 3]
    assert log.count("epoch 0:") == 1
    expected = accuracy(undisturbed.epochs[3])
    assert accuracy(epochs(log)[3]) == pytest.approx(expected, abs=0.01)


@pytest.mark.full
def test_a_server_that_was_lost_is_waited_for_and_taken_in(job, undisturbed):
    servers = Servers(job, 2)
    servers.lose("b")
    servers.start("c", *TRAINING, "--resume")
    assert job.wait("a") == 0, servers.log()
    assert job.wait("c") == 0, servers.log()
    assert epochs(servers.log()) == undisturbed.epochs
    job.assert_gone()


@pytest.mark.full
def test_losing_the_server_where_they_meet_ends_the_others(job):
    Servers(job, "1:2").lose("a")
    assert "RendezvousConnectionError" in job.fail("b")
