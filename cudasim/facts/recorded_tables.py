"""Tables of what was recorded: how much of PyTorch and of other projects' tests passes."""

from collections.abc import Iterable
from typing import Any

from facts import files
from facts.files import COMMAND, reading
from facts.markdown import in_unit, table

SUPPORT = ("python", "torch", "system", "passed", "failed", "skipped", "date")


def survey() -> list[str]:
    """Draw the figures of the survey, and what does not pass."""
    rows = []
    exceptions = []
    with reading(files.FOLDER / "survey.json", f"{COMMAND} survey") as recorded:
        for kind, counts in recorded["summary"].items():
            total, passed, skipped = _pick(counts, "total", "passed", "skipped")
            share = f"{counts['percent']} %"
            rows.append([f"{kind}s", total, passed, share, skipped])
        for exception in recorded["exceptions"]:
            name, reason = _pick(exception, "name", "reason")
            exceptions.append([f"`{name}`", reason])
        origin = _origin(recorded, "survey")

    heads = ["What", "Surveyed", "Pass", "Share", "Left out"]
    lines = table(heads, rows, numbers=(1, 2, 3, 4))
    lines += ["", origin]
    if exceptions:
        lines += ["", "What does not pass:", ""]
        lines += table(["Name", "Reason"], exceptions)
    return lines


def conformance() -> list[str]:
    """Draw the outcomes of PyTorch's own tests by file, and why some fail."""
    rows = []
    reasons = []
    path = files.FOLDER / "conformance.json"
    counted = ("total", "passed", "failed", "not run", "skipped")
    with reading(path, f"{COMMAND} conformance") as recorded:
        for file in recorded["files"]:
            rows.append(_pick(file, "file", *counted))
        for reason in recorded["reasons"]:
            reasons.append(_pick(reason, "file", "tests", "kind", "reason"))
        origin = _origin(recorded, "conformance")

    heads = ["File", "Tests", "Pass", "Fail", "Not run", "Left out by the file"]
    lines = table(heads, rows, numbers=(1, 2, 3, 4, 5))
    lines += ["", origin]
    if reasons:
        lines += ["", "Why the others do not pass:", ""]
        lines += table(["File", "Tests", "Kind", "Reason"], reasons, numbers=(1,))
    return lines


def suites() -> list[str]:
    """Draw the outcomes of other projects' tests, and why some fail."""
    rows = []
    reasons = []
    counted = ("alone", "passed", "thanks", "failed", "anyway")
    with reading(files.FOLDER / "suites.json", f"{COMMAND} suites") as recorded:
        for suite in recorded["projects"]:
            project = suite["project"]
            row = [f"{project} {suite['version']}"]
            row += _pick(suite, *counted, "date")
            rows.append(row)
            for number, reason in suite["reasons"]:
                reasons.append([project, number, reason])

    heads = [
        "Project",
        "Passed without GPUs",
        "Passed with two",
        "Ran only thanks to them",
        "Failed",
        "Failed anyway",
        "Date",
    ]
    lines = table(heads, rows, numbers=(1, 2, 3, 4, 5))
    if reasons:
        lines += ["", "Why some fail:", ""]
        lines += table(["Project", "Tests", "Reason"], reasons, numbers=(1,))
    return lines


def support() -> list[str]:
    """Draw the systems and versions on which the tests ran."""
    rows = []
    with reading(files.FOLDER / "support.json", f"{COMMAND} support") as recorded:
        for row in recorded["rows"]:
            rows.append(_pick(row, *SUPPORT))
    heads = ["Python", "PyTorch", "System", "Passed", "Failed", "Skipped", "Date"]
    return table(heads, rows, numbers=(3, 4, 5))


def bench() -> list[str]:
    """Draw how much longer programs take with simulated GPUs."""
    rows = []
    with reading(files.FOLDER / "bench.json", f"{COMMAND} bench") as recorded:
        for cost in recorded["programs"]:
            program, plain, simulated = _pick(cost, "program", "plain", "simulated")
            times = f"{simulated / plain:.2g}"
            in_ms = [in_unit(seconds, 1e-3) for seconds in (plain, simulated)]
            rows.append([program, *in_ms, times])
        origin = _origin(recorded, "bench")
    heads = ["Program", "Plain CPU, ms", "Simulated GPU, ms", "Times"]
    return [*table(heads, rows, numbers=(1, 2, 3)), "", origin]


def fidelity() -> list[str]:
    """Draw which cards have answered the programs, and the accepted differences."""
    from fidelity import comparing, index, recording

    programs = index.programs()
    recordings = recording.read_all()
    if not recordings:
        return [_nothing_recorded(programs.values())]

    rows = []
    for answers in recordings:
        card = answers.card
        if answers.gpus > 1:
            card = f"{answers.gpus} x {card}"
        row = [card, answers.torch, answers.cuda, answers.date]

        answered = sum(answers.has_answer(program) for program in programs.values())
        row.append(answered)
        row.append(len(programs) - answered)
        rows.append(row)
    heads = ["Card", "PyTorch", "CUDA", "Date", "Answered", "Waiting"]
    lines = table(heads, rows, numbers=(4, 5))

    differences = []
    for name, reason in comparing.read_reasons().items():
        differences.append([f"`{name}`", reason])
    if differences:
        lines += ["", "Where `cudasim` answers otherwise:", ""]
        lines += table(["Program", "Reason"], differences)
    return lines


def _nothing_recorded(programs: Iterable[Any]) -> str:
    gpus = [program.gpus for program in programs]
    for_two = len(gpus) - gpus.count(1)
    return (
        f"No real GPU has answered yet: {len(gpus)} programs wait, "
        f"{for_two} of them for two GPUs. `{COMMAND} fidelity` asks the GPUs of a "
        "machine that has some."
    )


def _origin(recorded: dict[str, Any], command: str) -> str:
    """Return how, when and on what something was recorded."""
    software = f"PyTorch {recorded['torch']}, Python {recorded['python']}"
    if command == "conformance":
        software = f"the tests of PyTorch {recorded['tests']} on {software}"
    date, hardware = _pick(recorded, "date", "hardware")
    return f"`{COMMAND} {command}`, {date}, {software}, on {hardware}."


def _pick(record: dict[str, Any], *names: str) -> list[Any]:
    return [record[name] for name in names]
