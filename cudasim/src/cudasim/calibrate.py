"""Measure this machine's GPU, and check the model against it: `python -m cudasim.calibrate`.

Writes a card file for the modelled clock, then times the workloads and prints how true the model
is. Needs torch and its GPU only.
"""

import argparse
import sys
from pathlib import Path

INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> str | int | None:
    """Calibrate, then validate; returns why it failed, in one line."""
    parser = argparse.ArgumentParser("python -m cudasim.calibrate", description=__doc__)
    parser.add_argument("--to", type=Path, metavar="PATH", help="the card file to write")
    parser.add_argument("--force", action="store_true", help="replace files that are there")
    parser.add_argument("--quick", action="store_true", help="small sizes, few readings: a trial")
    parser.add_argument("--only-measure", action="store_true", help="leave the workloads out")
    options = parser.parse_args(arguments)
    try:
        from cudasim.calibration.machine import CannotCalibrate
        from cudasim.calibration.measuring import calibrate
        from cudasim.calibration.validating import CannotValidate, validate
    except ModuleNotFoundError as error:
        return f"calibrate: no module '{error.name}' here: install torch and numpy"
    try:
        path = calibrate(options.to, options.force, options.quick)
        if not options.only_measure:
            # Timings of an earlier file say nothing of this one.
            print(validate(str(path), force=True, quick=options.quick))
    except (CannotCalibrate, CannotValidate) as error:
        return f"calibrate: {error}"
    except KeyboardInterrupt:
        print("calibrate: interrupted; what was not complete was not written", file=sys.stderr)
        return INTERRUPTED
    return None


if __name__ == "__main__":
    sys.exit(main())
