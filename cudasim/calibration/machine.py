"""Which GPU is here, and what is written about it."""

import os
import platform
import re
import shutil
import subprocess
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import torch

from calibration import CannotCalibrate
from cudasim.timing.sheets import Sheet, find_sheet, sheet_names

FOLDER = Path(__file__).resolve().parents[1]  # what is measured goes here
DETAILS = (
    r"\b(NVIDIA|Tesla|GeForce|Quadro)\b"  # makers and families, which sheets leave out
)


def works(what: str, work: Callable[[], object]) -> bool:
    """Whether the card can do `work` at all, in this precision and this size; else a line says so.

    Older cards lack precisions, and small ones memory.
    """
    try:
        work()
    except RuntimeError as error:
        print(f"left out: {what}: {str(error).splitlines()[0]}", flush=True)
        return False
    return True


def find_gpu(stand_in: bool = False) -> torch.device:
    """The GPU to measure. Raises CannotCalibrate where there is no real one.

    `stand_in`: a simulated one is wanted, for tests of the harness.
    """
    if os.environ.get("CUDASIM_GPUS") and not stand_in:
        raise CannotCalibrate(
            "cudasim is enabled: unset CUDASIM_GPUS to measure a real GPU"
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = torch.cuda.is_available()
    if not found and torch.version.cuda is None and torch.version.hip is None:
        raise CannotCalibrate(
            f"no GPU to measure: torch {torch.__version__} is a build without CUDA; "
            "run it with a Python whose torch has it"
        )
    if not found:
        said = (
            f"says: {' '.join(str(caught[0].message).split())}"
            if caught
            else "finds none"
        )
        raise CannotCalibrate(f"no GPU to measure: torch {torch.__version__} {said}")
    device = torch.device("cuda", torch.cuda.current_device())
    if "Simulated" in torch.cuda.get_device_name(device) and not stand_in:
        raise CannotCalibrate("this GPU is simulated: only a real one can be measured")
    return device


def data_sheet(name: str) -> Sheet | None:
    """The data sheet of the card that torch calls `name`; None if there is none."""
    words = f" {' '.join(re.split(r'[^a-z0-9]+', name.lower()))} "
    known = [each for each in sheet_names() if f" {each.lower()} " in words]
    return find_sheet(max(known, key=len)) if known else None


def card_name(name: str) -> str:
    """What the card is called here: its data sheet's name, or torch's less the maker's."""
    sheet = data_sheet(name)
    return sheet.name if sheet else " ".join(re.sub(DETAILS, " ", name).split())


def file_stem(name: str) -> str:
    """The name of a card's files, without the ending: `rtx-4090`."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def provenance(device: torch.device, command: str) -> dict:
    """Hardware, driver, versions, day, and the command that measured."""
    about = torch.cuda.get_device_properties(device)
    return {
        "hardware": about.name,
        "gpus": torch.cuda.device_count(),
        "memory": about.total_memory,
        "capability": [about.major, about.minor],
        "cache": about.L2_cache_size,
        "host": f"{platform.machine()}, {os.cpu_count()} processors",
        "driver": _driver(),
        "cuda": torch.version.cuda or torch.version.hip or "none",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "date": datetime.now(UTC).date().isoformat(),
        "command": command,
    }


def _driver() -> str:
    if shutil.which("nvidia-smi") is None:
        return "unknown"
    ask = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    told = subprocess.run(
        ask, capture_output=True, text=True, check=False
    ).stdout.split()
    return told[0] if told else "unknown"
