"""Figures of what simulated GPUs did while an answer ran, for hidden tests to assert about."""

import itertools
from dataclasses import dataclass

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
    """What simulated GPUs did while a question ran, in figures that a test asserts about.

    A question records with `with watch() as record:` and gives the record back, from which this is
    made. Times are in seconds of the modelled clock, sizes in bytes. The record comes from the
    student's process: a value that is no record raises an error, as any odd value does.
    """

    def __init__(self, record: dict) -> None:
        self.spans = [Span(*span) for span in record["spans"]]
        self._held: dict[str, int] = record["held"]
        self._changes: dict[str, list[int]] = record["memory"]

    def kernels(self, name: str = "", gpu: str = "cuda") -> list[Span]:
        """Return the kernels with `name` in their names, on one GPU or on all."""
        kernels = [span for span in self._of("kernel") if name in span.name]
        if gpu == "cuda":
            return kernels
        return [kernel for kernel in kernels if kernel.is_on(gpu)]

    def busy(self, gpu: str = "cuda") -> float:
        """Return the seconds of all kernels, one after another."""
        return sum(kernel.seconds for kernel in self.kernels(gpu=gpu))

    @property
    def copies(self) -> list[int]:
        """The bytes of each copy to, from and between GPUs; one between two GPUs counts once."""
        copies = {(span.start, span.end): span.size for span in self._of("copy")}
        return list(copies.values())

    @property
    def waits(self) -> int:
        """How often the host waited for a GPU."""
        return len(self._of("wait"))

    @property
    def unfinished(self) -> int:
        """The number of copies to the host that it never waited for, so that it reads too early."""
        copies = self._of("copy")
        # A copy between two GPUs is a span of both: out of one, and in to the other.
        arrivals = {(span.start, span.end) for span in copies if is_lane(span, "in")}
        last_wait = max((span.end for span in self._of("wait")), default=-1)
        unfinished = 0
        for span in copies:
            is_to_host = is_lane(span, "out") and (span.start, span.end) not in arrivals
            if is_to_host and span.end > last_wait:
                unfinished += 1
        return unfinished

    @property
    def total(self) -> float:
        """The seconds from the first thing that happened to the end of the last."""
        if not self.spans:
            return 0.0
        first = min(span.start for span in self.spans)
        last = max(span.end for span in self.spans)
        return (last - first) / SECOND

    @property
    def held(self) -> int:
        """The bytes that the exercise's tensors held on all GPUs at the beginning.

        That is what its cells have made and not dropped.
        """
        return sum(self._held.values())

    def peak(self, gpu: str | None = None) -> int:
        """Return the most bytes above those at the beginning that tensors held at one time.

        Without the name of a GPU, the peaks of all are added up.
        """
        peaks = [
            max(itertools.accumulate(changes, initial=0))
            for changes in self._changes_on(gpu)
        ]
        return sum(peaks)

    def kept(self, gpu: str | None = None) -> int:
        """Return the bytes that tensors hold at the end and did not hold at the beginning."""
        return sum(sum(changes) for changes in self._changes_on(gpu))

    def _changes_on(self, gpu: str | None) -> list[list[int]]:
        if gpu is None:
            return list(self._changes.values())
        return [self._changes[gpu]]

    def _of(self, kind: str) -> list[Span]:
        return [span for span in self.spans if span.kind == kind]


def is_lane(span: Span, direction: str) -> bool:
    return span.lane.endswith(f" {direction}")
