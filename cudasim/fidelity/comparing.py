"""Compare the answers of a real GPU with those of `cudasim`."""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fidelity import FidelityError, running
from fidelity.index import HERE, Program, programs
from fidelity.recording import Recording

DIFFERENCES = HERE / "differences.toml"


@dataclass
class Comparison:
    """The programs of a recording, by outcome."""

    agree: list[str] = field(default_factory=list)
    # Both answers: the real one, then the simulated one.
    differ: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    # Why the program has no answer.
    waiting: dict[str, str] = field(default_factory=dict)


def compare(
    recording: Recording, known: dict[str, Program], simulated: dict[str, Any]
) -> Comparison:
    """Sort the programs into those that agree, those that differ, and those that wait."""
    comparison = Comparison()
    for name, program in known.items():
        recorded = recording.programs.get(name)
        if recorded is None and program.gpus > recording.gpus:
            comparison.waiting[name] = f"needs {program.gpus} GPUs"
        elif recorded is None:
            comparison.waiting[name] = "never run"
        elif not recording.has_answer(program):
            comparison.waiting[name] = "changed since it ran"
        elif recorded["answer"] == simulated[name]:
            comparison.agree.append(name)
        else:
            comparison.differ[name] = recorded["answer"], simulated[name]
    return comparison


def compare_with_simulation(recording: Recording) -> Comparison:
    """Run the programs on simulated GPUs, as many as were recorded, and compare."""
    known = programs()
    suitable = [program for program in known.values() if program.gpus <= recording.gpus]
    card = nearest_card(recording)
    simulated = running.simulate(suitable, recording.gpus, card)
    return compare(recording, known, simulated)


def problems(
    recording: Recording, comparison: Comparison, reasons: dict[str, str]
) -> list[str]:
    """Return a text for each difference without a reason, and each reason without one."""
    texts = []
    for name, (real, simulated) in comparison.differ.items():
        if name not in reasons:
            lines = [
                f"{recording.card}: {name}",
                f"  real:      {json.dumps(real)}",
                f"  simulated: {json.dumps(simulated)}",
            ]
            texts.append("\n".join(lines))
    for name in comparison.agree:
        if name in reasons:
            advice = f"differs no longer, take it out of {DIFFERENCES.name}"
            texts.append(f"{recording.card}: {name}: {advice}")
    return texts


def read_reasons(path: Path = DIFFERENCES) -> dict[str, str]:
    """Read the differences that are accepted, each with its reason. Raises FidelityError."""
    try:
        reasons = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise FidelityError(f"{path}: no TOML: {error}") from None
    for name, reason in reasons.items():
        if not isinstance(reason, str) or not reason.strip():
            raise FidelityError(f'{path}: {name}: write "theme.program" = "the reason"')
    return reasons


def nearest_card(recording: Recording) -> str:
    """Return the simulated card of that name, or else the one with the nearest capability."""
    import cudasim

    def number(capability: Sequence[int]) -> int:
        major, minor = capability
        return 10 * major + minor

    def distance(name: str) -> tuple[bool, int]:
        difference = number(cudasim.CARDS[name].capability)
        difference -= number(recording.capability)
        return name not in recording.card, abs(difference)

    cards = [name for name, card in cudasim.CARDS.items() if card.capability]
    return min(cards, key=distance)
