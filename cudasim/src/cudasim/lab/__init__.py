"""Instruments for programs that use GPUs: time some work, count what it does, draw memory.

They do the same on a real GPU of any maker, on a simulated one and on the CPU, and most
of them need no simulation. Importing this package simulates nothing, and imports neither
PyTorch nor matplotlib; a function imports what it needs when it is first used.

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
    "try_gpu",
]

# The module of each public name, and what it is.
_HOMES = {
    "Allocator": "allocator",  # the caching allocator as a small model to play with
    "Block": "allocator",  # a piece of a segment: its size, and what is in it
    "Measurement": "measuring",  # what `measure` returns: seconds, busy, peak, result
    "NotReady": "starting",  # why `start` cannot do what was asked
    "Segments": "allocator",  # what an allocator holds, as `play` returns it
    "about": "showing",  # seconds as text, with the card that they are modelled for
    "accelerator": "devices",  # the type of this machine's accelerator, or "cpu"
    "allocated": "memory",  # the bytes that tensors hold on a GPU
    "attempt": "showing",  # the result of some work, or its error as a short traceback
    "bytes_copied": "copies",  # the bytes that some work copies between devices
    "calls": "counting",  # the functions of PyTorch that some work calls, counted
    "card": "devices",  # the name of a GPU or of the processor
    "chart": "drawing",  # a bar for each of a few values
    "compare": "measuring",  # measurements as a table
    "draw_segments": "drawing",  # segments of memory as rows of blocks
    "first_wait": "counting",  # the line at which some work first waits for a GPU
    "is_modelled": "devices",  # whether times come from a model
    "launched_and_done": "timing",  # seconds until some work returns, and until it is done
    "measure": "measuring",  # what a run of a program takes: time, GPU busy, peak
    "nvidia_smi": "showing",  # what nvidia-smi prints
    "peak": "memory",  # the most bytes that some work holds at once
    "play": "memory",  # the segments after a list of allocations
    "reads": "counting",  # how often some work brings numbers to Python
    "seconds": "timing",  # seconds until some work is done
    "short": "showing",  # seconds as text, with two digits and a unit
    "start": "starting",  # simulate two GPUs where there is none
    "synchronize": "devices",  # wait until the devices have done all that was launched
    "table": "showing",  # rows as a Markdown table
    "try_gpu": "devices",  # a GPU if it is there, else the CPU
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
