"""How long a callable would take on a card, from shapes alone: nothing is computed."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from cudasim.clock.compiled import compile_fused
from cudasim.clock.costs import WAITS, listed_tensors, work_of
from cudasim.clock.watching import paying_functions
from cudasim.modes import LightMode, decompose, is_composite
from cudasim.patching import Patches, changed
from cudasim.timing.formulas import Work, call_seconds, guard_seconds, kernel_seconds
from cudasim.timing.sheets import Host, Sheet, find_sheet, host_sheet

# The modes of `torch.compile` that launch the kernels of a graph at once.
GRAPH_MODES = ("reduce-overhead", "max-autotune")


class Estimate(LightMode):
    """Add up what the operations inside take, on one stream of a card.

    The host is the one beside the card unless another is given. `works` holds the work
    of each operation that launched kernels.
    """

    def __init__(self, sheet: Sheet, host: Host | None = None) -> None:
        super().__init__()
        self.sheet = sheet
        self.host = host or host_sheet(sheet)
        self.thread = SimpleNamespace(by_engine=False)
        self.now = 0.0  # the host's time, in seconds
        self.end = 0.0  # of the last kernel
        self.works: list[Work] = []
        self._holds = False  # whether operations are part of a kernel, and not added
        self._in_graph = False  # whether the host has launched all kernels at once
        self._patches = Patches()

    def __enter__(self) -> "Estimate":
        for owner, name, function in paying_functions(self):
            self._patches.replace(owner, name, function)
        return super().__enter__()

    def __exit__(self, *problem: Any) -> None:
        super().__exit__(*problem)
        self._patches.restore()

    def restart(self) -> None:
        """Begin again at 0."""
        self.now = self.end = 0.0
        self.works.clear()

    def pay(self, seconds: float) -> None:
        self.now += seconds

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if is_composite(func):
            return decompose(self, func, args, kwargs)
        out = func(*args, **kwargs)
        if self._holds:
            return out
        self._add(work_of(func, args, kwargs, out), args)
        if func in WAITS and WAITS[func](args, kwargs, _is_on_host):
            self.now = max(self.now, self.end) + self.sheet.wait
        return out

    def _add(self, work: Work | None, args: tuple) -> None:
        self._call(call_seconds(work, listed_tensors(args), self.host))
        if work is not None:
            self._launch(work)

    def _call(self, seconds: float) -> None:
        if self._in_graph:
            return
        self.now += seconds
        if self.thread.by_engine:
            self.now -= self.host.python

    def _launch(self, work: Work) -> None:
        if not self._in_graph:
            self.now += self.sheet.launch * work.kernels
        self.end = max(self.end, self.now) + kernel_seconds(work, self.sheet)
        self.works.append(work)

    # What compiled graphs call: see `Books` in `compiled.py`.

    def hold(self) -> AbstractContextManager:
        return changed(self, _holds=True)

    def launch(self, device: torch.device, name: str, work: Work) -> None:
        self._call(self.host.python)
        self._launch(work)

    def check_guards(self, tensors: int, needs_gradients: bool) -> None:
        self.pay(guard_seconds(tensors, needs_gradients, self.host))

    def one_launch(self, device: torch.device) -> AbstractContextManager:
        self._call(self.host.operation + self.sheet.launch)
        return changed(self, _in_graph=True)

    def compile(self, function: Callable, mode: str) -> Callable:
        """Compile `function` to be added as the kernels that Inductor would generate."""
        as_graph = mode in GRAPH_MODES

        def backend(graph: GraphModule, inputs: Any) -> Callable:
            return compile_fused(graph, inputs, self, _is_on_card, as_graph)

        return torch.compile(function, backend=backend)

    @property
    def busy(self) -> float:
        """The seconds that the card works."""
        return sum(kernel_seconds(work, self.sheet) for work in self.works)

    @property
    def seconds(self) -> float:
        return max(self.now, self.end)


def _is_on_card(tensor: Tensor) -> bool:
    return True


def _is_on_host(tensor: Tensor) -> bool:
    # Single numbers are taken to be the program's own, all else to be on the card.
    return tensor.dim() == 0


def estimate(
    function: Callable[[], Any],
    card: str | Sheet,
    host: Host | None = None,
    repeat: int = 1,
    compiled: str | None = None,
) -> float:
    """Return the modelled seconds that `function()` takes on `card`.

    This is the mean of `repeat` calls in a row. The tensors of the function are real,
    fake, or of the meta device, which it must not ask for values; its data are on the
    card already. `compiled` names a mode of `torch.compile` with which the function is
    compiled first. Raises ValueError for an unknown card.
    """
    sheet = find_sheet(card) if isinstance(card, str) else card
    mode = Estimate(sheet, host)
    if compiled is not None:
        function = mode.compile(function, compiled)
        function()  # which compiles it
        mode.restart()
    with mode:
        for _ in range(repeat):
            function()
    return mode.seconds / repeat
