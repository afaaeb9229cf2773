"""A runner: what a notebook finds in its Python, such as two simulated GPUs."""

import importlib
import importlib.util
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


def prepare(runner: Mapping[str, Any]) -> ModuleType:
    """Import what every session needs, and do what can be done once; gives the module `start`.

    `runner` is `{"start": path of start.py, "hide": bool, "simulate": arguments or None}`.
    """
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot
    import torch

    torch.set_num_threads(1)
    start = load(runner["start"])
    if runner["hide"]:
        start.hide_accelerators()
    start.complete_torchvision()
    if runner["simulate"]:
        cudasim = importlib.import_module("cudasim")  # as `start` does when a session begins
        for name in dir(cudasim):
            getattr(cudasim, name)  # some are loaded when they are asked for: see agent.watched
    return start


def begin(runner: Mapping[str, Any], start: ModuleType) -> None:
    """What each session needs of its own: simulated GPUs, whose figures lie in its folder."""
    if runner["simulate"]:
        start.simulate(**runner["simulate"])
