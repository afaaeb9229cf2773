"""How long a callable would take on a card, from shapes alone: nothing is computed."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from cudasim.clock.costs import WAITS, operands, work_of
from cudasim.clock.watching import watched
from cudasim.modes import LightMode, decompose, is_composite
from cudasim.patching import Patches
from cudasim.timing.formulas import Work, call_seconds, kernel_seconds
from cudasim.timing.sheets import Host, Sheet, find_sheet, host_sheet


class Estimate(LightMode):
    """Adds up, on one stream, what the operations inside take; `works` holds what was booked. The
    host is the one beside the card unless another is given."""

    def __init__(self, sheet: Sheet, host: Host | None = None) -> None:
        super().__init__()
        self.sheet, self.host = sheet, host or host_sheet(sheet)
        self.thread, self._patches = SimpleNamespace(by_engine=False), Patches()
        self.now = 0.0  # of the host, in seconds
        self.end = 0.0  # of the last kernel
        self.works: list[Work] = []

    def __enter__(self) -> "Estimate":
        for owner, name, made in watched(self):
            self._patches.replace(owner, name, made)
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
        work = work_of(func, args, kwargs, out)
        self.now += call_seconds(work, operands(args), self.host)
        self.now -= self.host.python if self.thread.by_engine else 0.0
        if work is not None:
            self.now += self.sheet.launch * work.kernels
            self.end = max(self.end, self.now) + kernel_seconds(work, self.sheet)
            self.works.append(work)
        # A number is the program's, anything else is on the card.
        if func in WAITS and WAITS[func](args, kwargs, lambda tensor: not tensor.dim()):
            self.now = max(self.now, self.end) + self.sheet.wait
        return out

    @property
    def busy(self) -> float:
        """Seconds that the card works."""
        return sum(kernel_seconds(work, self.sheet) for work in self.works)

    @property
    def seconds(self) -> float:
        return max(self.now, self.end)


def estimate(
    function: Callable[[], Any],
    card: str | Sheet,
    host: Host | None = None,
    repeat: int = 1,
) -> float:
    """Modelled seconds that `function()` takes on `card`, the mean of `repeat` calls in a row.
    Its tensors are real, fake, or of the meta device, which it must not ask for values; data are on
    the card already. Raises ValueError for an unknown card."""
    sheet = find_sheet(card) if isinstance(card, str) else card
    with Estimate(sheet, host) as mode:
        for _ in range(repeat):
            function()
    return mode.seconds / repeat
