"""How true the model is: `python -m cudasim.validate --card T4`.

Times every workload on this machine's GPU and under the modelled clock of a card, and prints
modelled over measured. Needs torch and its GPU only.
"""

import argparse
import sys
from pathlib import Path

INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> str | int | None:
    """Carry out the command; returns why it failed, in one line."""
    parser = argparse.ArgumentParser("python -m cudasim.validate", description=__doc__)
    parser.add_argument("--card", required=True, help="a card's name, or the path of its file")
    parser.add_argument("--to", type=Path, metavar="PATH", help="the file to write")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    parser.add_argument("--quick", action="store_true", help="small sizes: a trial")
    options = parser.parse_args(arguments)
    try:
        from cudasim.calibration.validating import CannotValidate, validate
    except ModuleNotFoundError as error:
        return f"validate: no module '{error.name}' here: install torch and numpy"
    try:
        print(validate(options.card, options.to, options.force, options.quick))
    except CannotValidate as error:
        return f"validate: {error}"
    except KeyboardInterrupt:
        print("validate: interrupted; nothing was written", file=sys.stderr)
        return INTERRUPTED
    return None


if __name__ == "__main__":
    sys.exit(main())
