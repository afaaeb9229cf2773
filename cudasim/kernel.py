"""`python -m cudasim.kernel`: install a Jupyter kernel whose notebooks see simulated GPUs.

Any tool that runs notebooks can pick it: JupyterLab, VS Code, nbclient, nbval.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from cudasim import environment
from cudasim.cards import find_card


def spec(gpus: int, card: str) -> dict:
    """The content of `kernel.json`: this Python, started with `gpus` simulated GPUs."""
    run = [sys.executable, "-m", "cudasim", "--gpus", str(gpus), "--card", card]
    made = {
        "argv": [*run, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": f"Python ({gpus} simulated GPU{'s' if gpus > 1 else ''})",
        "language": "python",
        "metadata": {"debugger": True},
    }
    if not environment.installed():  # let that Python find the package where it is
        made["env"] = {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    return made


def install(folder: Path, gpus: int = 2, card: str = "T4") -> Path:
    """Write the kernel into `folder`, which holds Jupyter's data; returns its own folder.

    Raises ValueError for a number of GPUs or a card that cannot be.
    """
    environment.check_number(gpus)
    find_card(card)
    name = f"cudasim-{gpus}" if card == "T4" else f"cudasim-{gpus}-{card.lower()}"
    home = folder / "kernels" / name
    home.mkdir(parents=True, exist_ok=True)
    text = json.dumps(spec(gpus, card), indent=2) + "\n"
    (home / "kernel.json").write_text(text, encoding="utf-8")
    return home


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        "python -m cudasim.kernel", description="Install a Jupyter kernel with simulated GPUs."
    )
    parser.add_argument("--gpus", default="2", metavar="N", help="how many GPUs (2)")
    parser.add_argument("--card", default="T4", metavar="NAME", help="which card (T4)")
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
        home = install(folder, environment.read_number(options.gpus, "--gpus"), options.card)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    print(f"cudasim: kernel {home.name!r} is in {os.fspath(home)}")


if __name__ == "__main__":
    main()
