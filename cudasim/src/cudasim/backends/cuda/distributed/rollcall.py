"""The roll call before a collective: who is there, on which GPU, and what it asks for.

NCCL checks nothing between ranks once it runs: ranks that disagree hang until the watchdog's
timeout. Here every rank writes one line into the group's store and reads those of the others,
so that all of them see what is wrong, at once, and a rank that is missing has a name.
"""

import functools
import json
import os
import socket
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist

from cudasim.backends.cuda.distributed import errors
from cudasim.device.gpu import GPU
from cudasim.session import session

CHECKS = "CUDASIM_DISTRIBUTED_CHECKS"  # environment variable; 0: no roll call, no fingerprints
KEPT = 64  # roll calls whose lines stay in the store, before they are deleted in one go
LONG = 0.5  # seconds without an answer, after which a rank's process is looked for


class Arrival(NamedTuple):
    """What one rank says when it comes to a collective."""

    host: str
    pid: int
    card: int | None  # the number of its GPU on that host; None for tensors on the CPU
    key: list  # what must be the same on every rank
    text: str  # the same in words


class Roll:
    """The roll calls of one process group, as one of its ranks sees them.

    Its store is a connection of its own: a rank that waits here holds up no other thread.
    """

    def __init__(self, group: dist.ProcessGroup, bound: GPU | None = None) -> None:
        """A roll of `group`, whose ranks are bound to the GPU `bound`, if not None."""
        store = group.get_group_store()
        # A second life of the processes' groups meets no line of the first.
        prefix = f"cudasim/{session.lives}/{group.group_name}"
        self.store = dist.PrefixStore(prefix, clone(store))
        self.ranks = dist.get_process_group_ranks(group)
        self.name = group.group_name
        self.rank, self.size = group.rank(), group.size()
        self.timeout: timedelta = group._get_backend(torch.device("cpu")).options._timeout
        self.bound = bound
        self.barrier_gpu: GPU | None = None  # that `barrier(device_ids=)` names
        self.count = 0  # collectives so far
        self.introduced: dict[int, set[int]] = {}  # card -> peers of send and recv that it met
        self.store.set(f"here/{self.rank}", json.dumps([host(), os.getpid()]))

    def arrival(self, card: int | None, key: list, text: str) -> Arrival:
        """This rank's arrival."""
        return Arrival(host(), os.getpid(), card, key, text)

    def call(self, arrival: Arrival, work: str) -> list[Arrival]:
        """Every rank's arrival, in the order of ranks. Waits for all of them, as NCCL does.

        Raises DistBackendError if one does not come before the timeout, or has ended. `work` is
        what the error calls the collective.
        """
        number = self.count
        self.count += 1
        keys = [f"{number}/{rank}" for rank in range(self.size)]
        self.store.set(keys[self.rank], json.dumps(arrival))
        found = [Arrival(*json.loads(line)) for line in self.wait_for(keys, work)]
        if self.count % KEPT == 0:  # all have read what came before this one
            for old in range(number - KEPT, number):
                self.store.delete_key(f"{old}/{self.rank}")
        return found

    def introduce(self, arrival: Arrival, peer: int, work: str) -> Arrival | None:
        """The first arrival of the rank `peer` at a send or recv; None if it was met before.

        The two ranks of a send and a recv make a communicator of their own, the first time.
        """
        met = self.introduced.setdefault(arrival.card, set())
        if peer in met:
            return None
        if not met:
            self.store.set(f"p2p/{self.rank}", json.dumps(arrival))
        (line,) = self.wait_for([f"p2p/{peer}"], work)
        return Arrival(*json.loads(line))

    def wait_for(self, keys: list[str], work: str) -> list[bytes]:
        """What the store holds under `keys`, `.../rank` each, once it holds all of them."""
        begun, pause = time.monotonic(), 2e-5
        looked = begun
        while not self.store.check(keys):
            now = time.monotonic()
            if now - begun > self.timeout.total_seconds():
                raise errors.timed_out(work, self.timeout, *self.split(keys))
            if now - looked > LONG:
                looked = now
                self.look_for(self.split(keys)[0], work)
            time.sleep(pause)
            pause = min(pause * 1.2, 0.01)
        return self.store.multi_get(keys)

    def split(self, keys: list[str]) -> tuple[list[int], list[int]]:
        """The ranks whose keys are not there, and those whose are, by their global numbers."""
        missing, there = [], []
        for key in keys:
            rank = self.ranks[int(key.rpartition("/")[2])]
            (there if self.store.check([key]) else missing).append(rank)
        return missing, there

    def look_for(self, missing: list[int], work: str) -> None:
        """Raise DistBackendError if the process of a rank that is `missing` has ended."""
        for rank in missing:
            key = f"here/{self.ranks.index(rank)}"
            if self.store.check([key]):
                where, pid = json.loads(self.store.get(key))
                if where == host() and has_ended(pid):
                    raise errors.gone(work, rank, pid)


def clone(store: dist.Store) -> dist.Store:
    """A connection of its own to what `store` holds, where its kind knows how."""
    try:
        return store.clone()
    except (AttributeError, NotImplementedError, RuntimeError):  # before torch 2.8; HashStore
        return store


@functools.cache
def host() -> str:
    """A name for this machine, as NCCL makes one: its host name and the identity of its boot.

    NCCL_HOSTID names it instead, where one machine plays several servers.
    """
    if named := os.environ.get("NCCL_HOSTID"):
        return named
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{socket.gethostname()} {boot.read_text().strip() if boot.is_file() else ''}"


def has_ended(pid: int) -> bool:
    """True for a process of this machine that is no more, or is but a zombie."""
    if sys.platform == "win32":  # where signal 0 would end it
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # another user's
        return False
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:  # no /proc here
        return False


def wanted() -> bool:
    """True unless the environment turns the roll call off."""
    return os.environ.get(CHECKS) != "0"
