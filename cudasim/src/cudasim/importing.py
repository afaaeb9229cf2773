"""Do something once a module is imported, which most programs never do."""

import importlib.util
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class After(MetaPathFinder):
    """A finder before Python's own that calls `action` once the module `name` is loaded.

    It goes when the module is found.
    """

    def __init__(self, name: str, action: Callable[[], Any]) -> None:
        self.name = name
        self._action = action

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)  # the module is not there yet
            return spec
        loader = spec.loader

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module  # the loader is again what Python made
            loader.exec_module(module)
            self._action()

        loader.exec_module = exec_module
        return spec


def after_import(name: str, action: Callable[[], Any]) -> Callable[[], None]:
    """Call `action` now if the module `name` is loaded, or once it is.

    Returns a function that gives up waiting.
    """
    if name in sys.modules:
        action()
        return lambda: None
    finder = After(name, action)
    sys.meta_path.insert(0, finder)

    def give_up() -> None:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)

    return give_up
