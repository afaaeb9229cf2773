"""What a CUDA graph captures, and how it is replayed.

A card notes the work of a capture and does none of it. Here the work is done, as the shapes of
results are not known otherwise, and what it changed is restored when the capture ends. A replay
does the work again, in the memory of the capture
(https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs).
"""

import threading
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn
from weakref import finalize

import torch
from torch import Tensor

from cudasim.device.generator import Generator, find, find_drawing
from cudasim.device.gpu import GPU, Allocation
from cudasim.device.types import cuda as runtime
from cudasim.dispatch import held, random
from cudasim.dispatch.arguments import map_tensors, operands_of, tensors_in
from cudasim.dispatch.captured import Mark
from cudasim.dispatch.liveness import Inputs
from cudasim.dispatch.mode import is_wrapper
from cudasim.dispatch.operators import operator_of, written_by
from cudasim.dispatch.tags import TAG, gpu_of, storage_of
from cudasim.modes import LightMode, decompose, is_composite
from cudasim.patching import changed
from cudasim.session import StreamKey, session
from cudasim.torch_private.dispatch import (
    BelowAutograd,
    DisableTorchDispatch,
    DispatchKey,
    DispatchKeySet,
    FakeTensor,
    WithoutKeys,
)
from cudasim.torch_private.operators import schema_of
from cudasim.torch_private.tensors import (
    address_of,
    set_grad_enabled,
)
from cudasim.tracebacks import release_operands
from cudasim.words import WORDS

# Operators that make memory and write nothing there.
EMPTY = (
    "empty empty_like empty_strided empty_permuted new_empty new_empty_strided".split()
)
AUTOCAST = DispatchKeySet(DispatchKey.AutocastCPU) | DispatchKeySet(
    DispatchKey.AutocastCUDA
)


class Source(NamedTuple):
    """A generator that an operation drew from, and the state that it had in the capture."""

    generator: Generator
    state: list[int]


class Step(NamedTuple):
    """One captured operation. Its tensors are aliases of those of the program."""

    func: Callable
    args: tuple
    kwargs: dict
    results: list[Tensor]
    source: Source | None
    grad: bool  # whether gradients were recorded: some kernels keep more for them then

    @property
    def operands(self) -> list[Tensor]:
        return operands_of(self.args, self.kwargs)


class RecordStep(NamedTuple):
    """The record of an external event, which each replay does where it was captured."""

    func: str  # what a dump calls it
    record: Callable[[], None]

    results = operands = ()


class Capture(LightMode):
    """The work of one graph, and the dispatch mode that sees it while it is captured.

    `error_mode` says what CUDA refuses meanwhile (`cudaStreamCaptureMode`). What the graph
    reads is noted in `inputs`, if there are any.
    """

    def __init__(
        self,
        origin: StreamKey,
        error_mode: str = "global",
        inputs: Inputs | None = None,
    ) -> None:
        super().__init__()
        self.inputs = inputs
        self.origin = origin
        self.error_mode = error_mode
        self.thread = threading.get_ident()
        self.steps: list[Step | RecordStep] = []
        # Set by something that a capture does not permit.
        self.failed = False
        # Streams that the capture took in and that have not come back.
        self.unjoined: set[StreamKey] = set()
        # Stream -> those that it has waited for.
        self.waited_for: dict[StreamKey, set[StreamKey]] = defaultdict(set)
        # The states of generators, by their identity, and what they were at the beginning.
        self.states: dict[int, tuple[list, list]] = {}

        # The storages that the graph uses, by their address: its aliases of each, ...
        self._aliases: dict[int, list[Tensor]] = defaultdict(list)
        # The capture may never end.
        finalize(self, held.let_go_all, self._aliases).atexit = False
        # ... which of them hold results, ...
        self._results: set[int] = set()
        # ... of which of these the memory may still be charged, ...
        self._charged: set[int] = set()
        # ... and (memory, copy) of those that were there before and were changed.
        self._before: dict[int, tuple[Tensor, Tensor]] = {}
        # The GPUs whose memory asks for results that the program no longer holds.
        self._watched: set[GPU] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple, kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        try:
            return self._run_or_record(func, types, args, kwargs)
        except BaseException as error:
            release_operands(error)
            args = kwargs = None
            raise

    def _run_or_record(self, func: Any, types: Any, args: tuple, kwargs: dict) -> Any:
        """Run an operation, and record it if its stream is captured."""
        if is_composite(func):
            return decompose(self, func, args, kwargs)
        if any(issubclass(kind, FakeTensor) for kind in types or ()):
            return func(*args, **kwargs)
        tensors = operands_of(args, kwargs)
        if types and any(is_wrapper(tensor) for tensor in tensors):
            return NotImplemented  # the subclass takes it apart

        gpu = next(filter(None, map(gpu_of, tensors)), None) or session.current()
        stream = session.stream_key(gpu.index)
        if session.capturing.get(stream) is not self:
            return func(*args, **kwargs)
        if self.failed and _launches(func):
            raise runtime.runtime_error(runtime.CAPTURE_FAILED)
        if stream != self.origin:
            self.unjoined.add(stream)
        return self._record(func, args, kwargs, gpu)

    def join(self, stream: StreamKey, streams: set[StreamKey]) -> None:
        """Note that `stream` has waited for `streams`."""
        self.waited_for[stream].update(streams)
        if stream == self.origin:
            self.unjoined -= streams
        else:
            self.unjoined.add(stream)

    def fail(self, result: int) -> NoReturn:
        """Refuse a call that the capture does not permit, and with it the graph."""
        self.failed = True
        raise runtime.runtime_error(result)

    def record_event(self, record: Callable[[], None]) -> None:
        """Capture the record of an external event."""
        self.steps.append(RecordStep("record of an event", record))

    def end(self) -> None:
        """End the capture as if nothing had been computed."""
        self.__exit__(None, None, None)
        self._free_unused()
        with _without_dispatch():
            for memory, copy in self._before.values():
                memory.copy_(copy)
            self._before.clear()
            self._forget_work_of_host()
            self._spoil_results()
        self._watch_results()
        for state, before in self.states.values():
            state[:] = before

    def _forget_work_of_host(self) -> None:
        """Drop the steps that use no GPU, and the aliases that none of the others uses."""
        self.steps = [step for step in self.steps if _is_on_gpu(step)]
        used = set()
        for step in self.steps:
            used |= _keys([*step.results, *step.operands])
        for key in self._aliases.keys() - used:
            held.let_go(key, len(self._aliases.pop(key)))

    def _spoil_results(self) -> None:
        """Fill results with NaN, so that a program cannot read them before a replay."""
        for step in self.steps:
            for result in step.results:
                if result.is_floating_point() or result.is_complex():
                    result.fill_(float("nan"))

    def release(self) -> None:
        """Give back all memory of the graph."""
        self._charged.clear()
        self._unwatch_results()
        self.steps.clear()
        held.let_go_all(self._aliases)
        self._results.clear()

    def replay(self) -> None:
        """Do the work of the graph in the memory that it was captured with."""
        for key in self._aliases:
            if not held.is_result(key) and not held.other_users(key):
                warnings.warn(WORDS["graphs"]["gone"], stacklevel=3)
                break

        for gpu in session.gpus:
            gpu.memory.suspend()
        try:
            self._run_steps()
        finally:
            for gpu in session.gpus:
                gpu.memory.resume()

    def _run_steps(self) -> None:
        # `no_grad` restores what the steps set.
        with torch.no_grad(), BelowAutograd(), WithoutKeys(AUTOCAST):
            for step in self.steps:
                if isinstance(step, RecordStep):
                    step.record()
                else:
                    set_grad_enabled(step.grad)
                    _run(step)

    def _record(self, func: Callable, args: tuple, kwargs: dict, gpu: GPU) -> Any:
        """Run an operation and note it as a step."""
        self._free_unused()
        written = tensors_in(written_by(func, args, kwargs))
        self._save(written)
        source = self._source(func, args, kwargs, gpu)
        grad = torch.is_grad_enabled()
        known = _keys(operands_of(args, kwargs))

        out = func(*args, **kwargs)
        for tensor in tensors_in((out,)):
            if tensor.layout is not torch.strided:
                raise NotImplementedError(
                    "cudasim: a CUDA graph here holds no sparse tensors"
                )

        if self.inputs is not None:
            self.inputs.note(operands_of(args, kwargs), tensors_in((out,)))
        new = _new_tensors(out, known)
        self._results |= _keys(new)
        self._charged |= _keys(new)
        args, kwargs = self._aliased((args, kwargs), written)
        results = [self._alias(tensor) for tensor in new]
        self.steps.append(Step(func, args, kwargs, results, source, grad))
        return out

    def _source(
        self, func: Callable, args: tuple, kwargs: dict, gpu: GPU
    ) -> Source | None:
        """Return the generator that an operation on `gpu` draws from, if it draws."""
        if random.kind(func) == random.PLAIN:
            return None
        given = random.given_generator(func, args, kwargs)
        # A factory is given what its generator has drawn already.
        generator = find_drawing(given)
        if generator is None:
            generator = gpu.generator if given is None else find(given)
        if generator is None:  # of the CPU
            return None
        if id(generator._state) in self.states:
            return Source(generator, generator._state)
        raise RuntimeError(
            "Attempt to increase offset for a CUDA generator not in capture mode."
        )

    def _save(self, written: list[Tensor]) -> None:
        """Keep what an operation is about to overwrite, unless the graph made it."""
        for tensor in written:
            key = _key(tensor)
            if key in self._results or key in self._before or gpu_of(tensor) is None:
                continue
            with _without_dispatch():
                memory = torch.empty(0, dtype=torch.uint8)
                memory.set_(tensor.untyped_storage())
                self._before[key] = (memory, memory.clone())

    def _aliased(self, value: Any, written: list[Tensor]) -> Any:
        """Return `value` with aliases in the place of tensors.

        A number on the CPU is captured as it is now, unless it is one of those `written`.
        """

        def alias(tensor: Tensor) -> Tensor:
            is_written = any(tensor is target for target in written)
            if is_written or not self._is_host_number(tensor):
                return self._alias(tensor)
            with _without_dispatch():
                return tensor.clone()

        return map_tensors(alias, value)

    def _is_host_number(self, tensor: Tensor) -> bool:
        if tensor.dim() or gpu_of(tensor) is not None:
            return False
        return _key(tensor) not in self._results

    def _alias(self, tensor: Tensor) -> Tensor:
        """Return another tensor on the same memory, as the program's own may go away."""
        with _without_dispatch():
            alias = torch.ops.aten.detach.default(tensor)
        key = _key(tensor)
        self._aliases[key].append(alias)
        held.hold(key, is_result=key in self._results)
        return alias

    def _free_unused(self) -> None:
        """Give the graph's pool the memory of results that the program no longer holds.

        The graph keeps their values here, while a card's next capture in the pool, or the
        next operation of this one, may overwrite them.
        """
        for key in list(self._charged):
            allocation = self._allocation_of(key)
            if allocation is not None and not held.other_users(key):
                self._charged.discard(key)
                storage = storage_of(self._aliases[key][0])
                setattr(storage, TAG, Allocation(allocation.gpu, 0))

    def _allocation_of(self, key: int) -> Allocation | None:
        """Return what is charged for a storage of the graph; None if nothing is."""
        tag = getattr(storage_of(self._aliases[key][0]), TAG, None)
        is_charged = tag is not None and tag.gpu is not None and tag.requested
        return tag if is_charged else None

    def _watch_results(self) -> None:
        """Find out, before memory is asked of again, which results the program holds.

        A card frees them as the last tensor on them goes, like any other memory (`free` in
        c10/cuda/CUDACachingAllocator.cpp).
        """
        self._charged &= self._aliases.keys()
        for key in list(self._charged):
            allocation = self._allocation_of(key)
            if allocation is None:
                self._charged.discard(key)
            else:
                self._watched.add(allocation.gpu)
        for gpu in self._watched:
            gpu.memory.settle(gpu.memory.collectors.append, self._collect)

    def _collect(self) -> None:
        self._free_unused()
        if not self._charged:
            self._unwatch_results()

    def _unwatch_results(self) -> None:
        while self._watched:
            memory = self._watched.pop().memory
            memory.settle(memory.collectors.remove, self._collect)


def refuse_query(event: Mark | None) -> None:
    """Raise CUDA's error if the host may not ask whether an event has happened.

    An event whose last record was captured stands for no work that ever runs.
    """
    if event is not None:
        event.capture.fail(runtime.CAPTURED_EVENT)
    refuse_unsafe()


def refuse_unsafe() -> None:
    """Raise CUDA's error if this thread may not call what might be unsafe in a capture.

    A thread may not while it captures, nor any thread while a capture is global
    (cudaThreadExchangeStreamCaptureMode in the reference of CUDA's runtime).
    """
    for capture in session.capturing.values():
        if capture.error_mode == "relaxed":
            continue
        if capture.error_mode == "global" or capture.thread == threading.get_ident():
            capture.fail(runtime.NOT_WHILE_CAPTURING)


def refuse_segment(index: int, stream_id: int) -> None:
    """Raise CUDA's error if a capture does not permit a new segment on GPU `index`.

    PyTorch permits itself one for a stream that is captured (`cudaMallocMaybeCapturing` in
    c10/cuda/CUDACachingAllocator.cpp).
    """
    if (index, stream_id) not in session.capturing:
        refuse_unsafe()


def refuse_gpu_wait(index: int) -> None:
    """Raise CUDA's error if the host waits for a GPU of which a stream is captured.

    No thread and no mode may wait for "a broader handle which encompasses an active stream
    capture" (Prohibited and Unhandled Operations in the CUDA programming guide).
    """
    for (gpu, _), capture in session.capturing.items():
        if gpu == index:
            capture.fail(runtime.NOT_WHILE_CAPTURING)


def refuse_stream_query(stream: StreamKey) -> None:
    """Raise CUDA's error if the host asks of a stream that is captured, or waits for it."""
    capture = session.capturing.get(stream)
    if capture is not None:
        capture.fail(runtime.NOT_WHILE_CAPTURING)


@contextmanager
def _without_dispatch() -> Iterator[None]:
    """Work on memory itself, with no mode and no gradient."""
    with DisableTorchDispatch(), torch.no_grad():
        yield


def _key(tensor: Tensor) -> int:
    """Return the address of C++'s storage of a tensor."""
    return address_of(storage_of(tensor))


def _keys(tensors: list[Tensor]) -> set[int]:
    return {_key(tensor) for tensor in tensors}


def _new_tensors(out: Any, known: set[int]) -> list[Tensor]:
    """Return the tensors of a result that are not on a storage known before.

    Those that wrap others, such as functional collectives return, have no memory.
    """
    new = []
    for tensor in tensors_in((out,)):
        if _key(tensor) not in known and not is_wrapper(tensor):
            new.append(tensor)
    return new


def _launches(func: Callable) -> bool:
    """Tell whether an operator runs a kernel: not for a view, nor for memory as it is."""
    operator = operator_of(func)
    writes = operator.makes_tensors or operator.written
    return bool(writes) and _name_of(func) not in EMPTY


def _name_of(func: Callable) -> str:
    return schema_of(func).name.partition("::")[2]


def _is_on_gpu(step: Step | RecordStep) -> bool:
    is_record = isinstance(step, RecordStep)
    return is_record or any(map(gpu_of, (*step.results, *step.operands)))


def _run(step: Step) -> None:
    """Do a step again, with its results in the memory that they had."""
    writes = step.results or operator_of(step.func).written
    if _name_of(step.func) in EMPTY or not writes:
        return  # memory as it is, or a view
    out = _call(step)
    if step.results:
        new = _new_tensors(out, _keys(step.operands))
        with DisableTorchDispatch():
            for result, fresh in zip(step.results, new, strict=True):
                result.copy_(fresh)


def _call(step: Step) -> Any:
    if step.source is None:
        return step.func(*step.args, **step.kwargs)
    generator, state = step.source
    with changed(generator, _state=state):
        given = random.given_generator(step.func, step.args, step.kwargs)
        if find_drawing(given) is not None:
            generator.draw()  # as the factory did before it ran the operation
        return step.func(*step.args, **step.kwargs)
