"""Time the workloads on this machine's GPU and as modelled, and write both."""

import json
from functools import partial
from pathlib import Path

from calibration import CannotCalibrate, machine
from calibration.card_file import validated, write
from calibration.comparing import compare, table
from calibration.modelling import modelled
from calibration.rates import precisions
from calibration.stopwatch import workload_seconds
from calibration.workloads import select
from cudasim.timing.sheets import find_sheet

TIMINGS = machine.FOLDER / "timings"


def validate(
    card: str,
    to: Path | None = None,
    force: bool = False,
    quick: bool = False,
    stand_in: bool = False,
) -> str:
    """Time the workloads on this machine's GPU and as modelled for `card`; returns the table.

    Writes it with its provenance to `timings/<card>.json`, or to `to`. Raises CannotCalibrate
    without a GPU or such a card, or where the file is there already and `force` is not given.
    `stand_in` lets a simulated GPU with a modelled clock be measured, for tests of the harness.
    """
    try:
        sheet = find_sheet(card)
    except ValueError as error:
        raise CannotCalibrate(error) from None
    path = to or TIMINGS / f"{machine.file_stem(sheet.name)}.json"
    if path.exists() and not force:
        raise CannotCalibrate(
            f"{path} is there already: --force replaces it, --to names another"
        )
    device = machine.find_gpu(stand_in)
    chosen = select(precisions(device))
    measured = {}
    for number, workload in enumerate(chosen, 1):
        work = partial(workload_seconds, workload, device, quick)
        if machine.works(workload.name, partial(work, 0, 1)):
            measured[workload.name] = work()
            print(f"[{number}/{len(chosen)}] measured: {workload.name}", flush=True)
    expected = {}
    for number, (name, taken) in enumerate(modelled(card, list(measured), quick), 1):
        expected[name] = taken
        print(f"[{number}/{len(measured)}] modelled: {name}", flush=True)
    command = "python cudasim/facts validate" + (" --quick" if quick else "")
    about = {
        "card": sheet.name,
        "provenance": machine.provenance(device, command),
        **compare(expected, measured),
    }
    write(path, about)
    if (
        card.endswith(".json")
        and "measured" in sheet.provenance
        and not (stand_in or quick)
    ):
        own = json.loads(Path(card).read_text(encoding="utf-8"))
        write(Path(card), validated(own, about["figures"]))
    return f"{table(about)}\n{path} written"
