"""Asking the GPUs of this machine, and writing what they answer."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from fidelity.index import ANSWERS, programs

# As in book/tools/cards.py, which a machine with nothing but torch and NumPy cannot import.
MAKERS = r"\b(NVIDIA|AMD|Intel\(R\)|Tesla|GeForce|Quadro|Instinct|Radeon)\b"
DETAILS = (
    r"\b(\d+ ?GB|HBM\w*|SXM\w*|PCI[Ee]|NVL|Generation|OAM)\b"  # memory, plug, filler
)


class CannotRecord(Exception):
    """Why no answers can be recorded here, in one line that names the fix."""


def record(
    folder: Path, most: int = 4, stand_in: tuple[int, str] | None = None
) -> Path:
    """Ask every program that this machine has GPUs enough for; returns the file written.

    At the most `most` run at once. `stand_in`, a number of GPUs and a card, is for tests of the
    recorder alone: cudasim answers, and `folder` must be another than the answers of real GPUs.
    Raises CannotRecord without a real GPU. The file is written when all have answered.
    """
    if stand_in and folder.resolve() == ANSWERS:
        raise CannotRecord(
            f"{folder}: answers of cudasim are never recorded as those of a GPU"
        )
    if not stand_in:
        _refuse_simulation()
    try:
        from fidelity import running
    except ModuleNotFoundError as error:
        raise CannotRecord(
            f"no module '{error.name}' here: install torch and numpy"
        ) from None
    if not hasattr(os, "fork"):
        raise CannotRecord(
            "this system cannot fork, which programs in fresh processes need"
        )
    about = _ask_facts(running, stand_in)
    known = programs()
    names = running.suitable(known, about["gpus"])
    given = _ask(running, names, most, stand_in)
    about["programs"] = {
        name: {"code": known[name].code, "answer": given[name]} for name in names
    }
    path = folder / f"{about['name']}.json"
    _write(path, about)
    print(
        f"{path}: {len(names)} programs answered, {len(known) - len(names)} need more GPUs"
    )
    surprises = [name for name in names if running.unexpected(given[name])]
    if surprises:
        print(
            f"of these, {len(surprises)} raised what they do not expect: {', '.join(surprises)}"
        )
    return path


def card_folder(names: list[str]) -> str:
    """The name of the file for these cards: `h100`, or `2xh100`.

    Raises CannotRecord if they are not all of one model.
    """
    models = {_model(name) for name in names}
    if len(models) > 1:
        raise CannotRecord(
            f"cards of several models ({', '.join(sorted(models))}); choose those of one with "
            "CUDA_VISIBLE_DEVICES"
        )
    model = models.pop()
    return f"{len(names)}x{model}" if len(names) > 1 else model


def _model(name: str) -> str:
    words = re.sub(DETAILS, " ", re.sub(MAKERS, " ", name.replace("-", " ")))
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def _refuse_simulation() -> None:
    simulator = sys.modules.get("cudasim")
    if os.environ.get("CUDASIM_GPUS") or (simulator and simulator.is_enabled()):
        raise CannotRecord(
            "cudasim is enabled: only real GPUs are recorded; unset CUDASIM_GPUS and try again"
        )


def _ask_facts(running: Any, stand_in: tuple[int, str] | None) -> dict[str, Any]:
    """What is written with the answers: the card, the versions, the day."""
    task = {"facts": partial(_in_child, stand_in, running.facts)}
    ((_, about),) = running.in_processes(task, 1)
    if reason := running.unexpected(about):
        raise CannotRecord(
            f"torch cannot say which GPUs are here: {' '.join(reason.split())}"
        )
    if not about["names"]:
        reason = "is a build without CUDA" if about["cuda"] is None else "finds none"
        if about["warnings"]:
            reason = f"says: {' '.join(about['warnings'][0].split())}"
        raise CannotRecord(f"no GPU to record: torch {about['torch']} {reason}")
    if not stand_in and any("Simulated" in name for name in about["names"]):
        raise CannotRecord("these GPUs are simulated: only real ones are recorded")
    names = about.pop("names")
    del about["warnings"]
    return {
        "name": card_folder(names),
        "card": names[0],
        "gpus": len(names),
        **about,
        "driver": _driver(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "date": datetime.now(UTC).date().isoformat(),
    }


def _driver() -> str:
    if shutil.which("nvidia-smi") is None:
        return "unknown"
    ask = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    told = subprocess.run(
        ask, capture_output=True, text=True, check=False
    ).stdout.split()
    return told[0] if told else "unknown"


def _ask(
    running: Any, names: list[str], most: int, stand_in: tuple[int, str] | None
) -> dict[str, Any]:
    """The answers by name; what looks at the card's memory runs alone."""
    together, alone = running.by_company(names)
    given = {}
    for some, at_once in ((together, most), (alone, 1)):
        tasks = {
            name: partial(_in_child, stand_in, partial(running.answer, name))
            for name in some
        }
        for name, answer in running.in_processes(tasks, at_once):
            given[name] = answer
            print(f"[{len(given):3d}/{len(names)}] {name}", flush=True)
    return given


def _in_child(stand_in: tuple[int, str] | None, task: Callable[[], Any]) -> Any:
    """In a process of its own: do the task, on simulated GPUs if they are the stand-in."""
    if not stand_in:
        return task()
    import cudasim

    with cudasim.simulate(*stand_in, force=True):
        return task()


def a_line_each(programs: dict[str, Any]) -> str:
    """A JSON object with a line for each program, so that a change of one is seen."""
    lines = [
        f"  {json.dumps(name)}: {json.dumps(each, ensure_ascii=False)}"
        for name, each in programs.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n }"


def _write(path: Path, about: dict[str, Any]) -> None:
    """Write the file at one stroke, so that an interruption leaves the earlier one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = {name: value for name, value in about.items() if name != "programs"}
    text = json.dumps(head, indent=1).removesuffix("\n}") + ',\n "programs": '
    text += a_line_each(about["programs"]) + "\n}\n"
    part = path.with_suffix(".json.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
