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
from fidelity.index import HERE, Program, programs

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
        if self.gpus == 1:
            return card
        return f"{self.gpus}x-{card}"

    def has_answer(self, program: Program) -> bool:
        """Return whether the program answered, with the code that it has now."""
        recorded = self.programs.get(program.name)
        return recorded is not None and recorded["code"] == program.code

    def write(self, folder: Path) -> Path:
        """Write the file; an interruption leaves the earlier one."""
        facts = asdict(self)
        answers = one_a_line(facts.pop("programs"))
        head = json.dumps(facts, indent=1).removesuffix("\n}")
        text = f'{head},\n "programs": {answers}\n}}\n'

        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        part = path.with_suffix(".part")
        part.write_text(text, encoding="utf-8")
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
    """Return answers as JSON, a line for each program so that a diff shows which changed."""
    lines = []
    for name, answer in answers.items():
        text = json.dumps(answer, ensure_ascii=False)
        lines.append(f'  "{name}": {text}')
    joined = ",\n".join(lines)
    return f"{{\n{joined}\n }}"


def record(folder: Path = ANSWERS) -> Path:
    """Run every program that this machine has enough GPUs for; return the file written.

    Raises FidelityError without a real GPU.
    """
    recording = _describe_machine()
    if "Simulated" in recording.card and folder == ANSWERS:
        raise FidelityError("these GPUs are simulated: only real ones are recorded")

    known = programs()
    suitable = [program for program in known.values() if program.gpus <= recording.gpus]
    surprises = []
    for number, program in enumerate(suitable, 1):
        answer = running.answer_apart(program.name)
        recording.programs[program.name] = {"code": program.code, "answer": answer}
        if running.is_unexpected(answer):
            surprises.append(program.name)
        print(f"[{number}/{len(suitable)}] {program.name}", flush=True)

    path = recording.write(folder)
    missing = len(known) - len(suitable)
    print(f"{path}: {len(suitable)} programs answered, {missing} need more GPUs")
    if surprises:
        print(f"errors that the programs do not expect: {', '.join(surprises)}")
    return path


def _describe_machine() -> Recording:
    """Return a recording of this machine's GPUs that has no answers yet."""
    count = _count_gpus()
    cards = {torch.cuda.get_device_name(index) for index in range(count)}
    if len(cards) > 1:
        models = ", ".join(sorted(cards))
        raise FidelityError(
            f"cards of several models ({models}): choose those of one with "
            "CUDA_VISIBLE_DEVICES"
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


def _count_gpus() -> int:
    """Return the number of GPUs. Raises FidelityError where there is none."""
    # torch warns if the driver is too old, for example.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if torch.cuda.is_available() and torch.cuda.device_count():
            return torch.cuda.device_count()

    reason = f"torch {torch.__version__} finds none"
    if caught:
        message = str(caught[0].message)
        reason = " ".join(message.split())
    raise FidelityError(f"no GPU to record: {reason}")


def _driver() -> str:
    """Return the version of NVIDIA's driver, `unknown` without `nvidia-smi`."""
    if shutil.which("nvidia-smi") is None:
        return "unknown"
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    versions = done.stdout.split()
    return versions[0] if versions else "unknown"
