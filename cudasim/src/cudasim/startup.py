"""Simulate as the environment asks, once torch or NVML is there.

Most programs never import either.
"""

import sys

from cudasim import config
from cudasim.importing import ImportWatcher, after_import


def begin() -> None:
    """Simulate once torch is there.

    Called as Python starts if CUDASIM_GPUS is set, by the file of `startup_file` or by
    the `sitecustomize` that a simulation gives to its child processes.
    """
    for finder in sys.meta_path:
        if isinstance(finder, ImportWatcher) and finder.name == "torch":
            return  # the simulation awaits torch already
    after_import("torch", simulate_as_asked)
    after_import("pynvml", simulate_for_monitor)


def simulate_for_monitor() -> None:
    """Simulate for a program that asks NVML of the cards and may never import torch.

    Torch imports the same package, and then waits for no simulation.
    """
    if "torch" not in sys.modules:
        simulate_as_asked()


def simulate_as_asked() -> None:
    """Simulate what the environment asks for; one line says so, or ends the program."""
    from cudasim import installed

    try:
        # This imports torch. A finder that awaits it calls this function again meanwhile.
        installed.check_torch()
    except ImportError as error:
        sys.exit(str(error))
    from cudasim import simulation

    try:
        wanted = config.from_environment()
        if wanted is None or simulation.is_enabled():
            return
        is_quiet = config.is_quiet()  # before the simulation sets the variable
        line = simulation.begin(wanted, inherited=True)
    except (ValueError, RuntimeError) as error:
        sys.exit(f"cudasim: {error}")
    if not is_quiet:
        print(line, file=sys.stderr)
