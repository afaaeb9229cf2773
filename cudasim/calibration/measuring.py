"""Measure this machine's GPU, and write its card file."""

import time
from pathlib import Path

import torch

from calibration import CannotCalibrate, copies, hosts, overheads, rates
from calibration.card_file import card_file, write
from calibration.machine import (
    FOLDER,
    card_name,
    data_sheet,
    file_stem,
    find_gpu,
    provenance,
)
from calibration.stopwatch import Stopwatch


def measure(device: torch.device, quick: bool) -> dict:
    """All that is measured on one GPU, in SI units; a line on each step."""
    start = time.monotonic()
    watch = Stopwatch(device, quick)
    measured = {
        "processors": torch.cuda.get_device_properties(device).multi_processor_count
    }
    steps = {
        "overheads": lambda: overheads.overheads(watch),
        "first": overheads.first_use,
        "host": lambda: hosts.host(
            watch, measured["overheads"]["submit"], measured["first"], quick
        ),
        "matmul": lambda: rates.products(watch, quick),
        "convolution": lambda: rates.convolutions(watch, quick),
        "attention": lambda: rates.attentions(watch, quick),
        "memory": lambda: rates.memory(watch, quick),
        "link": lambda: copies.link(watch, quick),
        "peer": lambda: copies.peer(watch, quick),
    }
    for number, (name, step) in enumerate(steps.items(), 1):
        measured[name] = step()
        print(
            f"[{number}/{len(steps)}] {name}, {time.monotonic() - start:.0f} s",
            flush=True,
        )
    return measured


def calibrate(
    to: Path | None = None,
    force: bool = False,
    quick: bool = False,
    stand_in: bool = False,
) -> Path:
    """Measure this machine's GPU; returns the card file that was written.

    It goes to `cards/<card>.json`, or to `to`. `stand_in`: a simulated GPU with a modelled clock
    is measured, for tests of the harness. Raises CannotCalibrate without a GPU, or where the
    file is there already and `force` is not given.
    """
    device = find_gpu(stand_in)
    hardware = torch.cuda.get_device_name(device)
    name = card_name(hardware)
    path = to or FOLDER / "cards" / f"{file_stem(name)}.json"
    if path.exists() and not force:
        raise CannotCalibrate(
            f"{path} is there already: --force replaces it, --to names another"
        )
    about = provenance(
        device, "python cudasim/facts calibrate" + (" --quick" if quick else "")
    )
    print(f"measuring {hardware}, torch {about['torch']}", flush=True)
    write(
        path,
        card_file(
            f"{name} calibrated", data_sheet(hardware), measure(device, quick), about
        ),
    )
    print(f"{path} written", flush=True)
    return path
