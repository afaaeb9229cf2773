"""Faults that training survives, or that end it with words that say why and no process left."""

from dataclasses import dataclass, field

import pytest
import torch
from launch import AGAIN, FAULT, LONGEST, TRAIN, TWO, Job, epochs, free_port, wait

SOON = 10  # seconds; on a busy machine a rank that is well may come that late
TRAINING = TRAIN, "--checkpoint", "checkpoints", "--resume"


def test_a_killed_worker_is_started_again_and_nothing_is_lost(job, undisturbed):
    # torchrun's own restart goes on from a checkpoint unasked.
    job.torchrun(*TWO, "--max-restarts", 1, FAULT, "killed", *TRAINING[:-1], **AGAIN)
    said = job.succeed()
    assert "exitcode: -9" in said and "local_rank: 1" in said
    assert epochs(said) == undisturbed.epochs
    assert said.count("epoch 0:") == 1, "the first epoch was in a checkpoint"


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
    said = job.fail()
    assert [text for text in words if text not in said] == [] and sorted(
        epochs(said)
    ) == [0]


@pytest.mark.full
def test_a_checkpoint_cut_short_or_of_another_script_is_passed_over(job, undisturbed):
    newest = undisturbed.give(job, 3)
    newest.write_bytes(newest.read_bytes()[:1000])
    torch.save({"epoch": 7}, newest.with_name("epoch-0007.pt"))
    job.torchrun(*TWO, *TRAINING)
    said = job.succeed()
    assert "cannot read epoch-0007.pt: AssertionError: it is not of train.py\n" in said
    assert "cannot read epoch-0002.pt: RuntimeError: PytorchStreamReader failed" in said
    assert (
        sorted(epochs(said)) == [2, 3]
        and epochs(said).items() <= undisturbed.epochs.items()
    )


@pytest.mark.full
def test_ranks_end_with_their_launcher(job):
    job.torchrun(*TWO, FAULT, "stopped", TRAIN)
    wait((job.folder / "stopped").exists, LONGEST, job.said)
    job.agents["a"].kill()
    job.assert_gone()


@dataclass
class Servers:
    """Servers of one process each that meet at a port; a fault stops the rank of `b`."""

    job: Job
    nodes: object  # how many they are, or from how many to how many
    port: int = field(default_factory=free_port)

    def start(self, server, *command):
        # The store is at `a`: else the first to come would open it, be it the one that is lost.
        conf = "last_call_timeout=10,keep_alive_interval=2,keep_alive_max_attempt=4,"
        conf += f"is_host={int(server == 'a')}"
        meet = "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{self.port}"
        options = (
            "--nnodes",
            self.nodes,
            *meet,
            "--rdzv-conf",
            conf,
            "--max-restarts",
            2,
        )
        spared = {"SPARED": 1} if server == "a" else {}
        self.job.torchrun(*options, *command, server=server, **AGAIN, **spared)

    def lose(self, server):
        """Start both; when `b` stands still in mid-epoch, cut a server's power."""
        for name in "ab":
            self.start(name, FAULT, "stopped", *TRAINING)
        wait((self.job.folder / "stopped").exists, LONGEST, self.said)
        assert len(self.job.alive(server)) == 2  # an agent and its worker
        self.job.kill(server)

    def said(self):
        return "\n".join(self.job.said(server) for server in self.job.agents)


@pytest.mark.full
def test_training_goes_on_without_a_server_that_is_lost(job, undisturbed):
    Servers(job, "1:2").lose("b")
    said = job.succeed()
    assert sorted(epochs(said)) == [0, 1, 2, 3] and said.count("epoch 0:") == 1
    here, there = (
        float(found[3].split()[-1]) for found in (epochs(said), undisturbed.epochs)
    )
    assert here == pytest.approx(there, abs=0.01)  # accuracies


@pytest.mark.full
def test_a_server_that_was_lost_is_waited_for_and_taken_in(job, undisturbed):
    servers = Servers(job, 2)
    servers.lose("b")
    servers.start("c", *TRAINING)
    assert [job.end(server)[0] for server in "ac"] == [0, 0], servers.said()
    assert epochs(servers.said()) == undisturbed.epochs
    job.assert_gone()


@pytest.mark.full
def test_losing_the_server_where_they_meet_ends_the_others(job):
    Servers(job, "1:2").lose("a")
    assert "RendezvousConnectionError" in job.fail("b")
