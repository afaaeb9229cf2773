"""What a CUDA graph captures, and how it is replayed.

While a stream is captured, a card notes its work and does none of it. Here the work is done, as
only then the shapes of results are known, and what it changed is put back when the capture ends;
a replay does it again, in the memory in which it was captured. The rules are those of
https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs.
"""

import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._C import DispatchKey, DispatchKeySet
from torch._subclasses.fake_tensor import FakeTensor

from cudasim.device.generator import Generator, find, find_drawing
from cudasim.device.gpu import GPU, Allocation
from cudasim.device.types import cuda as runtime
from cudasim.dispatch import random
from cudasim.dispatch.arguments import mapped, tensors_in
from cudasim.dispatch.mode import is_wrapper
from cudasim.dispatch.operators import operator_of, written_by
from cudasim.dispatch.tags import TAG, gpu_of, storage_of
from cudasim.modes import LightMode, decompose, is_composite
from cudasim.session import session

Place = tuple[int, int]  # a stream: the index of its GPU, and its id

EMPTY = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty")
EMPTY += ("new_empty_strided",)  # make memory and write nothing there
AUTOCAST = DispatchKeySet(DispatchKey.AutocastCPU) | DispatchKeySet(DispatchKey.AutocastCUDA)
GONE = (
    "cudasim: the graph reads a tensor of which the program holds nothing any more; a GPU would "
    "find in its memory what came there since"
)


class Step(NamedTuple):
    """One operation: its arguments and results as names of memory, and whence it draws."""

    func: Callable
    args: tuple
    kwargs: dict
    results: list[Tensor]
    source: tuple[Generator, list] | None
    grad: bool  # whether gradients were recorded then: some kernels keep more for them


@dataclass
class Known:
    """A storage that the graph knows: one of its tensors, and how many the graph holds itself."""

    tensor: Tensor
    held: int = 0


class Capture:
    """The work of one graph, from the begin of its capture."""

    def __init__(self, origin: Place) -> None:
        """A graph without work, to be captured from the stream `origin` on."""
        self.origin = origin
        self.steps: list[Step] = []
        self.failed = False  # by something that a capture does not permit
        self.unjoined: set[Place] = set()  # streams that it took in and that have not come back
        self._behind: dict[Place, set[Place]] = {}  # stream -> those whose work it waits for
        self._made: dict[int, Known] = {}  # storages of results, by address
        self._read: dict[int, Known] = {}  # those that were there before
        self._before: dict[int, tuple[Tensor, Tensor]] = {}  # what they held, where it was changed
        self._states: dict[int, tuple[list, list]] = {}  # of generators, and what they were
        self._recorder = Recorder(self)

    def waited_for(self, place: Place) -> set[Place]:
        """The streams whose work a stream has waited for."""
        return self._behind.setdefault(place, set())

    def join(self, place: Place, streams: set[Place]) -> None:
        """A stream waits for what others have done so far."""
        self.waited_for(place).update(streams)
        if place == self.origin:
            self.unjoined -= streams
        else:
            self.unjoined.add(place)

    def begin(self) -> None:
        """From now on the work of this thread is captured."""
        self._recorder.__enter__()

    def end(self) -> None:
        """The capture is over: nothing has been done, and results hold nothing yet."""
        self._recorder.__exit__(None, None, None)
        self._let_go()
        with torch._C._DisableTorchDispatch(), torch.no_grad():
            for memory, copy in self._before.values():
                memory.copy_(copy)
            self._before.clear()
            self.steps = [step for step in self.steps if self._is_of_gpu(step)]
            for result in {id(each): each for step in self.steps for each in step.results}.values():
                if result.is_floating_point() or result.is_complex():
                    result.fill_(float("nan"))  # what is read before a replay is no result
        for state, was in self._states.values():
            state[:] = was

    def keep_state(self, state: list) -> None:
        """Note where a generator is, as captured work does not move it on."""
        self._states.setdefault(id(state), (state, list(state)))

    def note(self, func: Callable, args: tuple, kwargs: dict, place: Place) -> Any:
        """Run an operation of a stream, and note it.

        Raises NotImplementedError for sparse results, RuntimeError with PyTorch's text for a
        generator that the graph does not know.
        """
        if place != self.origin:
            self.unjoined.add(place)
        self._let_go()
        self._save(func, args, kwargs)
        grad = torch.is_grad_enabled()
        source = self._source(func, kwargs, session.gpus[place[0]])
        known = {storage_of(each)._cdata for each in tensors_in((*args, *kwargs.values()))}
        out = func(*args, **kwargs)
        results = []
        for each in tensors_in((out,)):
            if each.layout is not torch.strided:
                raise NotImplementedError("cudasim: a CUDA graph here holds no sparse tensors")
            if storage_of(each)._cdata not in known:
                results.append(self._name(each, self._made))
        changed = {id(each) for each in _changed(func, args, kwargs)}
        given, named = self._names(args, changed), self._names(kwargs, changed)
        self.steps.append(Step(func, given, named, results, source, grad))
        return out

    def replay(self) -> None:
        """Do the captured work again, on the memory that it was captured with."""
        for memory in self._read.values():
            if _holders(memory) == 0:
                warnings.warn(GONE, stacklevel=3)
                break
        memories = [gpu.memory for gpu in session.gpus]
        for each in memories:
            each.change(suspended=threading.get_ident())
        try:
            with (
                torch.no_grad(),  # restores what the steps set
                torch._C._AutoDispatchBelowAutograd(),
                torch._C._ExcludeDispatchKeyGuard(AUTOCAST),
            ):
                for step in self.steps:
                    torch._C._set_grad_enabled(step.grad)
                    self._do(step)
        finally:
            for each in memories:
                each.change(suspended=0)

    def _do(self, step: Step) -> None:
        name = step.func._schema.name.partition("::")[2]
        if name in EMPTY or (not step.results and not operator_of(step.func).written):
            return  # a view, or memory as it is
        if step.source is None:
            out = step.func(*step.args, **step.kwargs)
        else:
            generator, state = step.source
            with generator.sharing(state):
                if find_drawing(step.kwargs.get("generator")) is not None:
                    generator.draw()  # a factory, which was given what a draw returned
                out = step.func(*step.args, **step.kwargs)
        if step.results:
            known = {
                storage_of(each)._cdata for each in tensors_in((*step.args, *step.kwargs.values()))
            }
            new = [each for each in tensors_in((out,)) if storage_of(each)._cdata not in known]
            with torch._C._DisableTorchDispatch():
                for mine, fresh in zip(step.results, new, strict=True):
                    mine.copy_(fresh)

    def _is_of_gpu(self, step: Step) -> bool:
        tensors = [*step.results, *tensors_in((*step.args, *step.kwargs.values()))]
        return any(gpu_of(each) is not None for each in tensors)

    def _source(self, func: Callable, kwargs: dict, gpu: GPU) -> tuple[Generator, list] | None:
        """The generator from which an operation draws, and its state; None if it draws nothing.

        A factory's has been drawn from already.
        """
        if random.kind(func) == random.PLAIN:
            return None
        given = kwargs.get("generator")
        drawn = find_drawing(given)
        generator = drawn or (gpu.generator if given is None else find(given))
        if generator is None:
            return None  # of the CPU
        if id(generator._state) not in self._states:
            raise RuntimeError(
                "Attempt to increase offset for a CUDA generator not in capture mode."
            )
        return generator, generator._state

    def _save(self, func: Callable, args: tuple, kwargs: dict) -> None:
        """Keep what an operation is about to change, unless the graph made it."""
        for tensor in _changed(func, args, kwargs):
            key = storage_of(tensor)._cdata
            if gpu_of(tensor) and key not in self._made and key not in self._before:
                with torch._C._DisableTorchDispatch(), torch.no_grad():
                    whole = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
                    self._before[key] = whole, whole.clone()

    def _names(self, value: Any, changed: set[int]) -> Any:
        """`value` with each tensor replaced by a name of its memory.

        A number of the CPU's is kept as it is now, as a kernel is captured with it, unless it is
        among those that the operation has `changed`.
        """

        def named(item: Any) -> Any:
            if not isinstance(item, Tensor):
                return item
            key = storage_of(item)._cdata
            is_number = not item.dim() and gpu_of(item) is None and key not in self._made
            if is_number and id(item) not in changed:
                with torch._C._DisableTorchDispatch(), torch.no_grad():
                    return item.clone()
            return self._name(item, self._made if key in self._made else self._read)

        return mapped(named, value)

    def _name(self, tensor: Tensor, memories: dict[int, Known]) -> Tensor:
        """Another tensor on the same memory: the program's own may go, and its memory with it."""
        with torch._C._DisableTorchDispatch(), torch.no_grad():
            name = torch.ops.aten.detach.default(tensor)
        memory = memories.setdefault(storage_of(tensor)._cdata, Known(name))
        memory.held += 1
        return name

    def _let_go(self) -> None:
        """Give the graph's pool the memory of results that the program holds no more."""
        for memory in self._made.values():
            storage = storage_of(memory.tensor)
            tag = getattr(storage, TAG, None)
            if tag is not None and tag.gpu is not None and tag.requested and not _holders(memory):
                setattr(storage, TAG, Allocation(tag.gpu, 0))

    def release(self) -> None:
        """Forget the work, and let go of the memory."""
        self.steps.clear()
        self._made.clear()
        self._read.clear()


class Mark(NamedTuple):
    """What an event stands for: the work of `streams` so far, in a capture."""

    capture: Capture
    streams: set[Place]


class Recorder(LightMode):
    """The dispatch mode that sees the operations of a thread while it captures."""

    def __init__(self, capture: Capture) -> None:
        """Operations go to `capture`."""
        super().__init__()
        self._capture = capture

    def __torch_dispatch__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Run `func`, and note it if it is work of a stream that is captured."""
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
        if session.capturing.get(place) is not self._capture:
            return func(*args, **kwargs)
        return self._capture.note(func, args, kwargs, place)


def _holders(memory: Known) -> int:
    """How many tensors beside the graph's own use that memory.

    One more use is that of the Python object which carries the storage's tag.
    """
    return torch._C._storage_Use_Count(storage_of(memory.tensor)._cdata) - memory.held - 1


def _changed(func: Callable, args: tuple, kwargs: dict) -> list[Tensor]:
    """The tensors among these arguments that an operation changes."""
    return tensors_in(written_by(func, args, kwargs))


def mark(place: Place) -> Mark | None:
    """What an event that is recorded in a stream stands for, if the stream is captured."""
    capture = session.capturing.get(place)
    return None if capture is None else Mark(capture, {place, *capture.waited_for(place)})


def wait(place: Place, event: Mark | None) -> None:
    """A stream waits for an event: it is captured too, or back where the capture began.

    Raises CUDA's error where a captured stream waits for work that is not.
    """
    capture = session.capturing.get(place)
    if event is not None and session.capturing.get(event.capture.origin) is event.capture:
        session.capturing[place] = event.capture
        event.capture.join(place, event.streams)
    elif capture is not None:
        capture.failed = True
        raise runtime.runtime_error(runtime.UNCAPTURED_WORK)
