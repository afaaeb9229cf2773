"""What real GPUs answered to the programs of `cudasim/fidelity/`, as tables for the book.

The tests compare those answers with cudasim's and fail on every difference that is not listed;
so the tables are drawn from the answers, the list, and the list of programs alone.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from tools.book.book import Book
from tools.errors import BookError
from tools.files import read_text
from tools.site.table import table

SUITE = "cudasim/fidelity"
RECORD = f"python {SUITE} record"  # the command that asks the GPUs of a machine


def fidelity_tables(book: Book) -> list[str]:
    """The lines of two Markdown tables: the cards, and the listed differences.

    Raises BookError if a file of the suite is not what it should be.
    """
    root = book.root
    programs = _programs(root)
    several = sum(each["gpus"] > 1 for each in programs.values())
    paths = sorted((root / SUITE / "answers").glob("*.json"))
    if not paths:
        return [
            f"No real GPU has answered yet: {len(programs)} programs wait, {several} of them for "
            f"two GPUs. `{RECORD}` asks the GPUs of a machine that has some."
        ]
    listed = _differences(root)
    rows, differing = [], {}
    for path in paths:
        answers = _read(path, root)
        recorded = [  # answered as its code is now
            name
            for name, program in programs.items()
            if answers["programs"].get(name, {}).get("code") == program["code"]
        ]
        differ = [name for name in recorded if _differs(listed.get(name), path.stem)]
        for name in differ:
            differing.setdefault(name, []).append(path.stem)
        count = f"{answers['gpus']} x " if answers["gpus"] > 1 else ""
        facts = [count + answers["card"], answers["torch"], answers["cuda"], answers["date"]]
        total, answered, others = len(programs), len(recorded), len(differ)
        rows.append([*facts, total, answered, answered - others, others, total - answered])
    heads = ["Card", "PyTorch", "CUDA", "Date"]
    counts = ["Programs", "Recorded", "Agree", "Differ", "Wait"]
    lines = table([*heads, *counts], rows, numbers=(4, 5, 6, 7, 8))
    if differing:
        reasons = [
            [f"`{name}`", ", ".join(cards), listed[name]["kind"], listed[name]["reason"]]
            for name, cards in differing.items()
        ]
        lines += ["", "Where the answers differ:", ""]
        lines += table(["Program", "Card", "Kind", "Reason"], reasons)
    return lines


def _differs(difference: dict | None, card: str) -> bool:
    """Whether a listed difference is one of `card`: of all cards unless it names some."""
    return difference is not None and card in difference.get("cards", [card])


def _programs(root: Path) -> dict[str, dict[str, Any]]:
    """Every program: how many GPUs it needs, and the hash of its code."""
    ask = [sys.executable, SUITE, "list"]
    run = subprocess.run(ask, cwd=root, capture_output=True, text=True, check=False)
    if run.returncode:
        reason = (run.stderr.splitlines() or ["no reason given"])[-1]
        raise BookError(f"{SUITE}: 'python {SUITE} list' fails: {reason}")
    return json.loads(run.stdout)


def _read(path: Path, root: Path) -> dict[str, Any]:
    """What one card answered."""
    facts = {"card", "gpus", "torch", "cuda", "date", "programs"}
    try:
        answers = json.loads(read_text(path, root))
        if answers.keys() >= facts and all("code" in each for each in answers["programs"].values()):
            return answers
    except (ValueError, TypeError, AttributeError):
        pass  # not such a file either
    name = path.relative_to(root).as_posix()
    raise BookError(f"{name}: not what the recorder writes; record it again with '{RECORD}'")


def _differences(root: Path) -> dict[str, dict[str, Any]]:
    """The listed differences, by program."""
    name = f"{SUITE}/differences.toml"
    try:
        listed = tomllib.loads(read_text(root / name, root))
        for each in listed.values():
            each["kind"], each["reason"]
    except (tomllib.TOMLDecodeError, KeyError, TypeError):
        raise BookError(f"{name}: give each program a kind and a reason") from None
    return listed
