"""Simulate as the environment asks, once torch is there, which most programs never import."""

import importlib.util
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from cudasim import config


class AfterTorch(MetaPathFinder):
    """Stands before Python's finders until they find torch, whose loader then simulates, too."""

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        loader = spec and spec.loader
        if loader is None:
            sys.meta_path.insert(0, self)  # torch is not there yet
            return spec

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module  # the loader is again what Python made
            loader.exec_module(module)
            simulate_as_asked()

        loader.exec_module = exec_module
        return spec


def begin() -> None:
    """Simulate once torch is there. Called as Python starts if CUDASIM_GPUS is set, by the file of
    `startup_file`, or by the `sitecustomize` that a simulation hands to what it starts."""
    if "torch" in sys.modules:
        simulate_as_asked()
    elif not any(isinstance(finder, AfterTorch) for finder in sys.meta_path):
        sys.meta_path.insert(0, AfterTorch())


def simulate_as_asked() -> None:
    """Simulate what the environment asks for; one line says so, or ends the program."""
    import torch  # noqa: F401  (first, as a finder that awaits it comes here again)

    from cudasim import simulation

    try:
        wanted = config.from_environment()
        if wanted is None or simulation.is_enabled():
            return
        quiet = config.quiet()
        line = simulation.begin(wanted, inherited=True)
    except (ValueError, RuntimeError) as error:
        sys.exit(f"cudasim: {error}")
    if not quiet:
        print(line, file=sys.stderr)
