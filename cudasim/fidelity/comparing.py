"""Comparing what a real GPU answered with what cudasim answers."""

import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fidelity.index import HERE, Program

DIFFERENCES = HERE / "differences.toml"
KINDS = ("torch version", "simulation", "hardware")
FACTS = {
    "name",
    "card",
    "gpus",
    "capability",
    "memory",
    "torch",
    "cuda",
    "driver",
    "date",
}
ANSWER = {"code", "answer"}


class BadFile(Exception):
    """A fault in a file of answers or differences, in one line that names the file and the fix."""


@dataclass
class Comparison:
    """One card's answers compared with cudasim's: names of programs, by outcome."""

    agree: list[str] = field(default_factory=list)
    differ: dict[str, tuple[Any, Any]] = field(
        default_factory=dict
    )  # (real, simulated)
    waiting: dict[str, str] = field(default_factory=dict)  # why


def compare(
    answers: dict, known: dict[str, Program], simulated: dict[str, Any]
) -> Comparison:
    """What came of each known program: agreement, difference, or why it waits."""
    result = Comparison()
    for name, program in known.items():
        recorded = answers["programs"].get(name)
        if recorded is None and program.gpus > answers["gpus"]:
            result.waiting[name] = f"needs {program.gpus} GPUs"
        elif recorded is None:
            result.waiting[name] = "never asked"
        elif recorded["code"] != program.code:
            result.waiting[name] = "changed since it was asked"
        elif name not in simulated:
            result.waiting[name] = "cannot run on this system"
        elif recorded["answer"] == simulated[name]:
            result.agree.append(name)
        else:
            result.differ[name] = recorded["answer"], simulated[name]
    return result


def unlisted(card: str, found: Comparison, listed: dict[str, dict]) -> list[str]:
    """What is wrong with `card`: a text for each difference that the list has no reason for."""
    return [
        f"{card}: {name}\n  real:      {json.dumps(real)}\n  simulated: {json.dumps(simulated)}"
        for name, (real, simulated) in found.differ.items()
        if not applies(listed.get(name), card)
    ]


def outdated(card: str, found: Comparison, listed: dict[str, dict]) -> list[str]:
    """What is wrong with the list: a line for each difference that is none on `card`.

    Of a program that waits nothing can be said.
    """
    return [
        f"{card}: {name}: differs no longer, take it out of {DIFFERENCES.name}"
        for name in found.agree
        if applies(listed.get(name), card)
    ]


def applies(difference: dict | None, card: str) -> bool:
    """Whether a listed difference is one of `card`: of all cards unless it names some."""
    return difference is not None and card in difference.get("cards", [card])


def read_answers(path: Path) -> dict[str, Any]:
    """What a card answered. Raises BadFile if the file is not what the recorder writes."""
    try:
        answers = json.loads(path.read_text(encoding="utf-8"))
        given = answers["programs"].values()
        whole = answers.keys() >= FACTS and all(each.keys() == ANSWER for each in given)
    except (ValueError, KeyError, TypeError, AttributeError):
        whole = False
    if not whole:
        fix = "record it again with 'python cudasim/facts fidelity'"
        raise BadFile(f"{path}: not what the recorder writes; {fix}")
    return answers


def read_differences(path: Path = DIFFERENCES) -> dict[str, dict[str, str]]:
    """The listed differences: program -> kind and reason. Raises BadFile for another form."""
    try:
        listed = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise BadFile(f"{path}: no TOML: {error}") from None
    for name, each in listed.items():
        if not isinstance(each, dict) or set(each) - {"cards"} != {"kind", "reason"}:
            raise BadFile(
                f"{path}: {name}: say kind and reason, cards if need be, nothing else"
            )
        if each["kind"] not in KINDS:
            raise BadFile(f"{path}: {name}: kind is one of {', '.join(KINDS)}")
        if not str(each["reason"]).strip():
            raise BadFile(f"{path}: {name}: say the reason")
    return listed


def nearest_card(answers: dict[str, Any], cards: dict[str, Any]) -> str:
    """The card of cudasim that is most like the recorded one: by name, capability, memory."""

    def distance(name: str) -> tuple:
        card = cards[name]
        major, minor = card.capability
        apart = abs(
            10 * answers["capability"][0]
            + answers["capability"][1]
            - 10 * major
            - minor
        )
        return name not in answers["card"], apart, abs(card.memory - answers["memory"])

    return min((name for name, card in cards.items() if card.capability), key=distance)
