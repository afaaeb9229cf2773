"""How long a callable would take on a card, from shapes alone: nothing is computed."""

from collections.abc import Callable
from typing import Any

from cudasim.clock.costs import waits, work_of
from cudasim.modes import LightMode
from cudasim.timing.formulas import Work, kernel_seconds
from cudasim.timing.sheets import Host, Sheet, find_sheet, host_sheet


class Estimate(LightMode):
    """Adds up, on one stream, what the operations inside take; `seconds` is the total.

    The host goes on after each launch, the card works one kernel after the other, and the
    total is the later of both. `works` holds what was booked.
    """

    def __init__(self, sheet: Sheet, host: Host) -> None:
        """Nothing booked yet."""
        super().__init__()
        self.sheet, self.host = sheet, host
        self.now = 0.0  # of the host, in seconds
        self.end = 0.0  # of the last kernel
        self.works: list[Work] = []

    def __torch_dispatch__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Run `func`, and book its time."""
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        work = work_of(func, args, kwargs, out)
        self.now += self.host.operation
        if work is not None:
            self.now += self.sheet.launch * work.kernels
            self.end = max(self.end, self.now) + kernel_seconds(work, self.sheet)
            self.works.append(work)
        if waits(func, args):
            self.now = max(self.now, self.end) + self.sheet.wait
        return out

    @property
    def busy(self) -> float:
        """Seconds that the card works."""
        return sum(kernel_seconds(work, self.sheet) for work in self.works)

    @property
    def seconds(self) -> float:
        """When both the host and the card are done."""
        return max(self.now, self.end)


def estimate(
    function: Callable[[], Any],
    card: str | Sheet,
    host: Host | None = None,
    repeat: int = 1,
) -> float:
    """Modelled seconds that `function()` takes on `card`, the mean of `repeat` calls in a row.

    `function` works on tensors of the meta device, on fake ones or on real ones; on meta
    tensors it must not ask for a value. Data are on the card already. Raises ValueError for an
    unknown card.
    """
    sheet = find_sheet(card) if isinstance(card, str) else card
    with Estimate(sheet, host or host_sheet()) as mode:
        for _ in range(repeat):
            function()
    return mode.seconds / repeat
