"""Collectives on the virtual clock: ranks' clocks meet, and NCCL's streams run beside the others. A
collective begins when the last rank has come, and ends at the same time on all. The ranks tell each
other their times through the group's store, so every run gives the same. As in PyTorch, what is
asked for with `async_op=True`, and DistributedDataParallel's gradients, run on a stream of NCCL's
own, for which the current one waits at `wait()`, and at the end of the backward pass. Anything else
runs on the current stream. A `send` does not wait for its `recv`: the modelled link takes it in."""

import functools
import json
import os
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

from cudasim.backends.cuda.distributed.rollcall import Roll, host
from cudasim.clock.clock import Card, Clock, Stream, nanoseconds
from cudasim.patching import Patches
from cudasim.session import session
from cudasim.timing.scaling import Cluster, Link, card_link, collective_seconds, links

NETWORK = "CUDASIM_NETWORK"  # environment variable: the link between servers
USUAL = "eth25"
Times = tuple[
    int, int, int
]  # when it begins, how long it takes, the rank that came last
End = tuple[
    int, int | Callable[[], int]
]  # a GPU, and when it ends there, once the data have come


class Asked(threading.local):
    open: list[End] | None = (
        None  # while one of PyTorch's functions runs that may return a work
    )
    backward = 0  # backward passes that are running


asked = Asked()
of_works: WeakKeyDictionary[dist.Work, list[End]] = (
    WeakKeyDictionary()
)  # that nobody waited for
of_backward: list[End] = []


def server() -> str:
    return f"{host()} {os.environ.get('GROUP_RANK', '0')}"  # that of torchrun's agent


def network() -> Link:
    known, name = links("between"), os.environ.get(NETWORK, USUAL)
    if name not in known:
        raise ValueError(f"{NETWORK}={name!r}: unknown; there are {', '.join(known)}")
    return known[name]


def book(
    roll: Roll, word: str, gpu: int, size: int, own: bool, peer: int | None = None
) -> None:
    """Book a collective of `size` bytes in the group of `roll`, on GPU number `gpu`, on a stream of
    NCCL's `own` or the current one; `peer` is the other rank of a send or recv."""
    clock = session.clock
    if clock is None:
        return
    session.thread.met = True  # the mode need not book it
    current = clock.cards[gpu].stream(session.current_stream(gpu))
    line = _line(clock.cards[gpu], roll.name) if own else current
    # NCCL reads what was submitted to the current stream.
    ready = clock.call_collective(gpu, line, word, current.end)
    if peer is None or roll.size == 1:
        find = functools.partial(_meeting, clock, roll, word, ready, size)
    else:
        find = _message(roll, word, ready, size, peer)

    def run() -> int:
        begin, taken, last = find()
        end = begin + taken
        clock.book_collective(
            line, word, ready, begin, end, f"wait for rank {roll.ranks[last]}"
        )
        return end

    end = run if word == "recv" else run()
    if word == "barrier":  # NCCL's barrier blocks the host
        clock.wait_until(end, word)
    if own and asked.open is not None:
        asked.open.append((gpu, end))
    elif own and asked.backward:
        of_backward.append((gpu, end))
    elif own:  # what C++ asks for outside of the backward pass, it waits for
        _settle([(gpu, end)])


def _line(card: Card, group: str) -> Stream:
    number = 1 + sum(isinstance(known, str) for known in card.streams)
    new = Stream(f"{card.name} NCCL{f' {number}' if number > 1 else ''}")
    return card.streams.setdefault(f"NCCL {group}", new)


def _meeting(clock: Clock, roll: Roll, word: str, ready: int, size: int) -> Times:
    """Tell the others when this rank is ready, and learn when they are."""
    if roll.size == 1:
        return ready, clock.floor, roll.rank
    number, roll.timed = roll.timed, roll.timed + 1
    told = roll.exchange(f"clock/{number}", [ready, server()], word)
    if number:  # who has come here has read the last one
        roll.store.delete_key(f"clock/{number - 1}/{roll.rank}")
    times, servers = zip(*told, strict=True)
    most = max(map(servers.count, servers))
    between = network() if most < roll.size else None
    cluster = Cluster(roll.size, most, card_link(clock.sheet), between)
    taken = nanoseconds(collective_seconds(word, size, cluster))
    return max(times), taken, times.index(max(times))


def _message(
    roll: Roll, word: str, ready: int, size: int, peer: int
) -> Callable[[], Times]:
    """A `send`, or a `recv`, which learns when its message was sent once that has come."""
    way = (roll.rank, peer) if word == "send" else (peer, roll.rank)
    number = roll.sent[way] = roll.sent.get(way, -1) + 1
    key = f"clock/{way[0]} to {way[1]}/{number}"
    inside = card_link(session.clock.sheet)
    if word == "send":
        roll.store.set(key, json.dumps([ready, server()]))

    def find() -> Times:
        sent, where = 0, server()
        if word == "recv" and roll.store.check([key]):
            sent, where = json.loads(roll.store.get(key))
        link = inside if where == server() else network()
        return max(ready, sent), nanoseconds(link.latency + size / link.bandwidth), peer

    return find


def _settle(ends: list[End]) -> None:
    for gpu, when in ends:
        end = when() if callable(when) else when
        if session.clock is not None:
            session.clock.hold(gpu, session.current_stream(gpu), end)
    ends.clear()


def awaited(function: Callable, *args: Any, **kwargs: Any) -> Any:
    """One of PyTorch's functions between processes: who waits for its work waits on the clock."""
    if session.clock is None or asked.open is not None:
        return function(*args, **kwargs)
    asked.open = ends = []
    try:
        work = function(*args, **kwargs)
    finally:
        asked.open = None
    if work is not None and ends:
        of_works[work] = ends
    else:
        _settle(ends)
    return work


def _wait(original: Callable, work: dist.Work, *args: Any, **kwargs: Any) -> Any:
    done = original(work, *args, **kwargs)
    _settle(
        asked.open or of_works.pop(work, [])
    )  # what is open is of this very function
    return done


def _run_backward(original: Callable, *args: Any, **kwargs: Any) -> Any:
    """The backward pass: at its end the current streams wait for the gradients that were sent."""
    asked.backward += 1
    try:
        return original(*args, **kwargs)
    finally:
        asked.backward -= 1
        if not asked.backward:
            _settle(of_backward)


def patch_clocks(patches: Patches) -> None:
    if session.clock is not None:
        patches.wrap(dist.Work, "wait", _wait)
        patches.wrap(torch.autograd, "_engine_run_backward", _run_backward)
        patches.finally_do(of_backward.clear)
