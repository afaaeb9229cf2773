"""The roll call before a collective: who is there, on which GPU, and what it asks for. NCCL checks
nothing between ranks: those that disagree hang until the watchdog's timeout. Here every rank writes
a line into the group's store and reads the others', so all of them see at once what is wrong."""

import functools
import json
import os
import socket
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from cudasim.backends.cuda.distributed import errors
from cudasim.backends.cuda.distributed.refusals import scalar_type
from cudasim.backends.cuda.nvidia_smi import is_alive
from cudasim.device.gpu import GPU
from cudasim.dispatch.tags import device_of
from cudasim.session import session

CHECKS = "CUDASIM_DISTRIBUTED_CHECKS"  # environment variable; 0: no roll call, no fingerprints
KEPT = 64  # roll calls whose lines stay in the store, before they are deleted in one go
LONG = 0.5  # seconds without an answer, after which a rank's process is looked for


class Request(NamedTuple):
    kind: str  # of collective, in the words of PyTorch's messages: `ALLREDUCE`, `_ALLGATHER_BASE`
    tensors: list[Tensor]
    compared: list[Tensor]  # those of its tensors that are of one size on every rank
    root: int | None = None

    def work(self, number: int) -> str:
        """What the watchdog calls it, as number so many of its group."""
        sizes = [each.numel() for each in self.tensors]
        told = f", NumelIn={sizes[-1]}, NumelOut={sizes[0]}" if sizes else ""
        return f"WorkNCCL(SeqNum={number}, OpType={self.kind}{told})"

    def key(self) -> list:
        """What must be equal on every rank. NCCL counts elements: shapes may differ. Where sizes
        may, types may not."""
        asked = [[tensor.numel(), str(tensor.dtype)] for tensor in self.compared]
        return [
            self.kind,
            self.root,
            asked or [str(each.dtype) for each in self.tensors[:1]],
        ]

    def fingerprint(self, number: int) -> str:
        """The same in the words of PyTorch's own check (c10d/ProcessGroupWrapper.cpp)."""
        parts = [f"SequenceNumber={number}", f"OpType={self.kind}"]
        sizes = [str(list(tensor.shape)) for tensor in self.compared]
        if len(set(sizes)) == 1 and self.kind != "ALLREDUCE_COALESCED":
            sizes = sizes[:1]
        if sizes:
            parts.append(f"TensorShape={', '.join(sizes)}")
        for tensor in (self.compared or self.tensors)[:1]:
            parts.append(f"TensorDtypes={scalar_type(tensor.dtype)}")
            parts.append(f"TensorDeviceTypes={device_of(tensor).type}")
        if self.root is not None:
            parts.append(f"Root={self.root}")
        return f"CollectiveFingerPrint({', '.join(parts)})"


class Roll:
    """The roll calls of one process group, as one of its ranks sees them. It stands for one of the
    backend `requested`; its ranks are bound to the GPU `bound`, if not None."""

    def __init__(
        self, group: dist.ProcessGroup, requested: str, bound: GPU | None
    ) -> None:
        self.requested, self.bound = requested, bound
        self.only_nccl = "cpu" not in requested  # there would be no backend for the CPU
        self.name, self.rank, self.size = group.group_name, group.rank(), group.size()
        self.ranks = dist.get_process_group_ranks(group)
        self.timeout: timedelta = group._get_backend(
            torch.device("cpu")
        ).options._timeout
        store = group.get_group_store()
        with suppress(
            NotImplementedError, RuntimeError
        ):  # one in Python may not know how
            store = store.clone()
        # A second life of the processes' groups meets no line of the first.
        self.store = dist.PrefixStore(f"cudasim/{session.lives}/{self.name}", store)
        self.barrier_gpu: GPU | None = None  # that `barrier(device_ids=)` names
        self.count = 0  # collectives so far
        self.timed = 0  # of these on the virtual clock
        self.sent: dict[
            tuple[int, int], int
        ] = {}  # (from, to) -> messages on the virtual clock
        self.introduced: set[tuple[int, int]] = (
            set()
        )  # (card, peer) of sends and recvs so far
        self.store.set(f"here/{self.rank}", json.dumps([host(), os.getpid()]))

    def meet(self, request: Request, gpu: GPU | None) -> None:
        """Wait until every rank has come, as NCCL does, and compare what they say."""
        if self.size == 1 or os.environ.get(CHECKS) == "0":
            return
        number, self.count = self.count, self.count + 1
        mine = [
            gpu and [host(), gpu.number],
            request.key(),
            request.fingerprint(number),
        ]
        found = self.exchange(f"{number}", mine, request.work(number + 1))
        cards, keys, texts = zip(*found, strict=True)
        if self.count % KEPT == 0:  # all have read what came before this one
            for old in range(number - KEPT, number):
                self.store.delete_key(f"{old}/{self.rank}")
        self._compare(dict(enumerate(cards)))
        if any(key != keys[0] for key in keys):
            raise errors.mismatch(
                dict(zip(self.ranks, texts, strict=True)), self.timeout
            )

    def meet_peer(self, request: Request, gpu: GPU | None, peer: int) -> None:
        """Wait for the rank `peer` at the first send or recv with it, and compare the GPUs."""
        if gpu is None or self.bound is not None or os.environ.get(CHECKS) == "0":
            return
        if (gpu.number, peer) not in self.introduced:
            mine = [host(), gpu.number]
            (theirs,) = self.exchange("p2p", mine, request.work(1), peer)
            self._compare({self.rank: mine, peer: theirs})
            self.introduced.add((gpu.number, peer))

    def _compare(self, cards: dict[int, list | None]) -> None:
        mine = cards[self.rank]
        for rank, theirs in cards.items():
            if rank != self.rank and mine and theirs == mine:
                names = self.ranks[self.rank], self.ranks[rank]
                raise errors.duplicate(*names, mine[1], len(session.gpus))

    def exchange(
        self, what: str, mine: object, work: str, peer: int | None = None
    ) -> list:
        """Tell all ranks `mine` under the name of `what`, and wait for what they tell, or a `peer`.
        Errors call it `work`: for ranks that come too late, or whose processes have ended."""
        self.store.set(f"{what}/{self.rank}", json.dumps(mine))
        awaited = range(self.size) if peer is None else [peer]
        keys = [f"{what}/{rank}" for rank in awaited]
        begun = looked = time.monotonic()
        pause = 2e-5
        while not self.store.check(keys):
            now = time.monotonic()
            late = now - begun > self.timeout.total_seconds()
            if late or now - looked > LONG:
                looked = now
                there = [
                    rank for rank in awaited if self.store.check([f"{what}/{rank}"])
                ]
                missing = [rank for rank in awaited if rank not in there]
                if late:
                    names = (
                        [self.ranks[rank] for rank in each] for each in (missing, there)
                    )
                    raise errors.timed_out(work, self.timeout, *names)
                self._look_for(missing, work)
            time.sleep(pause)
            pause = min(pause * 1.2, 0.01)
        return [json.loads(line) for line in self.store.multi_get(keys)]

    def _look_for(self, missing: list[int], work: str) -> None:
        for rank in missing:
            if self.store.check([f"here/{rank}"]):
                where, pid = json.loads(self.store.get(f"here/{rank}"))
                if where == host() and not is_alive(pid):
                    raise errors.gone(work, self.ranks[rank], pid)


@functools.cache
def host() -> str:
    """A name for this machine, as NCCL makes one. By NCCL_HOSTID, one machine plays several."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    made = (
        f"{socket.gethostname()} {boot.read_text().strip() if boot.is_file() else ''}"
    )
    return os.environ.get("NCCL_HOSTID") or made
