"""Warnings about the simulation itself, which a card would not give."""

import sys
import warnings
from pathlib import Path

PACKAGE = str(Path(__file__).resolve().parent)  # how the names of our files begin


class SimulationWarning(UserWarning):
    """The simulation does something otherwise than a card would.

    What a card or PyTorch would warn of has PyTorch's categories, as have races.
    """


def exempt_from_errors() -> None:
    """Let a `SimulationWarning` be shown where all warnings are errors (`-W error`).

    A program that asks for errors of this very category gets them.
    """
    for action, message, category, module, _ in warnings.filters:
        if (
            message is None
            and module is None
            and issubclass(SimulationWarning, category)
        ):
            if action == "error" and category is not SimulationWarning:
                warnings.simplefilter("default", SimulationWarning)
            return


def warn_program(message: str, category: type[Warning] = SimulationWarning) -> None:
    """Warn of `message`, and name the line of the program."""
    level = 1
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level += 1
        frame = frame.f_back
    warnings.warn(message, category, stacklevel=level)
