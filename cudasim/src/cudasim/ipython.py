"""`%load_ext cudasim`, and the magic `%cudasim 2 --card H100`, for notebooks."""

import argparse
import shlex
from typing import Any

from cudasim import config, simulation
from cudasim.config import Config

USAGE = "usage: %cudasim [GPUS] [--card NAME] [--device-type TYPE] [--clock CLOCK] [--force]"


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
    """`%cudasim [GPUS] [--card NAME] [--device-type TYPE] [--clock CLOCK] [--force]`: begin again.

    Tensors on the GPUs of before are unusable. Bad input gets one line, and changes nothing.
    """
    try:
        wanted = parse(line)
        wanted.find_card()
        simulation.disable()
        type, clock = wanted.type.name, wanted.clock
        simulation.enable(wanted.gpus, wanted.card, wanted.force, type, clock)
    except (ValueError, RuntimeError) as error:
        print(f"cudasim: {error}")


def parse(line: str) -> Config:
    """What `line` asks for. Raises ValueError if it says anything else."""
    words = shlex.split(line)
    if words and words[-1] in ("--card", "--device-type", "--clock"):
        words.append("")  # an empty name, which is refused as any unknown one
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("gpus", nargs="?")
    parser.add_argument("--force", action="store_true")
    config.add_options(parser)
    try:
        options, unknown = parser.parse_known_intermixed_args(words)
    except argparse.ArgumentError as error:
        raise ValueError(f"{error}; {USAGE}") from None
    if unknown:
        raise ValueError(f"{unknown[0]}: no such option; {USAGE}")
    asked = options.gpus, options.card, options.device_type, options.force
    return config.parse(*asked, source=config.LINE, clock=options.clock)
