"""The environment variables by which a program, and what it starts, get simulated GPUs.

Nothing here imports torch: it is read before torch is.
"""

import os
from pathlib import Path

GPUS = "CUDASIM_GPUS"  # how many; the one that asks for a simulation
CARD = "CUDASIM_CARD"  # which card, T4 if it is not set
FORCE = "CUDASIM_FORCE"  # 1: simulate even where as many real GPUs are there
QUIET = "CUDASIM_QUIET"  # 1: say nothing when the simulation begins

MOST = 64  # GPUs; more are surely a slip

_PACKAGE = Path(__file__).resolve().parent


def check_number(gpus: object, named: str = "gpus") -> int:
    """`gpus` if it is a number of GPUs that makes sense, else ValueError; `named` is its name."""
    if not isinstance(gpus, int) or isinstance(gpus, bool) or not 1 <= gpus <= MOST:
        raise ValueError(f"{named}={gpus!r}: the number of simulated GPUs is from 1 to {MOST}")
    return gpus


def read_number(text: str, named: str) -> int:
    """The number of GPUs that `text` says. Raises ValueError, with the name of its source."""
    return check_number(int(text) if text.isascii() and text.isdigit() else text, named)


def asked() -> dict | None:
    """What the environment asks of `cudasim.enable`: gpus, card, force; None if nothing.

    Raises ValueError for a number of GPUs that makes no sense.
    """
    number = os.environ.get(GPUS, "").strip()
    if not number:
        return None
    return {
        "gpus": read_number(number, GPUS),
        "card": os.environ.get(CARD, "").strip() or "T4",
        "force": os.environ.get(FORCE) == "1",
    }


def quiet() -> bool:
    """True in what a simulation started: who started it has said that it is one."""
    return os.environ.get(QUIET) == "1"


def installed() -> bool:
    """True if the package came by a wheel, so that every Python here reads CUDASIM_GPUS."""
    return (_PACKAGE.parent / "cudasim.pth").is_file()


def for_children(gpus: int, card: str, force: bool) -> dict[str, str]:
    """The variables with which a program that is started gets the same GPUs.

    Where the package is not installed, they let Python find it by a `sitecustomize`.
    """
    variables = {GPUS: str(gpus), CARD: card, QUIET: "1", FORCE: "1" if force else "0"}
    if not installed():
        folder = str(_PACKAGE / "inherit")
        path = os.environ.get("PYTHONPATH", "")
        if folder not in path.split(os.pathsep):
            variables["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, path]))
    return variables
