"""What simulated GPUs did while a question ran, for hidden tests: figures from its events.

A question records with `with watch() as record:` and gives the record back; `Measured(record)` has
the figures that a test asserts about. Times are in seconds of the modelled clock, sizes in bytes.
The record comes from the student's process: one that is no record raises an error, as any odd value
does.
"""

from dataclasses import dataclass
from itertools import accumulate

SECOND = 10**9  # nanoseconds


@dataclass(frozen=True)
class Span:
    """What one lane did from `start` to `end`, in nanoseconds."""

    kind: str  # operation, kernel, copy, wait or sleep
    lane: str
    name: str
    start: int
    end: int
    size: int | None  # of a copy

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / SECOND

    def is_on(self, gpu: str) -> bool:
        return f"{self.lane} ".startswith(f"{gpu} ")


class Measured:
    def __init__(self, record: dict) -> None:
        self.spans = [Span(*span) for span in record["spans"]]
        self._held: dict[str, int] = record["held"]
        self._changes: dict[str, list[int]] = record["memory"]

    def kernels(self, name: str = "", gpu: str = "cuda") -> list[Span]:
        """The kernels with `name` in their names, on one GPU or on all."""
        on_all = gpu == "cuda"
        return [
            span
            for span in self.spans
            if span.kind == "kernel"
            and name in span.name
            and (on_all or span.is_on(gpu))
        ]

    def busy(self, gpu: str = "cuda") -> float:
        """Seconds of all kernels, one after another."""
        return sum(span.seconds for span in self.kernels(gpu=gpu))

    @property
    def copies(self) -> list[int]:
        """Bytes of each copy to a GPU, from one, and between two, which is one copy."""
        copies = {(span.start, span.end): span.size for span in self._of("copy")}
        return list(copies.values())

    @property
    def waits(self) -> int:
        """How often the host waited for a GPU."""
        return len(self._of("wait"))

    @property
    def unfinished(self) -> int:
        """Copies to the host for whose end the host never waited, so that it reads too early."""
        copies = self._of("copy")
        between = {
            (span.start, span.end) for span in copies if span.lane.endswith(" in")
        }
        waited = max((span.end for span in self._of("wait")), default=-1)
        to_host = [span for span in copies if span.lane.endswith(" out")]
        late = [span for span in to_host if span.end > waited]
        return sum((span.start, span.end) not in between for span in late)

    @property
    def total(self) -> float:
        """Seconds from the first thing that happened to the end of the last."""
        if not self.spans:
            return 0.0
        first = min(span.start for span in self.spans)
        last = max(span.end for span in self.spans)
        return (last - first) / SECOND

    @property
    def held(self) -> int:
        """The bytes that tensors of the exercise held at the beginning on all GPUs: what its cells
        have made, and did not drop."""
        return sum(self._held.values())

    def peak(self, gpu: str | None = None) -> int:
        """The most bytes above those at the beginning that tensors held at one time, on one GPU;
        without its name, the peaks of all GPUs together."""
        changes = self._changes.values() if gpu is None else [self._changes[gpu]]
        return sum(max(accumulate(each, initial=0)) for each in changes)

    def kept(self, gpu: str | None = None) -> int:
        """The bytes that tensors hold at the end and did not hold at the beginning."""
        changes = self._changes.values() if gpu is None else [self._changes[gpu]]
        return sum(map(sum, changes))

    def _of(self, kind: str) -> list[Span]:
        return [span for span in self.spans if span.kind == kind]
