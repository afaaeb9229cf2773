"""Compare the GPUs of the machine at hand with what was recorded on cards of their model."""

import subprocess
import sys
from pathlib import Path

from tools.errors import BookError
from tools.run.execute import ask_cards, execute, one_at_a_time, require
from tools.run.recordings import is_stale, outputs_path, read_outputs
from tools.run.runners import GPU, runner_chapters
from tools.source.chapters import ROOT, read_chapter

SANITIZE = "tests/sanitize.cfg"  # what no two runs repeat


def compare(root: Path = ROOT) -> None:
    """Execute every chapter on this machine's GPUs, and compare what it prints.

    Chapters that were recorded on such a card are compared by nbval, output by output; of
    the others, and of those that changed since, every cell must run, and a line says that
    nothing was compared. Raises NoGpu if there is none, BookError if a cell fails or prints
    something else.
    """
    with one_at_a_time(root):
        facts = ask_cards(root)
        names = runner_chapters(GPU, root)
        recorded = [name for name in names if _is_recorded(name, facts["folder"], root)]
        if recorded:
            require(("pytest", "nbval"))
        if others := [name for name in names if name not in recorded]:
            print(
                f"gpu: nothing recorded on {facts['label']} of {', '.join(others)} as they are "
                "now: every cell must run, nothing is compared",
                flush=True,
            )
            execute(others, GPU, root, facts, keep=False)
        if recorded:
            _run_nbval([outputs_path(name, facts["folder"], root) for name in recorded], root)


def _is_recorded(name: str, folder: str, root: Path) -> bool:
    """True if a recording is there that was made from the chapter as it is now."""
    return not is_stale(read_chapter(name, root), read_outputs(name, folder, root), root)


def _run_nbval(paths: list[Path], root: Path) -> None:
    options = ["--nbval", "--nbval-kernel-name", GPU, "--nbval-sanitize-with", SANITIZE]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    if subprocess.run([*command, *map(str, paths)], cwd=root).returncode:
        raise BookError(f"{paths[0].parent.relative_to(root)}: this machine's GPUs print otherwise")
