"""Instruments for programs that use GPUs: time some work, count what it does, draw memory.

They work in the same way on a real GPU from any maker, on a simulated one and on the CPU,
and most of them need no simulation. Importing this package does not start a simulation,
and does not import PyTorch or matplotlib. Each function imports what it needs when it is
first used.

    from cudasim.lab import about, seconds

    about(seconds(lambda: X @ X))  # '≈ 0.29 ms, modelled for a T4'
"""

import importlib
from typing import TYPE_CHECKING, Any

from cudasim.installed import ADVICE, check_torch

if TYPE_CHECKING:
    from cudasim.lab.allocator import Allocator, Block, Segments
    from cudasim.lab.copies import bytes_copied
    from cudasim.lab.counting import calls, first_wait, reads
    from cudasim.lab.devices import accelerator, card, is_modelled, synchronize, try_gpu
    from cudasim.lab.drawing import chart, draw_segments
    from cudasim.lab.measuring import Measurement, compare, measure
    from cudasim.lab.memory import allocated, peak, play
    from cudasim.lab.showing import about, attempt, nvidia_smi, short, table
    from cudasim.lab.starting import NotReady, start
    from cudasim.lab.timing import launched_and_done, seconds
    from cudasim.lab.tracing import trace_memory

__all__ = [
    "Allocator",
    "Block",
    "Measurement",
    "NotReady",
    "Segments",
    "about",
    "accelerator",
    "allocated",
    "attempt",
    "bytes_copied",
    "calls",
    "card",
    "chart",
    "compare",
    "draw_segments",
    "first_wait",
    "is_modelled",
    "launched_and_done",
    "measure",
    "nvidia_smi",
    "peak",
    "play",
    "reads",
    "seconds",
    "short",
    "start",
    "synchronize",
    "table",
    "trace_memory",
    "try_gpu",
]

# The module of each public name, and what it is.
_HOMES = {
    "Allocator": "allocator",  # a small model of the caching allocator to experiment with
    "Block": "allocator",  # a piece of a segment: its size and its contents
    "Measurement": "measuring",  # what `measure` returns: seconds, busy, peak, result
    "NotReady": "starting",  # why `start` cannot do what was asked
    "Segments": "allocator",  # the segments of an allocator, as `play` returns them
    "about": "showing",  # a time as text, with the card for which it is modelled
    "accelerator": "devices",  # the type of this machine's accelerator, or "cpu"
    "allocated": "memory",  # the bytes that tensors hold on a GPU
    "attempt": "showing",  # the result of some work, or its error as a short traceback
    "bytes_copied": "copies",  # the bytes that some work copies between devices
    "calls": "counting",  # how often some work calls each PyTorch function
    "card": "devices",  # the name of a GPU or of the processor
    "chart": "drawing",  # a bar for each of a few values
    "compare": "measuring",  # measurements as a table
    "draw_segments": "drawing",  # segments of memory as rows of blocks
    "first_wait": "counting",  # the line at which some work first waits for a GPU
    "is_modelled": "devices",  # whether times come from a model
    "launched_and_done": "timing",  # seconds until some work returns, and until it is done
    "measure": "measuring",  # the cost of a run: time, share that the GPU is busy, peak
    "nvidia_smi": "showing",  # what nvidia-smi prints
    "peak": "memory",  # the most bytes that some work holds at once
    "play": "memory",  # the segments after a script of allocations
    "reads": "counting",  # how often some work reads numbers into Python
    "seconds": "timing",  # seconds until some work is done
    "short": "showing",  # a time as text, with two digits and a unit
    "start": "starting",  # simulate two GPUs on a machine without one
    "synchronize": "devices",  # wait until the devices have finished all launched work
    "table": "showing",  # rows as a Markdown table
    "trace_memory": "tracing",  # the bytes that a device holds after each operation
    "try_gpu": "devices",  # a GPU if it exists, otherwise the CPU
}


if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'cudasim.lab' has no attribute '{name}'")
        if _HOMES[name] == "copies":
            check_torch()
        try:
            module = importlib.import_module(f"cudasim.lab.{_HOMES[name]}")
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            need = f"cudasim.lab.{name} needs PyTorch, which is not installed"
            raise ImportError(f"{need}: {ADVICE}") from None
        value = getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
