"""Collectives on the virtual clock: ranks' clocks meet, and NCCL has streams of its own.

A collective begins when the last rank has come, and ends at the same time on all. The
ranks tell each other their times through the group's store, so every run gives the same.

As in PyTorch, work that was asked for with `async_op=True`, and the gradients of
DistributedDataParallel, run on a stream of NCCL's own. The current stream waits for it at
`wait()`, or at the end of the backward pass. Anything else runs on the current stream.

A `send` does not wait for its `recv`: the modelled link takes it in.
"""

import functools
import json
import os
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch.distributed as dist

from cudasim.backends.cuda.distributed.rollcall import Roll, host
from cudasim.clock.clock import CardLanes, Clock, Stream, nanoseconds
from cudasim.patching import Patches
from cudasim.session import session
from cudasim.timing.scaling import Cluster, Link, card_link, collective_seconds, links
from cudasim.torch_private.tensors import RUN_BACKWARD

NETWORK = "CUDASIM_NETWORK"  # environment variable: the link between servers
USUAL = "eth25"


class Meeting(NamedTuple):
    """The times of a collective, in nanoseconds."""

    begin: int
    duration: int
    last_rank: int  # within the group, that all the others waited for


class End(NamedTuple):
    """When a collective ends on a GPU.

    A function finds that out later: once the data have come.
    """

    gpu: int
    when: int | Callable[[], int]


class Counts:
    """What a group has done on the virtual clock so far, as one of its ranks counts it."""

    def __init__(self) -> None:
        self.meetings = 0
        # (from, to) -> messages.
        self.messages: dict[tuple[int, int], int] = defaultdict(int)


class WorkOfThread(threading.local):
    # While one of PyTorch's functions runs that may return a work: what it started.
    started: list[End] | None = None
    backward_passes = 0  # that are running


work_of_thread = WorkOfThread()
counts_of_rolls: WeakKeyDictionary[Roll, Counts] = WeakKeyDictionary()
# The ends of works that nobody has waited for so far.
of_works: WeakKeyDictionary[dist.Work, list[End]] = WeakKeyDictionary()
of_backward: list[End] = []


def server() -> str:
    """Return a name for the server that this process is on, or plays."""
    agent = os.environ.get("GROUP_RANK", "0")  # of torchrun
    return f"{host()} {agent}"


def network() -> Link:
    """Return the link between servers."""
    known = links("between")
    name = os.environ.get(NETWORK, USUAL)
    if name not in known:
        raise ValueError(f"{NETWORK}={name!r}: unknown; there are {', '.join(known)}")
    return known[name]


def book(
    roll: Roll, word: str, gpu: int, size: int, own: bool, peer: int | None = None
) -> None:
    """Book a collective of `size` bytes in the group of `roll`, on GPU number `gpu`.

    It runs on a stream of NCCL's `own`, or on the current one. `peer` is the other rank
    of a send or recv.
    """
    clock = session.clock
    if clock is None:
        return
    session.thread.skip_next_booking = True  # the mode need not book it
    card = clock.cards[gpu]
    current = card.stream(session.current_stream(gpu))
    stream = _nccl_stream(card, roll.name) if own else current
    # NCCL reads what was submitted to the current stream.
    ready = clock.call_collective(gpu, stream, word, current.end)
    if peer is None or roll.size == 1:
        meet = functools.partial(_meet, clock, roll, word, ready, size)
    else:
        meet = _exchange_message(roll, word, ready, size, peer)

    def run() -> int:
        meeting = meet()
        end = meeting.begin + meeting.duration
        reason = f"wait for rank {roll.ranks[meeting.last_rank]}"
        clock.book_collective(stream, word, ready, meeting.begin, end, reason)
        return end

    when = run if word == "recv" else run()
    if word == "barrier":  # NCCL's barrier blocks the host
        clock.wait_until(when, word)
    if own:
        _wait_later(End(gpu, when))


def _wait_later(end: End) -> None:
    """Let the current stream wait for the end of work on a stream of NCCL's own."""
    if work_of_thread.started is not None:
        work_of_thread.started.append(end)
    elif work_of_thread.backward_passes:
        of_backward.append(end)
    else:  # what C++ asks for outside of the backward pass, it waits for
        _hold_streams([end])


def _nccl_stream(card: CardLanes, group: str) -> Stream:
    """Return the stream of a group on a card: the first has no number."""
    number = 1 + sum(isinstance(name, str) for name in card.streams)
    suffix = f" {number}" if number > 1 else ""
    new = Stream(f"{card.name} NCCL{suffix}")
    return card.streams.setdefault(f"NCCL {group}", new)


def _counts_of(roll: Roll) -> Counts:
    return counts_of_rolls.setdefault(roll, Counts())


def _meet(clock: Clock, roll: Roll, word: str, ready: int, size: int) -> Meeting:
    """Tell the others when this rank is ready, and learn when they are."""
    if roll.size == 1:
        return Meeting(ready, clock.floor, roll.rank)
    counts = _counts_of(roll)
    number = counts.meetings
    counts.meetings += 1
    answers = roll.exchange(f"clock/{number}", [ready, server()], word)
    if number:  # a rank that has come here has read the last one
        roll.store.delete_key(f"clock/{number - 1}/{roll.rank}")

    times = [time for time, _ in answers]
    servers = [name for _, name in answers]
    most = max(map(servers.count, servers))  # ranks on one server
    between = network() if most < roll.size else None
    cluster = Cluster(roll.size, most, card_link(clock.sheet), between)
    duration = nanoseconds(collective_seconds(word, size, cluster))
    begin = max(times)
    return Meeting(begin, duration, times.index(begin))


def _exchange_message(
    roll: Roll, word: str, ready: int, size: int, peer: int
) -> Callable[[], Meeting]:
    """Announce a `send`, or prepare for a `recv`; return what finds out its times.

    A `recv` learns when its message was sent once that has come.
    """
    way = (roll.rank, peer) if word == "send" else (peer, roll.rank)
    messages = _counts_of(roll).messages
    number = messages[way]
    messages[way] += 1
    key = f"clock/{way[0]} to {way[1]}/{number}"
    inside = card_link(session.clock.sheet)
    if word == "send":
        roll.store.set(key, json.dumps([ready, server()]))

    def find() -> Meeting:
        sent = 0
        sender = server()
        if word == "recv" and roll.store.check([key]):
            sent, sender = json.loads(roll.store.get(key))
        link = inside if sender == server() else network()
        duration = nanoseconds(link.latency + size / link.bandwidth)
        return Meeting(max(ready, sent), duration, peer)

    return find


def _hold_streams(ends: list[End]) -> None:
    """Let the current streams wait for `ends`, which are then forgotten."""
    for gpu, when in ends:
        end = when() if callable(when) else when
        if session.clock is not None:
            session.clock.hold(gpu, session.current_stream(gpu), end)
    ends.clear()


def awaited(function: Callable, *args: Any, **kwargs: Any) -> Any:
    """Run one of PyTorch's functions between processes.

    A program that waits for its work waits on the clock, too.
    """
    if session.clock is None or work_of_thread.started is not None:
        return function(*args, **kwargs)
    ends: list[End] = []
    work_of_thread.started = ends
    try:
        work = function(*args, **kwargs)
    finally:
        work_of_thread.started = None
    if work is not None and ends:
        of_works[work] = ends
    else:
        _hold_streams(ends)
    return work


def _wait(original: Callable, work: dist.Work, *args: Any, **kwargs: Any) -> Any:
    done = original(work, *args, **kwargs)
    # What a function that runs now has started is of this very work.
    _hold_streams(work_of_thread.started or of_works.pop(work, []))
    return done


def _run_backward(original: Callable, *args: Any, **kwargs: Any) -> Any:
    """Run a backward pass, at whose end the current streams wait for gradients."""
    work_of_thread.backward_passes += 1
    try:
        return original(*args, **kwargs)
    finally:
        work_of_thread.backward_passes -= 1
        if not work_of_thread.backward_passes:
            _hold_streams(of_backward)


def patch_clocks(patches: Patches) -> None:
    if session.clock is not None:
        patches.wrap(dist.Work, "wait", _wait)
        patches.wrap(*RUN_BACKWARD, _run_backward)
        patches.finally_do(of_backward.clear)
