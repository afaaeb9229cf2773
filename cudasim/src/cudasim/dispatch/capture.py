"""What a CUDA graph captures, and how it is replayed.

A card notes the work and does none of it. Here it is done, as only then the shapes of results are
known, and what it changed is put back when the capture ends; a replay does it again, in the memory
of the capture (https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs)."""

import itertools
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._C import DispatchKey, DispatchKeySet
from torch._subclasses.fake_tensor import FakeTensor

from cudasim.device.generator import Generator, find, find_drawing
from cudasim.device.gpu import GPU, Allocation
from cudasim.device.types import cuda as runtime
from cudasim.dispatch import random
from cudasim.dispatch.arguments import map_tensors, tensors_in
from cudasim.dispatch.mode import is_wrapper
from cudasim.dispatch.operators import operator_of, written_by
from cudasim.dispatch.tags import TAG, gpu_of, storage_of
from cudasim.modes import LightMode, decompose, is_composite
from cudasim.patching import changed
from cudasim.session import session
from cudasim.words import WORDS

Place = tuple[int, int]  # a stream: the index of its GPU, and its id

# Make memory and write nothing there.
EMPTY = (
    "empty empty_like empty_strided empty_permuted new_empty new_empty_strided".split()
)
AUTOCAST = DispatchKeySet(DispatchKey.AutocastCPU) | DispatchKeySet(
    DispatchKey.AutocastCUDA
)


class Step(NamedTuple):
    """One operation: its arguments and results as names of memory, and whence it draws."""

    func: Callable
    args: tuple
    kwargs: dict
    results: list[Tensor]
    source: tuple[Generator, list] | None
    grad: bool  # whether gradients were recorded then: some kernels keep more for them

    @property
    def operands(self) -> list[Tensor]:
        return tensors_in((*self.args, *self.kwargs.values()))


class Capture(LightMode):
    """The work of one graph, and the dispatch mode that sees it while its thread captures."""

    def __init__(self, origin: Place) -> None:
        super().__init__()
        self.origin = origin
        self.steps: list[Step] = []
        self.failed = False  # by something that a capture does not permit
        self.unjoined: set[Place] = (
            set()
        )  # streams that it took in and that have not come back
        self.waited_for: dict[Place, set[Place]] = defaultdict(set)  # by each stream
        # Names, by the address of a storage; and which of these hold results.
        self._names: dict[int, list[Tensor]] = defaultdict(list)
        self._made: set[int] = set()
        self._before: dict[
            int, tuple[Tensor, Tensor]
        ] = {}  # what they held, where it was changed
        self.states: dict[
            int, tuple[list, list]
        ] = {}  # of generators, and what they were

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple, kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if is_composite(func):
            return decompose(self, func, args, kwargs)
        tensors = tensors_in((*args, *kwargs.values()))
        if any(issubclass(kind, FakeTensor) for kind in types or ()):
            return func(*args, **kwargs)
        if types and any(is_wrapper(tensor) for tensor in tensors):
            return NotImplemented  # the subclass takes it apart
        gpu = next(filter(None, map(gpu_of, tensors)), None) or session.current()
        place = gpu.index, session.current_stream(gpu.index)
        if session.capturing.get(place) is not self:
            return func(*args, **kwargs)
        if place != self.origin:
            self.unjoined.add(place)
        return self._note(func, args, kwargs, gpu)

    def join(self, place: Place, streams: set[Place]) -> None:
        self.waited_for[place].update(streams)
        if place == self.origin:
            self.unjoined -= streams
        else:
            self.unjoined.add(place)

    def end(self) -> None:
        """The capture is over: nothing has been done, and results hold nothing yet."""
        self.__exit__(None, None, None)
        self._let_go()
        with torch._C._DisableTorchDispatch(), torch.no_grad():
            for memory, copy in self._before.values():
                memory.copy_(copy)
            self._before.clear()
            on_gpu = [
                any(map(gpu_of, (*each.results, *each.operands))) for each in self.steps
            ]
            self.steps = [*itertools.compress(self.steps, on_gpu)]
            for result in (each for step in self.steps for each in step.results):
                if result.is_floating_point() or result.is_complex():
                    result.fill_(
                        float("nan")
                    )  # what is read before a replay is no result
        for state, was in self.states.values():
            state[:] = was

    def release(self) -> None:
        self.steps.clear()
        self._names.clear()
        self._made.clear()

    def replay(self) -> None:
        read = (names for key, names in self._names.items() if key not in self._made)
        if not all(map(_holders, read)):
            warnings.warn(WORDS["graphs"]["gone"], stacklevel=3)
        for gpu in session.gpus:
            gpu.memory.change(suspended=threading.get_ident())
        try:
            # The first restores what the steps set.
            below = torch._C._AutoDispatchBelowAutograd
            with torch.no_grad(), below(), torch._C._ExcludeDispatchKeyGuard(AUTOCAST):
                for step in self.steps:
                    torch._C._set_grad_enabled(step.grad)
                    _do(step)
        finally:
            for gpu in session.gpus:
                gpu.memory.change(suspended=0)

    def _note(self, func: Callable, args: tuple, kwargs: dict, gpu: GPU) -> Any:
        self._let_go()
        changed = tensors_in(written_by(func, args, kwargs))
        self._save(changed)
        grad, source = torch.is_grad_enabled(), self._source(func, kwargs, gpu)
        known = set(map(_key, tensors_in((*args, *kwargs.values()))))
        out = func(*args, **kwargs)
        if any(each.layout is not torch.strided for each in tensors_in((out,))):
            raise NotImplementedError(
                "cudasim: a CUDA graph here holds no sparse tensors"
            )
        new = _new(out, known)
        self._made.update(map(_key, new))
        args, kwargs = self._named((args, kwargs), changed)
        self.steps.append(
            Step(func, args, kwargs, list(map(self._name, new)), source, grad)
        )
        return out

    def _source(
        self, func: Callable, kwargs: dict, gpu: GPU
    ) -> tuple[Generator, list] | None:
        """The generator from which an operation draws, a factory has drawn; and its state."""
        if random.kind(func) == random.PLAIN:
            return None
        given = kwargs.get("generator")
        generator = find_drawing(given) or (
            gpu.generator if given is None else find(given)
        )
        if generator is None:  # of the CPU
            return None
        if id(generator._state) in self.states:
            return generator, generator._state
        raise RuntimeError(
            "Attempt to increase offset for a CUDA generator not in capture mode."
        )

    def _save(self, changed: list[Tensor]) -> None:
        """Keep what an operation is about to change, unless the graph made it."""
        for tensor in changed:
            key = _key(tensor)
            if gpu_of(tensor) and key not in self._made and key not in self._before:
                with torch._C._DisableTorchDispatch(), torch.no_grad():
                    whole = torch.empty(0, dtype=torch.uint8).set_(
                        tensor.untyped_storage()
                    )
                    self._before[key] = whole, whole.clone()

    def _named(self, value: Any, changed: list[Tensor]) -> Any:
        """`value` with names of memory for tensors. A number of the CPU's that is not `changed` is
        kept as it is now: a kernel is captured so."""

        def named(item: Tensor) -> Tensor:
            number = (
                not item.dim() and gpu_of(item) is None and _key(item) not in self._made
            )
            if not number or any(item is each for each in changed):
                return self._name(item)
            with torch._C._DisableTorchDispatch(), torch.no_grad():
                return item.clone()

        return map_tensors(named, value)

    def _name(self, tensor: Tensor) -> Tensor:
        """Another tensor on the same memory: the program's own may go, and its memory with it."""
        with torch._C._DisableTorchDispatch(), torch.no_grad():
            name = torch.ops.aten.detach.default(tensor)
        self._names[_key(tensor)].append(name)
        return name

    def _let_go(self) -> None:
        """Give the graph's pool the memory of results that the program holds no more."""
        for names in map(self._names.get, self._made):
            storage = storage_of(names[0])
            tag = getattr(storage, TAG, None)
            if (
                tag is not None
                and tag.gpu is not None
                and tag.requested
                and not _holders(names)
            ):
                setattr(storage, TAG, Allocation(tag.gpu, 0))


class Mark(NamedTuple):
    """What an event in a captured stream stands for: the work of `streams` so far."""

    capture: Capture
    streams: set[Place]


def _key(tensor: Tensor) -> int:
    return storage_of(tensor)._cdata


def _holders(names: list[Tensor]) -> int:
    """How many tensors, beside its `names` and the Python object with the tag, use a memory."""
    return torch._C._storage_Use_Count(_key(names[0])) - len(names) - 1


def _new(out: Any, known: set[int]) -> list[Tensor]:
    return [each for each in tensors_in((out,)) if _key(each) not in known]


def _do(step: Step) -> None:
    name = step.func._schema.name.partition("::")[2]
    if name in EMPTY or (not step.results and not operator_of(step.func).written):
        return  # a view, or memory as it is
    generator, state = step.source or (None, None)
    with nullcontext() if generator is None else changed(generator, _state=state):
        if (
            generator is not None
            and find_drawing(step.kwargs.get("generator")) is not None
        ):
            generator.draw()  # a factory, which was given what a draw returned
        out = step.func(*step.args, **step.kwargs)
    if step.results:
        new = _new(out, set(map(_key, step.operands)))
        with torch._C._DisableTorchDispatch():
            for mine, fresh in zip(step.results, new, strict=True):
                mine.copy_(fresh)


def mark(place: Place) -> Mark | None:
    capture = session.capturing.get(place)
    return (
        None if capture is None else Mark(capture, {place, *capture.waited_for[place]})
    )


def wait(place: Place, event: Mark | None) -> None:
    """A stream waits for an event: it is captured too, or back where the capture began. Raises
    CUDA's error where a captured stream waits for work that is not."""
    capture = session.capturing.get(place)
    if (
        event is not None
        and session.capturing.get(event.capture.origin) is event.capture
    ):
        session.capturing[place] = event.capture
        event.capture.join(place, event.streams)
    elif capture is not None:
        capture.failed = True
        raise runtime.runtime_error(runtime.UNCAPTURED_WORK)
