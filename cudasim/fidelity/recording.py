"""Record what the GPUs of this machine answer, in `answers/<card>.json`."""

import json
import os
import platform
import re
import shutil
import subprocess
import warnings
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from fidelity import FidelityError, running
from fidelity.index import HERE, programs

ANSWERS = HERE / "answers"


@dataclass
class Recording:
    """What the GPUs of one machine answered."""

    card: str
    gpus: int
    capability: list[int]
    torch: str
    cuda: str
    driver: str
    python: str
    system: str
    date: str
    programs: dict[str, dict[str, Any]]  # by name: the `code` that ran, its `answer`

    @property
    def name(self) -> str:
        """The name of the file: `nvidia-h100-pcie`, `2x-tesla-t4`."""
        card = re.sub(r"[^a-z0-9]+", "-", self.card.lower()).strip("-")
        return card if self.gpus == 1 else f"{self.gpus}x-{card}"

    def write(self, folder: Path) -> Path:
        """Write the file in one stroke, so that an interruption leaves the earlier one."""
        folder.mkdir(parents=True, exist_ok=True)
        facts = asdict(self)
        answers = one_a_line(facts.pop("programs"))
        head = json.dumps(facts, indent=1).removesuffix("\n}")
        path = folder / f"{self.name}.json"
        part = path.with_suffix(".part")
        part.write_text(f'{head},\n "programs": {answers}\n}}\n', encoding="utf-8")
        os.replace(part, path)
        return path


def read(path: Path) -> Recording:
    """Read a recording. Raises FidelityError."""
    try:
        return Recording(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        remedy = "record it again with 'python cudasim/facts fidelity'"
        raise FidelityError(f"{path}: not a recording ({error}); {remedy}") from None


def read_all(folder: Path = ANSWERS) -> list[Recording]:
    """Read what has been recorded so far."""
    return [read(path) for path in sorted(folder.glob("*.json"))]


def one_a_line(answers: dict[str, Any]) -> str:
    """Return answers as JSON with a line for each program: a diff then shows which changed."""
    lines = []
    for name, given in answers.items():
        lines.append(f"  {json.dumps(name)}: {json.dumps(given, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n }"


def record(folder: Path = ANSWERS) -> Path:
    """Run every program that this machine has enough GPUs for; return the file written.

    Raises FidelityError without a real GPU.
    """
    recording = _describe_machine()
    if "Simulated" in recording.card and folder == ANSWERS:
        raise FidelityError("these GPUs are simulated: only real ones are recorded")

    known = programs()
    suitable = [each for each in known.values() if each.gpus <= recording.gpus]
    surprises = []
    for number, program in enumerate(suitable, 1):
        given = running.answer_apart(program.name)
        recording.programs[program.name] = {"code": program.code, "answer": given}
        if running.is_unexpected(given):
            surprises.append(program.name)
        print(f"[{number}/{len(suitable)}] {program.name}", flush=True)

    path = recording.write(folder)
    missing = len(known) - len(suitable)
    print(f"{path}: {len(suitable)} programs answered, {missing} need more GPUs")
    if surprises:
        print(f"errors that the programs do not expect: {', '.join(surprises)}")
    return path


def _describe_machine() -> Recording:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")  # torch says so if the driver is too old
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        reason = f"torch {torch.__version__} finds none"
        if caught:
            reason = " ".join(str(caught[0].message).split())
        raise FidelityError(f"no GPU to record: {reason}")

    cards = {torch.cuda.get_device_name(index) for index in range(count)}
    if len(cards) > 1:
        raise FidelityError(
            f"cards of several models ({', '.join(sorted(cards))}): choose those of one "
            "with CUDA_VISIBLE_DEVICES"
        )
    return Recording(
        card=cards.pop(),
        gpus=count,
        capability=list(torch.cuda.get_device_capability()),
        torch=torch.__version__,
        cuda=torch.version.cuda or "none",
        driver=_driver(),
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        date=datetime.now(UTC).date().isoformat(),
        programs={},
    )


def _driver() -> str:
    if shutil.which("nvidia-smi") is None:
        return "unknown"
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    versions = done.stdout.split()
    return versions[0] if versions else "unknown"
