"""What each operation costs on the virtual clock, told after the CPU has computed its result. Costs
depend on shapes, types and layouts alone, so they are found once for each combination."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from cudasim.clock.clock import IN, OUT, Clock, nanoseconds
from cudasim.clock.costs import WAITS, operands, work_of
from cudasim.device.gpu import GPU
from cudasim.dispatch.tags import PINNED, TAG, storage_of
from cudasim.dispatch.waiting import waits
from cudasim.session import session
from cudasim.timing import formulas
from cudasim.timing.formulas import copy_seconds, fills, host_seconds, kernel_seconds

aten = torch.ops.aten
NUMBER = 8  # bytes that are read back to the host by what waits for a count, as `nonzero` does
# Bytes of pageable memory that CUDA copies before it returns, and need not wait for the stream:
# https://docs.nvidia.com/cuda/cuda-driver-api/api-sync-behavior.html.
STAGED = 64 * 2**10
PLANS = 1_000  # combinations that are remembered of one operation
VALUES = (
    int,
    bool,
    str,
    torch.dtype,
)  # types of other arguments on which a cost may depend
PRODUCTS, PRECISE = (
    ("matmul", "convolution"),
    ("matmul", "conv"),
)  # kinds, and their settings

Home = GPU | None  # None is the host


class Plan(NamedTuple):
    """What one combination of operation, shapes and types costs, in nanoseconds."""

    host: int  # of the host's, where the CPU computes, or nothing is
    card: int | None  # of a card's; None for a view or a question, which no card sees
    kernels: int
    kind: str
    fills: bool
    call: int  # of the host's, to have a card compute it, without launches


class Operation:
    """What is found once of each operation: how to book it, and its plans so far."""

    def __init__(self, func: Callable) -> None:
        packet = getattr(func, "overloadpacket", None)
        self.name = packet.__name__ if packet else str(func)
        self.copies = func in (aten.copy_.default, aten._to_copy.default)
        self.reads_back = func is aten._local_scalar_dense.default
        self.may_wait = func in WAITS
        self.product = False  # whether its cost depends on PyTorch's setting of tf32
        self.plans: dict[tuple, Plan] = {}


_operations: dict[Callable, Operation] = {}
forget = _operations.clear


def book(func: Callable, args: tuple, kwargs: dict, out: Any) -> None:
    """Book what `func` did with these arguments, and the wait for it if the host waits."""
    clock = session.clock
    if session.thread.met:  # a collective, booked where the ranks met
        session.thread.met = False
        return
    operation = _operations.get(func)
    if operation is None:
        operation = _operations[func] = Operation(func)
    if operation.copies and _book_crossing(func, args, kwargs, out):
        return
    thread = session.thread
    gpu = thread.doing.making or _home_of(out) or _gpu_among((*args, *kwargs.values()))
    if gpu is not None and operation.reads_back:
        read_back(gpu, operation.name, args[0].element_size())
        return
    plan = _plan(operation, func, args, kwargs, out)
    if gpu is None or plan.card is None:
        clock.spend(clock.call(plan.host), operation.name)
    else:
        stream = thread.streams.get(gpu.index, 0)
        if (gpu.index, stream) in session.capturing:
            clock.spend(
                clock.call(plan.call) + clock.launch * plan.kernels, operation.name
            )
            return
        clock.kernel(gpu.index, stream, operation.name, *plan[1:])
        if operation.may_wait and waits(func, args, kwargs):
            read_back(gpu, operation.name)


def stream_on(gpu: GPU) -> int:
    return session.current_stream(gpu.index)


def _home_of(value: Any) -> Home:
    tag = getattr(storage_of(value), TAG, None) if isinstance(value, Tensor) else None
    return None if tag is None else tag.gpu


def _gpu_among(values: Iterable) -> Home:
    """The GPU of the first tensor on one, in lists too."""
    for value in values:
        found = (
            _gpu_among(value) if isinstance(value, list | tuple) else _home_of(value)
        )
        if found is not None:
            return found
    return None


def read_back(gpu: GPU, name: Any, size: int = NUMBER) -> None:
    """Book `size` bytes that travel to the host, which waits for them."""
    clock = session.clock
    duration = nanoseconds(copy_seconds(size, clock.sheet, "pageable", OUT))
    clock.wait_until(
        clock.copy([(gpu.index, OUT)], stream_on(gpu), duration, size), name
    )


def _book_crossing(func: Callable, args: tuple, kwargs: dict, out: Any) -> bool:
    """Book a copy between devices; False if it is none."""
    target, source, *given = args if func is aten.copy_.default else (out, args[0])
    here, there = _home_of(source), _home_of(target)
    if here is not there:
        non_blocking = given[0] if given else kwargs.get("non_blocking", False)
        book_copy(source, target, here, there, non_blocking)
    return here is not there


def book_copy(
    source: Tensor, target: Tensor, here: Home, there: Home, non_blocking: bool
) -> None:
    """Book a copy of `source`, on GPU `here`, to `target`, on GPU `there`; None is the host.
    Numbers of another type or layout are first made such where they are."""
    clock = session.clock
    if any(
        gpu and (gpu.index, stream_on(gpu)) in session.capturing
        for gpu in (here, there)
    ):
        clock.spend(clock.operation + clock.launch, "copy")
        return
    size = target.numel() * target.element_size()
    if source.dtype is not target.dtype or not _same_layout(source, target):
        _convert(clock, source, size, here)
    if here is not None and there is not None:
        seconds = copy_seconds(size, clock.sheet, "peer")
        engines = [(here.index, OUT), (there.index, IN)]
        arrived = clock.cards[there.index].stream(stream_on(there)).end
        clock.hold(here.index, stream_on(here), arrived)
        end = clock.copy(engines, stream_on(here), nanoseconds(seconds), size)
        clock.hold(there.index, stream_on(there), end)
        return
    host, gpu, way = (source, there, IN) if here is None else (target, here, OUT)
    pinned = hasattr(storage_of(host), PINNED)
    seconds = copy_seconds(size, clock.sheet, "pinned" if pinned else "pageable", way)
    end = clock.copy([(gpu.index, way)], stream_on(gpu), nanoseconds(seconds), size)
    staged = (
        way == IN and size <= STAGED and not pinned
    )  # the driver keeps a copy of so little
    if not (non_blocking and (pinned or staged)):
        clock.wait_until(end, "copy")


def _same_layout(source: Tensor, target: Tensor) -> bool:
    if source.layout is not torch.strided or target.layout is not torch.strided:
        return True
    return source.stride() == target.stride() or (
        source.is_contiguous() and target.is_contiguous()
    )


def _convert(clock: Clock, source: Tensor, size: int, gpu: Home) -> None:
    work = formulas.Work(
        "copy", 0.0, float(source.numel() * source.element_size() + size)
    )
    if gpu is None:
        clock.spend(nanoseconds(host_seconds(work, clock.host)), "convert")
    else:
        duration, full = (
            nanoseconds(kernel_seconds(work, clock.sheet)),
            fills(work, clock.sheet),
        )
        clock.kernel(gpu.index, stream_on(gpu), "convert", duration, fills=full)


def _plan(
    operation: Operation, func: Callable, args: tuple, kwargs: dict, out: Any
) -> Plan:
    key = [isinstance(out, Tensor) and out.is_meta]
    _describe((*args, *kwargs.values(), out), key)
    if operation.product:
        key += (torch._C._get_fp32_precision_getter("cuda", kind) for kind in PRECISE)
    key = tuple(key)
    plan = operation.plans.get(key)
    if plan is None:
        plan = _make_plan(session.clock, func, args, kwargs, out)
        if plan.kind in PRODUCTS and not operation.product:
            operation.product = True  # from now on its keys hold the setting
            return plan
        if len(operation.plans) >= PLANS:
            operation.plans.clear()
        operation.plans[key] = plan
    return plan


def _describe(values: Iterable, key: list) -> None:
    """Add to `key` what the cost may depend on; the values of floats are not among it."""
    for value in values:
        if is_lazy(value):  # a parameter without a shape yet
            key.append(is_lazy)
        elif isinstance(value, Tensor):
            strided = value.layout is torch.strided
            key += (
                value.shape,
                value.stride() if strided else value.layout,
                value.dtype,
            )
        elif isinstance(value, list | tuple):
            key.append(len(value))
            _describe(value, key)
        elif value is None or type(value) in VALUES:
            key.append(value)


def _make_plan(
    clock: Clock, func: Callable, args: tuple, kwargs: dict, out: Any
) -> Plan:
    empty = isinstance(out, Tensor) and out.is_meta  # which took no time to compute
    work = None if empty else work_of(func, args, kwargs, out)
    call = formulas.call_seconds(work, operands(args), clock.host)
    if work is None:
        return Plan(nanoseconds(call), None, 0, "other", False, 0)
    setup = clock.host.setup.get(work.kind, 0)
    host = nanoseconds(call - setup + host_seconds(work, clock.host))
    card = nanoseconds(kernel_seconds(work, clock.sheet))
    full = fills(work, clock.sheet)
    return Plan(host, card, work.kernels, work.kind, full, nanoseconds(call))
