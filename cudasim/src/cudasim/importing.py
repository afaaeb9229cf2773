"""Do something once a module is imported, which most programs never do."""

import importlib.util
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class ImportWatcher(MetaPathFinder):
    """Call `action` once the module `name` is loaded.

    Among the finders of `sys.meta_path` it stands before Python's own. When Python looks
    for the module, it takes itself out, and wraps the loader that the others find.
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
            sys.meta_path.insert(0, self)  # there may be such a module later
            return spec

        loader = spec.loader
        other = vars(loader).get("exec_module")  # of another watcher of this name

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module  # which leaves the loader as Python made it
            if other is not None:
                loader.exec_module = other
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
    watcher = ImportWatcher(name, action)
    sys.meta_path.insert(0, watcher)

    def give_up() -> None:
        if watcher in sys.meta_path:
            sys.meta_path.remove(watcher)

    return give_up
