"""`python -m cudasim.kernel`: install a Jupyter kernel whose notebooks see simulated GPUs."""

import argparse
import json
import sys
from pathlib import Path

from cudasim import config, startup_file
from cudasim.device.types import DEFAULT


def install(folder: Path, wanted: config.Config) -> Path:
    """Write the specification of a kernel with these GPUs; return its folder."""
    spec = {
        "argv": [
            *[sys.executable, "-m", "cudasim", *config.to_options(wanted)],
            *["-m", "ipykernel_launcher", "-f", "{connection_file}"],
        ],
        "display_name": _display_name(wanted),
        "language": "python",
        "metadata": {"debugger": True},
    }
    if not startup_file.in_site_packages():
        # Let that Python find the package where it is.
        spec["env"] = {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    home = folder / "kernels" / _folder_name(wanted)
    home.mkdir(parents=True, exist_ok=True)
    text = json.dumps(spec, indent=2) + "\n"
    (home / "kernel.json").write_text(text, encoding="utf-8")
    return home


def _display_name(wanted: config.Config) -> str:
    gpus = f"{wanted.gpus} simulated {wanted.type.word(wanted.gpus)}"
    time = ", modelled time" if wanted.clock else ""
    return f"Python ({gpus}{time})"


def _folder_name(wanted: config.Config) -> str:
    """Return a name that says what is not usual about these GPUs."""
    card = wanted.find_card().name
    parts = ["cudasim"]
    if wanted.type is not DEFAULT:
        parts.append(wanted.type.name)
    parts.append(str(wanted.gpus))
    if card != wanted.type.card:
        parts.append(card.lower().replace(" ", "-"))
    if wanted.clock:
        parts.append(wanted.clock)
    if wanted.races:
        parts.append(wanted.races)
    return "-".join(parts)


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
        advice = "'pip install ipykernel', or --prefix"
        parser.error(f"Jupyter is not installed here: {advice}")
    except (ValueError, OSError) as error:
        parser.error(str(error))
    print(f"cudasim: kernel {home.name!r} is in {home}")


if __name__ == "__main__":
    main()
