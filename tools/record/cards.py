"""Cards: the real GPUs of the machine at hand, asked through the kernel that will use them."""

import json
import re
from pathlib import Path

from nbformat.v4 import new_code_cell, new_notebook

from tools.book.chapters import Chapter
from tools.book.runners import Runner
from tools.errors import BookError, NoGpu
from tools.record.execute import Run, execute_one
from tools.record.provenance import VERSIONS, versions

# What the kernel is asked. A torch that cannot use the driver says why in a warning.
QUESTION = Path(__file__).with_name("question_cell.txt")
MAKERS = r"\b(NVIDIA|AMD|Intel\(R\)|Tesla|GeForce|Quadro|Instinct|Radeon)\b"
DETAILS = (
    r"\b(\d+ ?GB|HBM\w*|SXM\w*|PCI[Ee]|NVL|Generation|OAM)\b"  # memory, plug, filler
)


def find_cards(runner: Runner) -> dict:
    """The facts of this machine's GPUs, as the kernel of `runner` sees them; else NoGpu, and why.
    With them the `folder` and the `label` of the cards."""
    versions(VERSIONS)
    cells = [new_code_cell(QUESTION.read_text(encoding="utf-8"), id="question")]
    executed = execute_one(Chapter("question", new_notebook(cells=cells)), runner)
    facts = json.loads(executed.cells[0].outputs[0].text)
    if names := facts["names"]:
        return facts | {"folder": card_folder(names), "label": card_label(names)}
    if facts["cuda"] is None:
        reason = (
            f"torch {facts['torch']} is a build without CUDA; choose another PYTHON="
        )
    elif facts["warnings"]:  # an old driver, for one
        reason = f"torch says: {' '.join(facts['warnings'][0].split())}"
    else:
        reason = "'nvidia-smi' lists those that the driver knows"
    raise NoGpu(f"kernels/gpu/kernel.json: no GPU that this torch can use: {reason}")


def card_folder(names: list[str]) -> str:
    """The folder of the outputs of these cards: `h100`, or `2xh100`. They are of one model."""
    models = {_without(MAKERS, card_label([name])) for name in names}
    if len(models) > 1:
        found = ", ".join(sorted(models))
        raise BookError(
            f"kernels/gpu/: {found}; choose those of one by CUDA_VISIBLE_DEVICES"
        )
    model = re.sub(r"[^a-z0-9]+", "-", models.pop().lower()).strip("-")
    return f"{len(names)}x{model}" if len(names) > 1 else model


def card_label(names: list[str]) -> str:
    """What readers see of these cards: `NVIDIA H100`, or `2 x NVIDIA H100`."""
    label = _without(DETAILS, names[0].replace("-", " "))
    return f"{len(names)} x {label}" if len(names) > 1 else label


def card_runs(chapters: list[Chapter], runner: Runner, card: dict) -> list[Run]:
    """The runs of chapters on the cards found, which need no more cards and no more memory."""
    free = [memory / 2**30 for memory in card["free"]]
    there = f"{min(free):.1f} GiB of cuda:{free.index(min(free))} are free"
    for chapter in chapters:
        if chapter.gpus > len(free):
            print(f"{chapter.where}: left out, it needs {chapter.gpus} GPUs")
        elif chapter.gpu_memory > min(free):
            needed = f"needs {chapter.gpu_memory} GiB on a GPU"
            raise BookError(f"{chapter.where}: {needed}, and {there}; end what uses it")
    return [
        Run(chapter, runner, card) for chapter in chapters if chapter.gpus <= len(free)
    ]


def _without(parts: str, name: str) -> str:
    return " ".join(re.sub(parts, " ", name).split())
