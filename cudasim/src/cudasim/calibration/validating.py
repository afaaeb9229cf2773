"""Time the workloads on this machine's GPU and as modelled, and write both."""

import json
from functools import partial
from pathlib import Path

from cudasim.calibration import machine
from cudasim.calibration.card_file import validated, write
from cudasim.calibration.comparing import compare, table
from cudasim.calibration.modelling import ModelFailed, modelled
from cudasim.calibration.rates import precisions
from cudasim.calibration.stopwatch import workload_seconds
from cudasim.timing.sheets import find_sheet
from cudasim.workloads import select

TIMINGS = machine.FOLDER / "timings"


class CannotValidate(Exception):
    """Why the model cannot be checked here, in one line that names what to do."""


def validate(
    card: str,
    to: Path | None = None,
    force: bool = False,
    quick: bool = False,
    stand_in: bool = False,
) -> str:
    """Time the workloads on this machine's GPU and as modelled for `card`; returns the table.

    Writes it with its provenance to `timings/<card>.json`, or to `to`. Raises CannotValidate
    without a GPU or such a card, or where the file is there already and `force` is not given.
    `stand_in` lets a simulated GPU with a modelled clock be measured, for tests of the harness.
    """
    try:
        sheet = find_sheet(card)
    except ValueError as error:
        raise CannotValidate(error) from None
    path = to or TIMINGS / f"{machine.file_stem(sheet.name)}.json"
    if path.exists() and not force:
        raise CannotValidate(f"{path} is there already: --force replaces it, --to names another")
    try:
        device = machine.find_gpu(stand_in)
    except machine.CannotCalibrate as error:
        raise CannotValidate(error) from None
    chosen = select(precisions(device))
    measured = {}
    for number, workload in enumerate(chosen, 1):
        work = partial(workload_seconds, workload, device, quick)
        if machine.works(workload.name, partial(work, 0, 1)):
            measured[workload.name] = work()
            print(f"[{number}/{len(chosen)}] measured: {workload.name}", flush=True)
    expected = {}
    try:
        for number, (name, taken) in enumerate(modelled(card, list(measured), quick), 1):
            expected[name] = taken
            print(f"[{number}/{len(measured)}] modelled: {name}", flush=True)
    except ModelFailed as error:
        raise CannotValidate(error) from None
    command = "python -m cudasim.validate" + (" --quick" if quick else "")
    about = {
        "card": sheet.name,
        "provenance": machine.provenance(device, command),
        **compare(expected, measured),
    }
    write(path, about)
    if card.endswith(".json") and "measured" in sheet.provenance and not (stand_in or quick):
        own = json.loads(Path(card).read_text(encoding="utf-8"))
        write(Path(card), validated(own, about["figures"]))
    return f"{table(about)}\n{path} written"
