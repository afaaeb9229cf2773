"""Collectives on the virtual clock: ranks' clocks meet, and NCCL's streams run beside the others.

A collective begins when the last rank has come, and ends at the same time on all. The ranks tell
each other their times through the group's store, so a run of several processes is the same on every
run. As in PyTorch, what is asked for with `async_op=True`, and the gradients that
DistributedDataParallel sends during the backward pass, run on a stream of NCCL's own; the current
stream waits for them at `wait()`, and at the end of the backward pass. Anything else runs on the
current stream. A `send` does not wait for its `recv`: the modelled link takes it in.
"""

import functools
import json
import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor

from cudasim.backends.cuda.distributed.rollcall import Roll, host
from cudasim.clock.clock import Clock, Stream, nanoseconds
from cudasim.dispatch.arguments import tensors_in
from cudasim.patching import Patches
from cudasim.session import session
from cudasim.timing.scaling import Cluster, Link, card_link, collective_seconds, links

NETWORK = "CUDASIM_NETWORK"  # environment variable: the link between servers
USUAL = "eth25"
KEPT = 1024  # works that nobody has waited for yet
# Operator of `torch.ops.c10d` -> what it is called, and which of its arguments is moved.
NAMES = {
    "allreduce_": ("all_reduce", 0),
    "allreduce_coalesced_": ("all_reduce", 0),
    "broadcast_": ("broadcast", 0),
    "reduce_": ("reduce", 0),
    "allgather_": ("all_gather", 0),
    "allgather_coalesced_": ("all_gather", 0),
    "_allgather_base_": ("all_gather", 0),
    "allgather_into_tensor_coalesced_": ("all_gather", 0),
    "reduce_scatter_": ("reduce_scatter", 1),
    "_reduce_scatter_base_": ("reduce_scatter", 1),
    "reduce_scatter_tensor_coalesced_": ("reduce_scatter", 1),
    "alltoall_": ("all_to_all", 1),
    "alltoall_base_": ("all_to_all", 1),
    "gather_": ("gather", 1),
    "scatter_": ("scatter", 0),
    "barrier": ("barrier", 0),
    "send": ("send", 0),
    "recv_": ("recv", 0),
}


class Meeting:
    """Where the ranks of one group meet: how many collectives so far, and on which servers."""

    def __init__(self) -> None:
        """No collective yet."""
        self.count = 0
        self.sent: dict[tuple[int, int], int] = {}  # (from, to) -> messages so far


class Asked(threading.local):
    """What a thread has asked NCCL for."""

    open: list | None = None  # ends, while one of PyTorch's functions runs that may return a work
    backward = 0  # backward passes that are running


asked = Asked()
_meetings: WeakKeyDictionary[Roll, Meeting] = WeakKeyDictionary()
_unwaited: dict[int, tuple[Any, list]] = {}  # id of a work -> the work, and its ends


class End(NamedTuple):
    """When something ends on NCCL's stream of a GPU; `late` finds it out once data have come."""

    gpu: int
    when: int
    late: Callable[[], int] | None = None


def server() -> str:
    """The server that this process says it is on: its agent of torchrun, on its machine."""
    return f"{host()} {os.environ.get('GROUP_RANK', '0')}"


def network() -> Link:
    """The link between servers. Raises ValueError for one that is unknown."""
    known, name = links("between"), os.environ.get(NETWORK, USUAL)
    if name not in known:
        raise ValueError(f"{NETWORK}={name!r}: unknown; there are {', '.join(known)}")
    return known[name]


def book_collective(roll: Roll, func: Callable, args: tuple, gpu: int | None) -> None:
    """Book the collective `func` of the group of `roll`, on GPU number `gpu`.

    Does nothing without a virtual clock, for tensors on the CPU, and in a group of one rank.
    """
    clock = session.clock
    if clock is None or gpu is None:
        return
    session.thread.met = True  # the mode need not book it
    name, place = NAMES[func._schema.name.rpartition("::")[2]]
    size = sum(each.numel() * each.element_size() for each in tensors_in((args[place],)))
    own = _own_stream(func, args)
    if roll.size == 1:
        _alone(clock, gpu, name, own)
    elif name in ("send", "recv"):
        _book_message(clock, roll, name, gpu, args[2], size)
    else:
        _book_meeting(clock, roll, name, gpu, size, own)


def book_functional(roll: Roll, name: str, tensors: list[Tensor], gpu: int) -> None:
    """The same for a functional collective, named as its operator of `torch.ops.c10d`."""
    clock = session.clock
    if clock is None:
        return
    session.thread.met = True
    word = NAMES[name][0]
    size = sum(each.numel() * each.element_size() for each in tensors)
    size *= roll.size if word == "all_gather" else 1
    if roll.size > 1:
        _book_meeting(clock, roll, word, gpu, size, own=False)


def _own_stream(func: Callable, args: tuple) -> bool:
    """Whether it runs on NCCL's own stream: unless it was asked for without `async_op`."""
    for argument, value in zip(func._schema.arguments, args, strict=False):
        if argument.name == "async_op":
            return bool(value)
    return True


def _alone(clock: Clock, gpu: int, name: str, own: bool) -> None:
    line = _line(clock, gpu, "0") if own else clock.cards[gpu].stream(session.current_stream(gpu))
    ready = clock.ask(gpu, line, name, _current_end(clock, gpu))
    _finish(clock, gpu, line, name, ready, ready, ready + clock.floor, own)


def _book_meeting(clock: Clock, roll: Roll, name: str, gpu: int, size: int, own: bool) -> None:
    """Tell the others when this rank is ready, learn when they are, and book the whole."""
    meeting = _meetings.setdefault(roll, Meeting())
    current = clock.cards[gpu].stream(session.current_stream(gpu))
    line = _line(clock, gpu, roll.name) if own else current
    ready = clock.ask(gpu, line, name, _current_end(clock, gpu))
    number, meeting.count = meeting.count, meeting.count + 1
    keys = [f"clock/{number}/{rank}" for rank in range(roll.size)]
    mine = [ready, server(), clock.sheet.name]
    roll.store.set(keys[roll.rank], json.dumps(mine))
    told = [json.loads(line) for line in roll.wait_for(keys, name)]
    if number:  # who has come here has read the last one
        roll.store.delete_key(f"clock/{number - 1}/{roll.rank}")
    last = max(range(roll.size), key=lambda rank: told[rank][0])
    begin = told[last][0]
    seconds = collective_seconds(name, size, _cluster(clock, [each[1] for each in told]))
    end = begin + nanoseconds(seconds)
    _finish(clock, gpu, line, name, ready, begin, end, own, roll.ranks[last])
    if name == "barrier":  # NCCL's barrier blocks the host
        clock.wait_until(end, name)


def _cluster(clock: Clock, servers: list[str]) -> Cluster:
    """The GPUs of a group, by the servers that their ranks are on."""
    count = len(set(servers))
    inside = card_link(clock.sheet)
    between = network() if count > 1 else None
    return Cluster(len(servers), max(map(servers.count, servers)), inside, between)


def _book_message(clock: Clock, roll: Roll, name: str, gpu: int, peer: int, size: int) -> None:
    """A `send`, or a `recv`, which learns when its message was sent once that has come."""
    meeting = _meetings.setdefault(roll, Meeting())
    way = (roll.rank, peer) if name == "send" else (peer, roll.rank)
    number = meeting.sent[way] = meeting.sent.get(way, -1) + 1
    key = f"clock/{way[0]} to {way[1]}/{number}"
    line = _line(clock, gpu, roll.name)
    ready = clock.ask(gpu, line, name, _current_end(clock, gpu))
    if name == "send":
        roll.store.set(key, json.dumps([ready, server()]))
        link = card_link(clock.sheet)
        end = ready + nanoseconds(link.latency + size / link.bandwidth)
        clock.together(line, name, ready, ready, end)
        _expect(clock, End(gpu, end))
        return

    def late() -> int:
        sent, where = json.loads(roll.store.get(key)) if roll.store.check([key]) else (0, server())
        link = card_link(clock.sheet) if where == server() else network()
        begin = max(ready, sent)
        end = begin + nanoseconds(link.latency + size / link.bandwidth)
        clock.together(line, name, ready, begin, end, f"wait for rank {roll.ranks[peer]}")
        return end

    _expect(clock, End(gpu, 0, late))


def _line(clock: Clock, gpu: int, group: str) -> Stream:
    """NCCL's stream for a group on a GPU."""
    card = clock.cards[gpu]
    key = f"NCCL {group}"
    if key not in card.streams:
        others = sum(isinstance(each, str) for each in card.streams)
        lane = f"{card.name} NCCL{f' {others + 1}' if others else ''}"
        card.streams[key] = Stream(lane)
    return card.streams[key]


def _current_end(clock: Clock, gpu: int) -> int:
    """When what was submitted to the current stream is done: NCCL reads what it has made."""
    return clock.cards[gpu].stream(session.current_stream(gpu)).end


def _finish(
    clock: Clock,
    gpu: int,
    line: Stream,
    name: str,
    ready: int,
    begin: int,
    end: int,
    own: bool,
    last: int = 0,
) -> None:
    """Book this rank's part, and see to it that somebody waits for it."""
    clock.together(line, name, ready, begin, end, f"wait for rank {last}")
    if own:
        _expect(clock, End(gpu, end))


def _expect(clock: Clock, end: End) -> None:
    """Leave `end` to who waits for it; what C++ asks for outside of backward, it waits for."""
    if asked.open is not None:
        asked.open.append(end)
    elif asked.backward:
        _unwaited.setdefault(0, (None, []))[1].append(end)
    else:
        _settle([end])


def _settle(ends: list) -> None:
    """Let the current streams wait for `ends`."""
    clock = session.clock
    for end in ends:
        when = end.late() if end.late is not None else end.when
        if clock is not None:
            clock.hold(end.gpu, session.current_stream(end.gpu), when)
    ends.clear()


def awaited(function: Callable) -> Callable:
    """One of PyTorch's functions between processes: who waits for its work waits on the clock."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if session.clock is None or asked.open is not None:
            return function(*args, **kwargs)
        asked.open = ends = []
        try:
            work = function(*args, **kwargs)
        finally:
            asked.open = None
        if work is not None and ends:
            if len(_unwaited) >= KEPT:
                _settle(_unwaited.pop(next(iter(_unwaited)))[1])
            _unwaited[id(work)] = work, ends  # the work is kept, so its id is nobody else's
        else:
            _settle(ends)
        return work

    return call


def make_wait(original: Callable) -> Callable:
    """`Work.wait`: the current stream waits on the clock, too."""

    @functools.wraps(original)
    def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
        done = original(self, *args, **kwargs)
        if asked.open:  # of this very function
            _settle(asked.open)
        elif id(self) in _unwaited:
            _settle(_unwaited.pop(id(self))[1])
        return done

    return wait


def make_backward(original: Callable) -> Callable:
    """The backward pass: at its end the current streams wait for the gradients that were sent."""

    @functools.wraps(original)
    def _engine_run_backward(*args: Any, **kwargs: Any) -> Any:
        if session.clock is None:
            return original(*args, **kwargs)
        asked.backward += 1
        try:
            return original(*args, **kwargs)
        finally:
            asked.backward -= 1
            if not asked.backward and 0 in _unwaited:
                _settle(_unwaited.pop(0)[1])

    return _engine_run_backward


def patch_clocks(patches: Patches) -> None:
    """Let what waits for a collective wait on the clock; does nothing without one."""
    if session.clock is None:
        return
    patches.replace(dist.Work, "wait", make_wait(dist.Work.wait))
    run = torch.autograd._engine_run_backward
    patches.replace(torch.autograd, "_engine_run_backward", make_backward(run))
    patches.finally_do(_unwaited.clear)
