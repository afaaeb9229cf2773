"""How long a callable would take on a card, from shapes alone: nothing is computed."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from torch import Tensor

from cudasim.clock.costs import WAITS, listed_tensors, work_of
from cudasim.clock.watching import paying_functions
from cudasim.modes import LightMode, decompose, is_composite
from cudasim.patching import Patches
from cudasim.timing.formulas import Work, call_seconds, kernel_seconds
from cudasim.timing.sheets import Host, Sheet, find_sheet, host_sheet


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
        self._patches = Patches()

    def __enter__(self) -> "Estimate":
        for owner, name, function in paying_functions(self):
            self._patches.replace(owner, name, function)
        return super().__enter__()

    def __exit__(self, *problem: Any) -> None:
        super().__exit__(*problem)
        self._patches.restore()

    def pay(self, seconds: float) -> None:
        self.now += seconds

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if is_composite(func):
            return decompose(self, func, args, kwargs)
        out = func(*args, **kwargs)
        self._add(work_of(func, args, kwargs, out), args)
        if func in WAITS and WAITS[func](args, kwargs, _is_on_host):
            self.now = max(self.now, self.end) + self.sheet.wait
        return out

    def _add(self, work: Work | None, args: tuple) -> None:
        self.now += call_seconds(work, listed_tensors(args), self.host)
        if self.thread.by_engine:
            self.now -= self.host.python
        if work is not None:
            self.now += self.sheet.launch * work.kernels
            self.end = max(self.end, self.now) + kernel_seconds(work, self.sheet)
            self.works.append(work)

    @property
    def busy(self) -> float:
        """The seconds that the card works."""
        return sum(kernel_seconds(work, self.sheet) for work in self.works)

    @property
    def seconds(self) -> float:
        return max(self.now, self.end)


def _is_on_host(tensor: Tensor) -> bool:
    # Single numbers are taken to be the program's own, all else to be on the card.
    return tensor.dim() == 0


def estimate(
    function: Callable[[], Any],
    card: str | Sheet,
    host: Host | None = None,
    repeat: int = 1,
) -> float:
    """Return the modelled seconds that `function()` takes on `card`.

    This is the mean of `repeat` calls in a row. The tensors of the function are real,
    fake, or of the meta device, which it must not ask for values; its data are on the
    card already. Raises ValueError for an unknown card.
    """
    sheet = find_sheet(card) if isinstance(card, str) else card
    with Estimate(sheet, host) as mode:
        for _ in range(repeat):
            function()
    return mode.seconds / repeat
