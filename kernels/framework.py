"""Start the IPython kernel of a framework, in its own environment: called by kernel.json.

`python -m tools record` makes that environment; this goes on in it.
"""

import argparse
import importlib
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def enter(framework: str) -> None:
    """Go on with the Python of a framework's environment, unless it is this one."""
    folder = HERE.parent / "_build" / f".{framework}"
    python = folder / (
        "Scripts/python.exe" if sys.platform == "win32" else "bin/python"
    )
    if not python.exists():
        sys.exit(
            f"error: no environment for {framework}; 'make record RUNNER={framework}' makes it"
        )
    if Path(sys.prefix) != folder:
        os.execv(python, [str(python), *sys.argv])


def main() -> None:
    """Start the kernel; all arguments but ours go to IPython."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--framework", required=True)
    parser.add_argument("--simulate", type=int, metavar="GPUS")
    ours, theirs = parser.parse_known_args()
    enter(ours.framework)
    from start import (  # here: it imports what only kernels have
        find_cudasim,
        kernel_config,
    )

    del sys.path[0]  # this folder: a chapter imports nothing from here
    find_cudasim()
    if ours.simulate:
        importlib.import_module(f"cudasim.{ours.framework}").enable(gpus=ours.simulate)
    from ipykernel.kernelapp import IPKernelApp

    IPKernelApp.launch_instance(argv=theirs, config=kernel_config())


if __name__ == "__main__":
    main()
