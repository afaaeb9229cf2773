"""Tables of what was recorded: how much of PyTorch and of other projects' tests passes."""

from facts import files
from facts.files import COMMAND, reading
from facts.markdown import table

SUPPORT = ("python", "torch", "system", "passed", "failed", "skipped", "date")


def survey() -> list[str]:
    """Draw the figures of the survey, and what does not pass."""
    with reading(files.FOLDER / "survey.json", f"{COMMAND} survey") as recorded:
        rows = []
        for kind, counts in recorded["summary"].items():
            share = f"{counts['percent']} %"
            figures = counts["total"], counts["passed"], share, counts["skipped"]
            rows.append([f"{kind}s", *figures])
        exceptions = []
        for exception in recorded["exceptions"]:
            exceptions.append([f"`{exception['name']}`", exception["reason"]])
        origin = (
            f"`{COMMAND} survey`, {recorded['date']}, PyTorch {recorded['torch']}, "
            f"Python {recorded['python']}, on {recorded['hardware']}."
        )

    heads = ["What", "Surveyed", "Pass", "Share", "Left out"]
    lines = [*table(heads, rows, numbers=(1, 2, 3, 4)), "", origin]
    if exceptions:
        lines += ["", "What does not pass:", "", *table(["Name", "Reason"], exceptions)]
    return lines


def conformance() -> list[str]:
    """Draw the outcomes of PyTorch's own tests by file, and why some fail."""
    path = files.FOLDER / "conformance.json"
    with reading(path, f"{COMMAND} conformance") as recorded:
        columns = ("file", "total", "passed", "failed", "not run", "skipped")
        rows = _columns(recorded["files"], columns)
        reasons = _columns(recorded["reasons"], ("file", "tests", "kind", "reason"))
        origin = (
            f"`{COMMAND} conformance`, {recorded['date']}, "
            f"the tests of PyTorch {recorded['tests']} on PyTorch {recorded['torch']}, "
            f"Python {recorded['python']}, on {recorded['hardware']}."
        )

    heads = ["File", "Tests", "Pass", "Fail", "Not run", "Left out by the file"]
    lines = [*table(heads, rows, numbers=(1, 2, 3, 4, 5)), "", origin]
    if reasons:
        lines += ["", "Why the others do not pass:", ""]
        lines += table(["File", "Tests", "Kind", "Reason"], reasons, numbers=(1,))
    return lines


def suites() -> list[str]:
    """Draw the outcomes of other projects' tests, and why some fail."""
    with reading(files.FOLDER / "suites.json", f"{COMMAND} suites") as recorded:
        rows, reasons = [], []
        for suite in recorded["projects"]:
            counts = [suite[name] for name in ("alone", "passed", "thanks", "failed")]
            name = f"{suite['project']} {suite['version']}"
            rows.append([name, *counts, suite["anyway"], suite["date"]])
            for number, reason in suite["reasons"]:
                reasons.append([suite["project"], number, reason])

    heads = [
        "Project",
        "Passed without GPUs",
        "Passed with two",
        "Ran only thanks to them",
        "Failed",
        "Failed anyway",
        "Date",
    ]
    lines = table(heads, rows, numbers=range(1, 6))
    if reasons:
        lines += ["", "Why some fail:", ""]
        lines += table(["Project", "Tests", "Reason"], reasons, numbers=(1,))
    return lines


def support() -> list[str]:
    """Draw the systems and versions on which the tests ran."""
    with reading(files.FOLDER / "support.json", f"{COMMAND} support") as recorded:
        rows = _columns(recorded["rows"], SUPPORT)
    heads = ["Python", "PyTorch", "System", "Passed", "Failed", "Skipped", "Date"]
    return table(heads, rows, numbers=(3, 4, 5))


def fidelity() -> list[str]:
    """Draw which cards have answered the programs, and the accepted differences."""
    from fidelity import comparing, index, recording

    programs = index.programs()
    recordings = recording.read_all()
    if not recordings:
        for_two = sum(program.gpus > 1 for program in programs.values())
        return [
            f"No real GPU has answered yet: {len(programs)} programs wait, "
            f"{for_two} of them for two GPUs. `{COMMAND} fidelity` asks the GPUs of a "
            "machine that has some."
        ]

    codes = {(name, program.code) for name, program in programs.items()}
    rows = []
    for each in recordings:
        answered = {(name, given["code"]) for name, given in each.programs.items()}
        current = len(codes & answered)
        waiting = len(programs) - current
        card = each.card if each.gpus == 1 else f"{each.gpus} x {each.card}"
        rows.append([card, each.torch, each.cuda, each.date, current, waiting])
    heads = ["Card", "PyTorch", "CUDA", "Date", "Answered", "Waiting"]
    lines = table(heads, rows, numbers=(4, 5))

    reasons = comparing.read_reasons()
    if reasons:
        differences = [[f"`{name}`", reason] for name, reason in reasons.items()]
        lines += ["", "Where `cudasim` answers otherwise:", ""]
        lines += table(["Program", "Reason"], differences)
    return lines


def _columns(rows: list[dict], names: tuple[str, ...]) -> list[list]:
    cells = []
    for row in rows:
        cells.append([row[name] for name in names])
    return cells
