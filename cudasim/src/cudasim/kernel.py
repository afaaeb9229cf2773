"""`python -m cudasim.kernel`: install a Jupyter kernel whose notebooks see simulated GPUs.

Any tool that runs notebooks can pick it: JupyterLab, VS Code, nbclient, nbval.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from cudasim import config
from cudasim.device.specs import find_card
from cudasim.device.types import KINDS, Kind, check_number, find_kind, read_number


def spec(gpus: int, card: str, kind: Kind) -> dict:
    """The content of `kernel.json`: this Python, started with `gpus` simulated GPUs."""
    run = [sys.executable, "-m", "cudasim", "--gpus", str(gpus), "--card", card]
    if kind.type != "cuda":
        run += ["--device-type", kind.type]
    made = {
        "argv": [*run, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": f"Python ({gpus} simulated {kind.word(gpus)})",
        "language": "python",
        "metadata": {"debugger": True},
    }
    if not config.installed():  # let that Python find the package where it is
        made["env"] = {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    return made


def install(
    folder: Path, gpus: int | None = None, card: str | None = None, device_type: str = "cuda"
) -> Path:
    """Write the kernel into `folder`, which holds Jupyter's data; returns its own folder.

    None is the usual number, or card, of that type of device. Raises ValueError for a number,
    a card or a type that cannot be.
    """
    kind = find_kind(device_type)
    gpus = check_number(kind.usual if gpus is None else gpus, kind)
    card = find_card(kind.card if card is None else card, kind).name
    parts = ["cudasim", kind.type if kind.type != "cuda" else "", str(gpus)]
    parts.append(card.lower().replace(" ", "-") if card != kind.card else "")
    home = folder / "kernels" / "-".join(filter(None, parts))
    home.mkdir(parents=True, exist_ok=True)
    text = json.dumps(spec(gpus, card, kind), indent=2) + "\n"
    (home / "kernel.json").write_text(text, encoding="utf-8")
    return home


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        "python -m cudasim.kernel", description="Install a Jupyter kernel with simulated GPUs."
    )
    parser.add_argument("--gpus", metavar="N", help="how many GPUs (2)")
    parser.add_argument("--card", metavar="NAME", help="which card (T4)")
    types = ", ".join(KINDS)
    parser.add_argument("--device-type", default="cuda", metavar="TYPE", help=f"one of {types}")
    parser.add_argument("--prefix", type=Path, help="install in PREFIX/share/jupyter/kernels")
    options = parser.parse_args(arguments)
    if options.prefix:
        folder = options.prefix / "share" / "jupyter"
    else:
        try:
            from jupyter_core.paths import jupyter_data_dir
        except ModuleNotFoundError:
            parser.error("Jupyter is not installed here: 'pip install ipykernel', or --prefix")
        folder = Path(jupyter_data_dir())
    try:
        kind = find_kind(options.device_type, "--device-type")
        number = kind.usual
        if options.gpus is not None:
            number = check_number(read_number(options.gpus), kind, "--gpus")
        home = install(folder, number, options.card, kind.type)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    print(f"cudasim: kernel {home.name!r} is in {os.fspath(home)}")


if __name__ == "__main__":
    main()
