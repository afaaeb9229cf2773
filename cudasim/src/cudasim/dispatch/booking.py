"""What each operation costs on the virtual clock, booked when the CPU has computed its result.

A cost depends on shapes, dtypes and layouts alone. So it is found once for each combination.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from cudasim.clock.clock import IN, OUT, Clock, nanoseconds
from cudasim.clock.costs import (
    WAITS,
    is_packed,
    lengths_of,
    listed_tensors,
    work_of,
)
from cudasim.device.gpu import GPU
from cudasim.dispatch.copies import COPIES, Copy, copy_of, host_waits
from cudasim.dispatch.pinning import is_pinned
from cudasim.dispatch.tags import TAG, storage_of
from cudasim.dispatch.waiting import awaited_gpu
from cudasim.session import session
from cudasim.timing import formulas
from cudasim.timing.formulas import copy_seconds, fills, host_seconds, kernel_seconds
from cudasim.torch_private.devices import read_fp32_precision
from cudasim.torch_private.operators import read_number

aten = torch.ops.aten

# Bytes that travel to the host where it waits for a count, as `nonzero` does.
COUNT_SIZE = 8
# Combinations that are remembered of one operation.
MAX_PLANS = 1_000

# Types of arguments, other than tensors, on which a cost may depend.
_VALUE_TYPES = (int, bool, str, torch.dtype)
# Kinds of work that depend on PyTorch's settings for tf32, and the names of the settings.
_TF32_KINDS = ("matmul", "convolution")
_TF32_SETTINGS = ("matmul", "conv")

Home = GPU | None  # where a tensor is; None is the host


class Plan(NamedTuple):
    """What one combination of operation, shapes and dtypes costs, in nanoseconds."""

    host: int  # on the host, where the CPU computes, or nothing is computed
    card: int | None  # on a card; None for a view or a question, which no card sees
    kernels: int
    kind: str
    fills: bool
    # On the host, to have a card compute it, without the launches.
    call_duration: int


class Costing:
    """How the calls of one operator are booked, and its plans so far."""

    def __init__(self, func: Callable) -> None:
        packet = getattr(func, "overloadpacket", None)
        self.name = packet.__name__ if packet else str(func)
        self.copies = func in COPIES
        self.reads_back = func is read_number
        self.may_wait = func in WAITS
        self.is_packed = is_packed(func)
        self.depends_on_tf32 = False  # known once there is a plan
        self.plans: dict[tuple, Plan] = {}


_costings: dict[Callable, Costing] = {}


def forget() -> None:
    """Forget all costs: they are those of one card."""
    _costings.clear()


def book(func: Callable, args: tuple, kwargs: dict, out: Any) -> None:
    """Book what `func` did with its arguments, and the host's wait for it if there is one."""
    clock = session.clock
    thread = session.thread
    costing = _costings.get(func)
    if costing is None:
        costing = Costing(func)
        _costings[func] = costing
    if costing.copies and _book_crossing(func, args, kwargs, out):
        return

    gpu = (
        thread.operation.factory_gpu
        or _home_of(out)
        or _gpu_among((*args, *kwargs.values()))
    )
    if gpu is not None and costing.reads_back:
        read_back(gpu, costing.name, args[0].element_size())
        return
    plan = _plan(costing, func, args, kwargs, out)
    if gpu is None or plan.card is None:
        clock.spend(clock.call_cost(plan.host), costing.name)
        return

    if thread.follow_node is not None:
        thread.follow_node()
    stream = thread.streams.get(gpu.index, 0)
    if (gpu.index, stream) in session.capturing:
        launches = clock.launch * plan.kernels
        duration = clock.call_cost(plan.call_duration) + launches
        clock.spend(duration, costing.name)
        return
    clock.kernel(
        gpu.index,
        stream,
        costing.name,
        duration=plan.card,
        kernels=plan.kernels,
        kind=plan.kind,
        fills=plan.fills,
        call_duration=plan.call_duration,
    )
    if costing.may_wait and awaited_gpu(func, args, kwargs):
        read_back(gpu, costing.name)


def book_kernel(gpu: GPU, name: str, work: formulas.Work) -> None:
    """Book a kernel that compiled code launches, whose call is a line of Python."""
    clock = session.clock
    stream = _current_stream(gpu)
    if (gpu.index, stream) in session.capturing:
        clock.spend(clock.python + clock.launch * work.kernels, name)
        return
    clock.kernel(
        gpu.index,
        stream,
        name,
        duration=nanoseconds(kernel_seconds(work, clock.sheet)),
        kernels=work.kernels,
        kind=work.kind,
        fills=fills(work, clock.sheet),
        call_duration=clock.python,
    )


def read_back(gpu: GPU, name: Any, size: int = COUNT_SIZE) -> None:
    """Book `size` bytes that travel to the host, which waits for them."""
    clock = session.clock
    duration = nanoseconds(copy_seconds(size, clock.sheet, "pageable", OUT))
    end = clock.copy([(gpu.index, OUT)], _current_stream(gpu), duration, size)
    clock.wait_until(end, name)


def _current_stream(gpu: GPU) -> int:
    return session.current_stream(gpu.index)


def _home_of(value: Any) -> Home:
    if not isinstance(value, Tensor):
        return None
    tag = getattr(storage_of(value), TAG, None)
    return None if tag is None else tag.gpu


def _gpu_among(values: Iterable) -> Home:
    """Return the GPU of the first tensor on one, in lists too."""
    for value in values:
        if isinstance(value, list | tuple):
            gpu = _gpu_among(value)
        else:
            gpu = _home_of(value)
        if gpu is not None:
            return gpu
    return None


# Copies.


def _book_crossing(func: Callable, args: tuple, kwargs: dict, out: Any) -> bool:
    """Book a copy between devices; return False if it is none."""
    copy = copy_of(func, args, kwargs, out)
    source_home = _home_of(copy.source)
    target_home = _home_of(copy.target)
    if source_home is target_home:
        return False
    book_copy(copy, source_home, target_home)
    return True


def book_copy(copy: Copy, source_home: Home, target_home: Home) -> None:
    """Book a copy between two devices.

    Numbers of another dtype or layout are first converted where they are.
    """
    clock = session.clock
    if _is_captured(source_home) or _is_captured(target_home):
        clock.spend(clock.operation + clock.launch, "copy")
        return
    source, target, non_blocking = copy
    if source.dtype is not target.dtype or not _have_same_layout(source, target):
        _book_conversion(clock, source, copy.size, source_home)

    if source_home is None:
        _book_host_copy(clock, source, target_home, IN, copy.size, non_blocking)
    elif target_home is None:
        _book_host_copy(clock, target, source_home, OUT, copy.size, non_blocking)
    else:
        _book_peer_copy(clock, source_home, target_home, copy.size)


def _is_captured(gpu: Home) -> bool:
    return gpu is not None and session.stream_key(gpu.index) in session.capturing


def _have_same_layout(source: Tensor, target: Tensor) -> bool:
    if source.layout is not torch.strided or target.layout is not torch.strided:
        return True
    if source.is_contiguous() and target.is_contiguous():
        return True
    return source.stride() == target.stride()


def _book_conversion(clock: Clock, source: Tensor, size: int, gpu: Home) -> None:
    """Book that numbers become `size` bytes of another dtype or layout."""
    moved = source.numel() * source.element_size() + size
    work = formulas.Work("copy", 0.0, float(moved))
    if gpu is None:
        duration = nanoseconds(host_seconds(work, clock.host))
        clock.spend(duration, "convert")
    else:
        book_bytes(gpu, "convert", moved)


def book_bytes(gpu: GPU, name: str, size: int) -> None:
    """Book a kernel of which only is known that it reads and writes `size` bytes."""
    clock = session.clock
    work = formulas.Work("copy", 0.0, float(size))
    duration = nanoseconds(kernel_seconds(work, clock.sheet))
    fills_card = fills(work, clock.sheet)
    clock.kernel(gpu.index, _current_stream(gpu), name, duration, fills=fills_card)


def _book_peer_copy(clock: Clock, source: GPU, target: GPU, size: int) -> None:
    """Book a copy between two GPUs, for which the streams of both wait."""
    source_stream = _current_stream(source)
    target_stream = _current_stream(target)
    duration = nanoseconds(copy_seconds(size, clock.sheet, "peer"))
    engines = [(source.index, OUT), (target.index, IN)]
    target_ready = clock.cards[target.index].stream(target_stream).end
    clock.hold(source.index, source_stream, target_ready)
    end = clock.copy(engines, source_stream, duration, size)
    clock.hold(target.index, target_stream, end)


def _book_host_copy(
    clock: Clock, host: Tensor, gpu: GPU, way: str, size: int, non_blocking: bool
) -> None:
    """Book a copy between a tensor of the host and a GPU, and the host's wait for it."""
    memory = "pinned" if is_pinned(host) else "pageable"
    duration = nanoseconds(copy_seconds(size, clock.sheet, memory, way))
    end = clock.copy([(gpu.index, way)], _current_stream(gpu), duration, size)
    if host_waits(host, way == IN, size, non_blocking):
        clock.wait_until(end, "copy")


# Plans.


def _plan(
    costing: Costing, func: Callable, args: tuple, kwargs: dict, out: Any
) -> Plan:
    """Return the plan for a call, from those that are remembered if it is there."""
    key = [isinstance(out, Tensor) and out.is_meta]
    _describe((*args, *kwargs.values(), out), key, {})
    if costing.depends_on_tf32:
        for setting in _TF32_SETTINGS:
            key.append(read_fp32_precision("cuda", setting))
    if costing.is_packed:
        key += lengths_of(func, args)
    key = tuple(key)

    plan = costing.plans.get(key)
    if plan is None:
        plan = _make_plan(session.clock, func, args, kwargs, out)
        if plan.kind in _TF32_KINDS and not costing.depends_on_tf32:
            costing.depends_on_tf32 = True  # from now on keys hold the settings
            return plan
        if len(costing.plans) >= MAX_PLANS:
            costing.plans.clear()
        costing.plans[key] = plan
    return plan


def _describe(values: Iterable, key: list, numbers: dict[int, int]) -> None:
    """Add to `key` all that a cost may depend on. The values of floats do not count.

    `numbers` holds a number for each tensor so far, by its identity: a tensor that is an
    operand twice is fetched once.
    """
    for value in values:
        if is_lazy(value):  # a parameter without a shape yet
            key.append(is_lazy)
        elif isinstance(value, Tensor):
            is_strided = value.layout is torch.strided
            layout = value.stride() if is_strided else value.layout
            number = numbers.setdefault(id(value), len(numbers))
            key += (value.shape, layout, value.dtype, number)
        elif isinstance(value, list | tuple):
            key.append(len(value))
            _describe(value, key, numbers)
        elif value is None or type(value) in _VALUE_TYPES:
            key.append(value)


def _make_plan(
    clock: Clock, func: Callable, args: tuple, kwargs: dict, out: Any
) -> Plan:
    is_meta = isinstance(out, Tensor) and out.is_meta  # nothing was computed
    work = None if is_meta else work_of(func, args, kwargs, out)
    call = formulas.call_seconds(work, listed_tensors(args), clock.host)
    if work is None:
        return Plan(
            host=nanoseconds(call),
            card=None,
            kernels=0,
            kind="other",
            fills=False,
            call_duration=0,
        )
    setup = clock.host.setup.get(work.kind, 0)
    return Plan(
        host=nanoseconds(call - setup + host_seconds(work, clock.host)),
        card=nanoseconds(kernel_seconds(work, clock.sheet)),
        kernels=work.kernels,
        kind=work.kind,
        fills=fills(work, clock.sheet),
        call_duration=nanoseconds(call),
    )
