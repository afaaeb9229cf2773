"""Measure a run of a program: its time, how busy the first GPU is, and its peak memory."""

import contextlib
import gc
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cudasim.clock.timeline import Timeline
from cudasim.hardware import with_article
from cudasim.lab.devices import accelerator, modelled_card, synchronize
from cudasim.lab.memory import peak
from cudasim.lab.showing import Table, short, table
from cudasim.recorded import timeline

MIB = 2**20


@dataclass(frozen=True)
class Measurement:
    """The result of `measure` for one run of a program."""

    seconds: float
    busy: float | None  # the share of the time in which the first GPU is busy
    peak: int | None  # bytes on the first GPU; None without a GPU
    result: Any  # what the program returned
    timeline: Timeline


def measure(
    work: Callable[..., Any],
    prepare: Callable[[], tuple] = tuple,
    card: str | None = None,
) -> Measurement:
    """Measure the time and memory that `work(*prepare())` takes.

    The time does not include the preparation. Both functions run twice, the first time as
    a warm-up, and the output of `work` is discarded. If times are modelled, you can choose
    another card with `card`. The memory includes tensors that `prepare` creates, because
    they belong to the program: only memory in use before the preparation is not counted.
    """
    _run(work, prepare())
    runs: list[tuple[Any, Timeline]] = []

    def watched() -> None:
        arguments = prepare()
        synchronize()
        with timeline(card=card) as lanes:
            result = _run(work, arguments)
            synchronize()
        runs.append((result, lanes))

    gc.collect()
    has_gpu = accelerator() == "cuda"
    most = None
    if has_gpu:
        most = peak(watched)
    else:
        watched()
    [(result, lanes)] = runs
    busy = lanes.busy("cuda:0") if has_gpu else None
    return Measurement(lanes.total, busy, most, result, lanes)


def _run(work: Callable[..., Any], arguments: tuple) -> Any:
    with contextlib.redirect_stdout(io.StringIO()):
        return work(*arguments)


def compare(versions: Mapping[str, Measurement]) -> Table:
    """Return a table of the time, the GPU's busy share and the peak of several versions."""
    card = modelled_card()
    time = f"time, modelled for {with_article(card)}" if card else "time"
    rows = []
    for name, version in versions.items():
        busy = None if version.busy is None else f"{version.busy:.0%}"
        most = None if version.peak is None else f"{version.peak / MIB:.0f} MiB"
        rows.append([name, f"≈ {short(version.seconds)}", busy, most])
    return table(["version", time, "GPU busy", "peak of memory"], rows)
