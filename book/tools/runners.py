"""Runners: the machines a chapter is executed on, declared as Jupyter kernels."""

import json
import os
from pathlib import Path

from book.tools.chapters import ROOT
from book.tools.errors import BookError


def runner_names(root: Path = ROOT) -> list[str]:
    """The runners that `kernels/` declares."""
    return sorted(path.name for path in (root / "kernels").iterdir() if path.is_dir())


def use_runner(runner: str, root: Path = ROOT) -> str:
    """Let Jupyter find the kernel of `runner`; returns the kernel's name.

    Raises BookError if there is no such runner, or its kernel cannot be read.
    """
    if runner not in runner_names(root):
        raise BookError(
            f"kernels/: no runner '{runner}'; choose one of: {', '.join(runner_names(root))}"
        )
    where = f"kernels/{runner}/kernel.json"
    try:
        argv = json.loads((root / where).read_text(encoding="utf-8"))["argv"]
        if not isinstance(argv, list):
            raise TypeError("'argv' is no list")
    except FileNotFoundError:
        raise BookError(f"{where}: no such file; restore it with 'git checkout {where}'") from None
    except (ValueError, KeyError, TypeError) as error:
        raise BookError(
            f"{where}: not a kernel specification ({error}); restore it with 'git checkout {where}'"
        ) from None
    paths = os.environ.get("JUPYTER_PATH", "").split(os.pathsep)
    if str(root) not in paths:
        os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, [str(root), *paths]))
    return runner
