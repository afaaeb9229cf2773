"""`%load_ext cudasim`, and the magic `%cudasim 2 --card H100`, for notebooks."""

import argparse
import shlex
from typing import Any

from cudasim import config, simulation

USAGE = f"usage: %cudasim [GPUS] {config.USAGE}"


def load_ipython_extension(shell: Any) -> None:
    """Simulate two GPUs, unless some are simulated already, and register `%cudasim`."""
    shell.register_magic_function(cudasim, "line", "cudasim")
    if not simulation.is_enabled():
        simulation.enable()


def unload_ipython_extension(shell: Any) -> None:
    shell.magics_manager.magics["line"].pop("cudasim", None)
    simulation.disable()


def cudasim(line: str) -> None:
    """Begin again: `%cudasim [GPUS] ...`. Bad input gets one line, and changes nothing."""
    parser = argparse.ArgumentParser(
        add_help=False, allow_abbrev=False, exit_on_error=False
    )
    parser.add_argument("gpus", nargs="?")
    config.add_options(parser, but="gpus")
    try:
        options, unknown = parser.parse_known_intermixed_args(shlex.split(line))
        if unknown:
            raise ValueError(f"{unknown[0]}: no such option; {USAGE}")
        wanted = config.from_options(options, source=config.LINE)
        wanted.find_card()
        simulation.disable()
        print(simulation.begin(wanted))
    except argparse.ArgumentError as error:
        print(f"cudasim: {error}; {USAGE}")
    except (ValueError, RuntimeError) as error:
        print(f"cudasim: {error}")
