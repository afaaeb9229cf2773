"""`python -m cudasim.kernel`: install a Jupyter kernel whose notebooks see simulated GPUs."""

import argparse
import json
import sys
from pathlib import Path

from cudasim import config, startup_file
from cudasim.device.types import DEFAULT


def install(folder: Path, wanted: config.Config) -> Path:
    card, type = wanted.find_card().name, wanted.type
    named = "" if card == type.card else card.lower().replace(" ", "-")
    kind = "" if type is DEFAULT else type.name
    parts = kind, str(wanted.gpus), named, wanted.clock, wanted.races
    home = folder / "kernels" / "-".join(["cudasim", *filter(None, parts)])
    run = [sys.executable, "-m", "cudasim", *config.to_options(wanted)]
    word = type.word(wanted.gpus) + (", modelled time" if wanted.clock else "")
    spec = {
        "argv": [*run, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": f"Python ({wanted.gpus} simulated {word})",
        "language": "python",
        "metadata": {"debugger": True},
    }
    if (
        not startup_file.in_site_packages()
    ):  # let that Python find the package where it is
        spec["env"] = {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    home.mkdir(parents=True, exist_ok=True)
    (home / "kernel.json").write_text(
        json.dumps(spec, indent=2) + "\n", encoding="utf-8"
    )
    return home


def main() -> None:
    about = "Install a Jupyter kernel with simulated GPUs."
    parser = argparse.ArgumentParser("python -m cudasim.kernel", description=about)
    config.add_options(parser)
    parser.add_argument(
        "--prefix", type=Path, help="install in PREFIX/share/jupyter/kernels"
    )
    options = parser.parse_args()
    try:
        if options.prefix:
            folder = options.prefix / "share" / "jupyter"
        else:
            from jupyter_core.paths import jupyter_data_dir

            folder = Path(jupyter_data_dir())
        home = install(folder, config.from_options(options))
    except ModuleNotFoundError:
        parser.error(
            "Jupyter is not installed here: 'pip install ipykernel', or --prefix"
        )
    except (ValueError, OSError) as error:
        parser.error(str(error))
    print(f"cudasim: kernel {home.name!r} is in {home}")


if __name__ == "__main__":
    main()
