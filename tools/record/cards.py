"""Cards: the real GPUs of the machine at hand, asked through the kernel that will use them."""

import json
import re
from pathlib import Path

from nbformat.v4 import new_code_cell, new_notebook

from tools.book.chapters import Chapter
from tools.book.runners import Runner
from tools.errors import BookError, NoGpu
from tools.record.execute import Run, execute_one
from tools.record.provenance import VERSIONS, Cards, versions

# What the kernel is asked about its GPUs. A torch that cannot use the driver says why in a warning.
CARD_QUERY = Path(__file__).with_name("card_query.txt")
MAKERS = r"\b(NVIDIA|AMD|Intel\(R\)|Tesla|GeForce|Quadro|Instinct|Radeon)\b"
# Memory, plug and filler in the name of a card.
DETAILS = r"\b(\d+ ?GB|HBM\w*|SXM\w*|PCI[Ee]|NVL|Generation|OAM)\b"


def find_cards(runner: Runner) -> Cards:
    """Return this machine's GPUs, as the kernel of `runner` sees them.

    Raises NoGpu, which says why, if there is none.
    """
    versions(VERSIONS)
    query = new_code_cell(CARD_QUERY.read_text(encoding="utf-8"), id="question")
    chapter = Chapter("question", new_notebook(cells=[query]))
    executed = execute_one(chapter, runner)
    facts = json.loads(executed.cells[0].outputs[0].text)
    warnings = facts.pop("warnings")
    names = facts["names"]
    if names:
        return Cards(folder=card_folder(names), label=card_label(names), **facts)

    if facts["cuda"] is None:
        build = f"torch {facts['torch']} is a build without CUDA"
        reason = f"{build}; choose another PYTHON="
    elif warnings:  # an old driver, for one
        reason = f"torch says: {' '.join(warnings[0].split())}"
    else:
        reason = "'nvidia-smi' lists those that the driver knows"
    raise NoGpu(f"kernels/gpu/kernel.json: no GPU that this torch can use: {reason}")


def card_folder(names: list[str]) -> str:
    """Return the folder of the outputs of these cards: `h100`, or `2xh100`.

    Raises BookError if they are of several models.
    """
    models = {_without(MAKERS, card_label([name])) for name in names}
    if len(models) > 1:
        listed = ", ".join(sorted(models))
        raise BookError(
            "kernels/gpu/", listed, "choose those of one by CUDA_VISIBLE_DEVICES"
        )
    model = re.sub(r"[^a-z0-9]+", "-", models.pop().lower()).strip("-")
    return f"{len(names)}x{model}" if len(names) > 1 else model


def card_label(names: list[str]) -> str:
    """Return what readers see of these cards: `NVIDIA H100`, or `2 x NVIDIA H100`."""
    label = _without(DETAILS, names[0].replace("-", " "))
    return f"{len(names)} x {label}" if len(names) > 1 else label


def card_runs(chapters: list[Chapter], runner: Runner, cards: Cards) -> list[Run]:
    """Return the runs of those chapters that need no more cards than there are.

    Raises BookError if one needs more memory than is free.
    """
    free = [size / 2**30 for size in cards.free]
    least = min(free)
    runs = []
    for chapter in chapters:
        if chapter.gpus > len(free):
            print(f"{chapter.where}: left out, it needs {chapter.gpus} GPUs")
            continue
        if chapter.gpu_memory > least:
            need = f"needs {chapter.gpu_memory} GiB on a GPU"
            room = f"{least:.1f} GiB of cuda:{free.index(least)} are free"
            raise BookError(chapter.where, f"{need}, and {room}", "end what uses it")
        runs.append(Run(chapter, runner, cards))
    return runs


def _without(parts: str, name: str) -> str:
    return " ".join(re.sub(parts, " ", name).split())
