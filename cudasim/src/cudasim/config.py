"""The environment variables by which a program, and what it starts, get simulated GPUs.

Nothing here imports torch: it is read before torch is.
"""

import os
from pathlib import Path

from cudasim.device.types import check_number, find_kind, read_number

GPUS = "CUDASIM_GPUS"  # how many; the one that asks for a simulation
CARD = "CUDASIM_CARD"  # which card; the kind's usual one if it is not set
TYPE = "CUDASIM_DEVICE_TYPE"  # what PyTorch calls them, cuda if it is not set
FORCE = "CUDASIM_FORCE"  # 1: simulate even where as many real GPUs are there
QUIET = "CUDASIM_QUIET"  # 1: say nothing when the simulation begins

_PACKAGE = Path(__file__).resolve().parent


def setting(name: str) -> str | None:
    """What the variable `name` says; None if it is not set, or empty."""
    return os.environ.get(name, "").strip() or None


def asked() -> dict | None:
    """What the environment asks of `cudasim.enable`: its arguments; None if nothing.

    Raises ValueError for a number of GPUs that makes no sense, or an unknown type of device.
    """
    number = setting(GPUS)
    if number is None:
        return None
    kind = find_kind(setting(TYPE) or "cuda", TYPE)
    return {
        "gpus": check_number(read_number(number), kind, GPUS),
        "card": setting(CARD) or kind.card,
        "force": os.environ.get(FORCE) == "1",
        "device_type": kind.type,
    }


def quiet() -> bool:
    """True in what a simulation started: who started it has said that it is one."""
    return os.environ.get(QUIET) == "1"


def installed() -> bool:
    """True if the package came by a wheel, so that every Python here reads CUDASIM_GPUS."""
    return (_PACKAGE.parent / "cudasim.pth").is_file()


def for_children(gpus: int, card: str, force: bool, device_type: str) -> dict[str, str]:
    """The variables with which a program that is started gets the same GPUs.

    Where the package is not installed, they let Python find it by a `sitecustomize`.
    """
    variables = {GPUS: str(gpus), CARD: card, TYPE: device_type, QUIET: "1"}
    variables[FORCE] = "1" if force else "0"
    if not installed():
        folder = str(_PACKAGE / "inherit")
        path = os.environ.get("PYTHONPATH", "")
        if folder not in path.split(os.pathsep):
            variables["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, path]))
    return variables
