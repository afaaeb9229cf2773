"""The roll call before a collective: who is there, on which GPU, and what it asks for.

NCCL checks nothing between ranks: those that disagree hang until the watchdog's timeout.
Here every rank writes a line into the group's store and reads the others', so all of them
see at once what is wrong.
"""

import functools
import json
import os
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import torch.distributed as dist
from torch import Tensor

from cudasim.backends.cuda.distributed import errors, watchdog, wrapper
from cudasim.backends.cuda.distributed.messages import MessagesToSelf
from cudasim.backends.cuda.nvidia_smi import is_alive
from cudasim.device.gpu import GPU
from cudasim.dispatch.dtypes import scalar_type
from cudasim.dispatch.tags import device_of
from cudasim.session import session
from cudasim.torch_private.distributed import gloo_of, timeout_of

# What names a communicator of a group: the index of a GPU, or the ranks at its two ends.
Key = int | tuple[int, int]

INIT = "INIT"  # the kind of a request for a communicator
# Environment variable; 0: no roll call, no fingerprints.
CHECKS = "CUDASIM_DISTRIBUTED_CHECKS"
# Roll calls whose lines stay in the store, before they are deleted in one go.
KEPT_CALLS = 64
PATIENCE = 0.5  # seconds without an answer, after which a rank's process is looked for
# How long rank 0 waits at most for others before it raises an error.
LAST_WAIT = timedelta(seconds=5)
SHORTEST_PAUSE = 2e-5  # seconds between two looks at the store
LONGEST_PAUSE = 0.01


class Request(NamedTuple):
    """What a rank asks for."""

    kind: str  # of collective, in the words of PyTorch's messages: `ALLREDUCE`, `_ALLGATHER_BASE`
    tensors: list[Tensor]
    compared: list[Tensor]  # those of its tensors that are of one size on every rank
    verified: list[Tensor]  # those that PyTorch compares in detail
    root: int | None = None

    def work(self, number: int) -> str:
        """Return what the watchdog calls it, as collective `number` of its group."""
        sizes = ""
        if self.tensors:
            first, last = self.tensors[0], self.tensors[-1]
            sizes = f", NumelIn={last.numel()}, NumelOut={first.numel()}"
        return f"WorkNCCL(SeqNum={number}, OpType={self.kind}{sizes})"

    def key(self) -> list:
        """Return what must be equal on every rank.

        NCCL counts elements: shapes may differ. Where sizes may, types may not.
        """
        if self.compared:
            compared = [[tensor.numel(), str(tensor.dtype)] for tensor in self.compared]
        else:
            compared = [str(tensor.dtype) for tensor in self.tensors[:1]]
        return [self.kind, self.root, compared]

    def fingerprint(self, number: int) -> str:
        """Return the same in the words of PyTorch's check (c10d/ProcessGroupWrapper.cpp)."""
        parts = [f"SequenceNumber={number}", f"OpType={self.kind}"]
        shapes = [str(list(tensor.shape)) for tensor in self.compared]
        if len(set(shapes)) == 1 and self.kind != "ALLREDUCE_COALESCED":
            shapes = shapes[:1]
        if shapes:
            parts.append(f"TensorShape={', '.join(shapes)}")
        for tensor in (self.compared or self.tensors)[:1]:
            parts.append(f"TensorDtypes={scalar_type(tensor.dtype)}")
            parts.append(f"TensorDeviceTypes={device_of(tensor).type}")
        if self.root is not None:
            parts.append(f"Root={self.root}")
        return f"CollectiveFingerPrint({', '.join(parts)})"


class Answer(NamedTuple):
    """What a rank tells the others at a roll call."""

    card: list | None  # the host, and the number of the GPU there
    key: list
    fingerprint: str
    detail: wrapper.Fingerprint


class Roll:
    """The roll calls of one process group, as one of its ranks sees them.

    The group stands for one of the backend `requested`. Its rank here is bound to
    `bound_gpu`, if that is not None.
    """

    def __init__(
        self, group: dist.ProcessGroup, requested: str, bound_gpu: GPU | None
    ) -> None:
        self.requested = requested
        self.bound_gpu = bound_gpu
        self.is_eager = bound_gpu is not None  # its communicator is made at once
        self.only_nccl = "cpu" not in requested  # there would be no backend for the CPU
        self.name = group.group_name
        self.prefixes = watchdog.Prefixes.of(group)
        session.groups_made += 1
        self.rank = group.rank()
        self.size = group.size()
        self.ranks = dist.get_process_group_ranks(group)
        self.gloo = gloo_of(group)
        self.timeout: timedelta = timeout_of(self.gloo)
        self.barrier_gpu: GPU | None = None  # that `barrier(device_ids=)` names
        self.used_gpus: set[int] = set()  # that have communicated
        self.communicators: set[Key] = set()  # those that there are
        if bound_gpu is not None:
            self.communicators.add(bound_gpu.index)
        self.aborted: set[Key] = set()  # those of them that are of no more use
        self.has_ended = False  # whether it was aborted or shut down
        self.messages_to_self = MessagesToSelf()

        self.is_wrapped = wrapper.is_wanted()
        self.count = 0  # roll calls so far
        self.collectives = 0  # those that NCCL has run
        self.splits = 0  # how often the group was split
        self.messages = 0  # sends and recvs, or batches of them, that NCCL has run
        # (card, peer) of sends and recvs so far.
        self.introduced: set[tuple[int, int]] = set()

        store = group.get_group_store()
        # A store in Python may not know how.
        with suppress(NotImplementedError, RuntimeError):
            store = store.clone()
        # Groups that are initialised again meet no line of the earlier ones.
        prefix = f"cudasim/{session.group_starts}/{self.name}"
        self.store = dist.PrefixStore(prefix, store)
        self.store.set(f"here/{self.rank}", json.dumps([host(), os.getpid()]))

    def communicator(self, gpu: GPU, peer: int | None) -> Key:
        """Return what names the communicator for a collective, or for a message of `peer`.

        Single messages have communicators of two ranks, unless the group's own was made
        at once (`pointToPoint` in torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp).
        """
        if peer is None or self.is_eager or self.messages_to_self.is_batch:
            return gpu.index
        return min(self.rank, peer), max(self.rank, peer)

    def end(self) -> None:
        """Abort the communicators that there are, or destroy them: no one can use them."""
        self.has_ended = True
        self.aborted |= self.communicators

    def refuse_aborted(self, gpu: GPU | None, peer: int | None) -> None:
        """Refuse to use a communicator that is aborted or destroyed.

        Another that the group has not used so far is made anew, as on a card. Where C++
        has not said which GPU it uses, any will do.
        """
        if not self.aborted:
            return
        rank = self.rank
        if gpu is not None:
            key = self.communicator(gpu, peer)
            if key not in self.aborted:
                return
            if isinstance(key, tuple):
                rank = int(key[0] != self.rank)  # of the two
        elif not self.only_nccl:
            return
        raise errors.aborted(rank)

    def meet(self, request: Request, gpu: GPU | None) -> None:
        """Wait until every rank has come, as NCCL does, and compare what they say."""
        if self.size == 1 or os.environ.get(CHECKS) == "0":
            return
        call = self.count
        self.count += 1
        number = self.collectives + 1
        card = None if gpu is None else [host(), gpu.number]
        detail = wrapper.Fingerprint.of(
            self.collectives, request.kind, request.verified
        )
        own = Answer(card, request.key(), request.fingerprint(number), detail)
        # A communicator is made by the first, which no watchdog sees.
        is_watched = call > 0
        lines = self.exchange(
            f"{call}", own, request.work(number), is_watched=is_watched
        )
        answers = [Answer(*line) for line in lines]
        if self.count % KEPT_CALLS == 0:  # all have read what came before this one
            for old in range(call - KEPT_CALLS, call):
                self.store.delete_key(f"{old}/{self.rank}")

        cards = {rank: answer.card for rank, answer in enumerate(answers)}
        if not self._agree(answers):
            self._let_others_read(f"{call}", range(self.size))
        if self.is_wrapped:
            details = [wrapper.Fingerprint(*answer.detail) for answer in answers]
            wrapper.compare(self.rank, details)
        self._compare_cards(cards)
        if any(answer.key != own.key for answer in answers):
            fingerprints = [answer.fingerprint for answer in answers]
            texts = dict(zip(self.ranks, fingerprints, strict=True))
            raise errors.mismatch(texts, self.timeout, self.is_wrapped)
        if request.kind != INIT:
            self.collectives += 1

    def meet_peer(self, request: Request, gpu: GPU | None, peer: int) -> None:
        """Wait for the rank `peer` at the first send or recv with it, and compare the GPUs."""
        if gpu is None or self.bound_gpu is not None or os.environ.get(CHECKS) == "0":
            return
        if (gpu.number, peer) not in self.introduced:
            own_card = [host(), gpu.number]
            work = request.work(self.messages)
            (other_card,) = self.exchange("p2p", own_card, work, peer)
            if own_card == other_card:
                first, second = sorted([self.rank, peer])
                self._let_others_read(f"p2p/{first}/{second}", [peer])
            self._compare_cards({self.rank: own_card, peer: other_card})
            self.introduced.add((gpu.number, peer))

    def _agree(self, answers: list[Answer]) -> bool:
        """Tell whether no rank will raise an error, which is the same on all of them."""
        first = answers[0]
        cards = [answer.card for answer in answers if answer.card is not None]
        if any(cards.count(card) > 1 for card in cards):
            return False
        if self.is_wrapped and any(answer.detail != first.detail for answer in answers):
            return False
        return all(answer.key == first.key for answer in answers)

    def _let_others_read(self, what: str, others: Iterable[int]) -> None:
        """Wait until the `others` have read what we told them, if we may host the store.

        Rank 0 hosts it as a rule. If its program ends upon an error, the others should
        see that error too, not that the store is gone: on a card, NCCL needs no store once
        the ranks have found each other.
        """
        self.store.set(f"{what}/read/{self.rank}", "")
        if dist.get_rank() != 0:
            return
        keys = [f"{what}/read/{rank}" for rank in others if rank != self.rank]
        with suppress(dist.DistStoreError):  # they may have ended
            self.store.wait(keys, LAST_WAIT)

    def _compare_cards(self, cards: dict[int, list | None]) -> None:
        """Raise NCCL's error if another rank is on the same card as this one."""
        own_card = cards[self.rank]
        if own_card is None:
            return
        _, number = own_card
        for rank, card in cards.items():
            if rank != self.rank and card == own_card:
                own_rank = self.ranks[self.rank]
                other_rank = self.ranks[rank]
                raise errors.duplicate(own_rank, other_rank, number, len(session.gpus))

    def exchange(
        self,
        what: str,
        own: object,
        work: str,
        peer: int | None = None,
        is_watched: bool = False,
    ) -> list:
        """Tell all ranks our `own` under the name of `what`, and wait for what they tell.

        With a `peer`, wait for that one alone. Errors call it `work`: for ranks that come
        too late, or whose processes have ended. The first of these ends the process if a
        watchdog sees it.
        """
        self.store.set(f"{what}/{self.rank}", json.dumps(own))
        awaited = range(self.size) if peer is None else [peer]
        keys = [f"{what}/{rank}" for rank in awaited]
        begin = last_look = time.monotonic()
        pause = SHORTEST_PAUSE
        while not self.store.check(keys):
            now = time.monotonic()
            is_late = now - begin > self.timeout.total_seconds()
            if is_late or now - last_look > PATIENCE:
                last_look = now
                try:
                    self._look_for_missing(what, awaited, work, now - begin, is_late)
                except dist.DistBackendError as error:
                    if is_late and is_watched and watchdog.ends_process():
                        watchdog.end_process(self.prefixes, error)
                    raise
            time.sleep(pause)
            pause = min(pause * 1.2, LONGEST_PAUSE)
        return [json.loads(line) for line in self.store.multi_get(keys)]

    def timed_out(
        self, work: str, waited: float, missing: list[int], arrived: list[int]
    ) -> dist.DistBackendError:
        """Return the error of ranks that have not come in `waited` seconds."""
        prefix = self.prefixes.work
        return errors.timed_out(prefix, work, waited, self.timeout, missing, arrived)

    def _look_for_missing(
        self,
        what: str,
        awaited: Iterable[int],
        work: str,
        waited: float,
        is_late: bool,
    ) -> None:
        """Raise the error of ranks that are late, or whose processes have ended."""
        missing = []
        arrived = []
        for rank in awaited:
            if self.store.check([f"{what}/{rank}"]):
                arrived.append(rank)
            else:
                missing.append(rank)
        if is_late:
            missing_ranks = [self.ranks[rank] for rank in missing]
            arrived_ranks = [self.ranks[rank] for rank in arrived]
            raise self.timed_out(work, waited, missing_ranks, arrived_ranks)

        for rank in missing:
            if self.store.check([f"here/{rank}"]):
                where, pid = json.loads(self.store.get(f"here/{rank}"))
                if where == host() and not is_alive(pid):
                    raise errors.gone(work, self.ranks[rank], pid)


@functools.cache
def host() -> str:
    """Return a name for this machine, as NCCL makes one.

    By NCCL_HOSTID, one machine plays several.
    """
    name = os.environ.get("NCCL_HOSTID")
    if name:
        return name
    path = Path("/proc/sys/kernel/random/boot_id")
    boot = path.read_text().strip() if path.is_file() else ""
    return f"{socket.gethostname()} {boot}"
