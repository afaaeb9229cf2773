"""Runners: the machines a chapter is executed on, declared as Jupyter kernels.

`kernels/<runner>/kernel.json` is all there is to a runner. Its metadata say what readers are
told of it: `name`, `about` and, if it is for some chapters only, `chapters`.
"""

import hashlib
import json
import os
from pathlib import Path

from tools.errors import BookError
from tools.source.chapters import ROOT, chapter_names

GPU = "gpu"  # the GPUs of the machine at hand; its outputs lie under the name of the card
FIRST = "simulated"  # the tab that a reader sees who has chosen none: it shows two GPUs


def runner_names(root: Path = ROOT) -> list[str]:
    """The runners that `kernels/` declares, in the order in which pages show them."""
    names = [path.name for path in (root / "kernels").iterdir() if (path / "kernel.json").is_file()]
    return sorted(names, key=lambda name: (name != FIRST, name))


def local_runners(root: Path = ROOT) -> list[str]:
    """The runners that every machine has: all but the real GPUs."""
    return [name for name in runner_names(root) if name != GPU]


def runner_chapters(runner: str, root: Path = ROOT) -> list[str]:
    """The chapters that are executed on `runner`, in the order of the book."""
    chosen = _about(runner, root).get("chapters")
    return [name for name in chapter_names(root) if chosen is None or name in chosen]


def runner_label(runner: str, root: Path = ROOT) -> str:
    """What the tabs call `runner`."""
    return _about(runner, root).get("name", runner)


def runner_legend(runner: str, root: Path = ROOT) -> str:
    """A sentence or two for readers that say what `runner` is."""
    return _about(runner, root).get("about", "")


def simulates(runner: str, root: Path = ROOT) -> bool:
    """True if the GPUs of `runner` are simulated."""
    return "--simulate" in _specification(runner, root)["argv"]


def simulator_digest(runner: str, root: Path = ROOT) -> str | None:
    """The hash of `cudasim/` if `runner` simulates GPUs, else None."""
    if not simulates(runner, root):
        return None
    digest = hashlib.sha256()
    for path in sorted((root / "cudasim").rglob("*")):
        if path.is_file() and path.suffix not in (".pyc", ".md"):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def use_runner(runner: str, root: Path = ROOT) -> str:
    """Let Jupyter find the kernel of `runner`; returns the kernel's name.

    Raises BookError if there is no such runner, or its kernel cannot be read.
    """
    _specification(runner, root)
    paths = os.environ.get("JUPYTER_PATH", "").split(os.pathsep)
    if str(root) not in paths:
        os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, [str(root), *paths]))
    return runner


def _about(runner: str, root: Path) -> dict:
    return _specification(runner, root).get("metadata", {}).get("runner", {})


def _specification(runner: str, root: Path) -> dict:
    where = f"kernels/{runner}/kernel.json"
    if not (root / "kernels" / runner).is_dir():
        raise BookError(
            f"kernels/: no runner '{runner}'; choose one of: {', '.join(runner_names(root))}"
        )
    try:
        content = json.loads((root / where).read_text(encoding="utf-8"))
        if not isinstance(content["argv"], list):
            raise TypeError("'argv' is no list")
    except FileNotFoundError:
        raise BookError(f"{where}: no such file; restore it with 'git checkout {where}'") from None
    except (ValueError, KeyError, TypeError) as error:
        raise BookError(
            f"{where}: not a kernel specification ({error}); restore it with 'git checkout {where}'"
        ) from None
    return content
