"""`%load_ext cudasim`, and the magic `%cudasim 2 --card H100`, for notebooks."""

import shlex
from typing import Any

from cudasim import simulation
from cudasim.device.types import check_number, find_kind, read_number

USAGE = "usage: %cudasim [GPUS] [--card NAME] [--device-type TYPE] [--force]"


def load_ipython_extension(shell: Any) -> None:
    """Simulate two GPUs, unless some are simulated already, and register `%cudasim`."""
    shell.register_magic_function(cudasim, "line", "cudasim")
    if not simulation.is_enabled():
        simulation.enable()


def unload_ipython_extension(shell: Any) -> None:
    """End the simulation and take `%cudasim` away."""
    shell.magics_manager.magics["line"].pop("cudasim", None)
    simulation.disable()


def cudasim(line: str) -> None:
    """`%cudasim [GPUS] [--card NAME] [--device-type TYPE] [--force]`: begin anew with others.

    Tensors on the GPUs of before are unusable. Bad input gets one line, and changes nothing.
    """
    try:
        wanted = read(line)
        simulation.check(wanted["gpus"], wanted["card"], wanted["device_type"])
        simulation.disable()
        simulation.enable(**wanted)
    except (ValueError, RuntimeError) as error:
        print(f"cudasim: {error}")


def read(line: str) -> dict:
    """The arguments of `enable` that `line` names. Raises ValueError if it says anything else."""
    wanted = {"gpus": None, "card": None, "force": False, "device_type": "cuda"}
    words = iter(shlex.split(line))
    number = None
    for word in words:
        if word == "--force":
            wanted["force"] = True
        elif word == "--card":
            wanted["card"] = next(words, "")
        elif word == "--device-type":
            wanted["device_type"] = next(words, "")
        elif word.startswith("--"):
            raise ValueError(f"{word}: no such option; {USAGE}")
        else:
            number = word
    kind = find_kind(wanted["device_type"], "--device-type")
    if number is not None:
        wanted["gpus"] = check_number(read_number(number), kind, "GPUS")
    return wanted
