"""Simulate as the environment asks, once torch is there, which most programs never import."""

import importlib.util
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from cudasim import config


class AfterTorch(MetaPathFinder):
    """A finder before Python's own that lets torch's loader begin the simulation.

    It goes when torch is found.
    """

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)  # torch is not there yet
            return spec
        loader = spec.loader

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module  # the loader is again what Python made
            loader.exec_module(module)
            simulate_as_asked()

        loader.exec_module = exec_module
        return spec


def begin() -> None:
    """Simulate once torch is there.

    Called as Python starts if CUDASIM_GPUS is set, by the file of `startup_file` or by
    the `sitecustomize` that a simulation gives to its child processes.
    """
    if "torch" in sys.modules:
        simulate_as_asked()
    elif not any(isinstance(finder, AfterTorch) for finder in sys.meta_path):
        sys.meta_path.insert(0, AfterTorch())


def simulate_as_asked() -> None:
    """Simulate what the environment asks for; one line says so, or ends the program."""
    import torch  # noqa: F401  (first, as a finder that awaits it comes here again)

    from cudasim import installed

    try:
        installed.check_torch()
    except ImportError as error:
        sys.exit(str(error))
    from cudasim import simulation

    try:
        wanted = config.from_environment()
        if wanted is None or simulation.is_enabled():
            return
        is_quiet = config.is_quiet()  # before the simulation sets the variable
        line = simulation.begin(wanted, inherited=True)
    except (ValueError, RuntimeError) as error:
        sys.exit(f"cudasim: {error}")
    if not is_quiet:
        print(line, file=sys.stderr)
