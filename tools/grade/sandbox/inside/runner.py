"""A runner: what a notebook finds in its Python, such as two simulated GPUs."""

import importlib.util
import os
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any


def load(path: str) -> ModuleType:
    """The module that starts the runners' kernels (`kernels/start.py`), by its path."""
    spec = importlib.util.spec_from_file_location("start", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["start"] = module
    spec.loader.exec_module(module)
    return module


def prepare(runner: Mapping[str, Any]) -> Any:
    """Import what every session needs, and do what can be done once; the settings of a shell.

    `runner` is `{"start": path of start.py, "hide": bool, "simulate": arguments or None}`.
    """
    import matplotlib

    matplotlib.use("agg")
    import IPython
    import matplotlib.pyplot
    import numpy
    import torch

    torch.set_num_threads(1)
    start = load(runner["start"])
    if runner["hide"]:
        start.hide_accelerators()
    if runner["simulate"]:
        pass
    start.complete_torchvision()
    del IPython, numpy
    return start


def begin(runner: Mapping[str, Any], start: ModuleType) -> None:
    """What a session needs of its own: simulated GPUs, whose figures lie in its own folder."""
    if runner["simulate"]:
        start.simulate(**runner["simulate"])
    os.environ.pop("LINES", None)
