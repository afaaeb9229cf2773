"""Tables of facts in Markdown, which pages include: drawn from recorded data, or from the model."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cudasim.timing.sheets import sheet_names
from facts import published, published_scaling
from facts.cards import described
from fidelity import comparing, index
from fidelity.comparing import BadFile

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
README = PROJECT / "README.md"
COMMAND = "python cudasim/facts"
SUPPORT = (
    "python",
    "torch",
    "system",
    "passed",
    "failed",
    "skipped",
    "date",
)  # of a row
PRECISIONS = ("float64", "float32", "tf32", "float16", "bfloat16")


def write(names: Iterable[str]) -> None:
    """Draw these tables afresh. Raises BadFile."""
    for name in names:
        replace(HERE / f"{name}.md", drawn(name))
        if name == "suites":
            replace(README, with_suites(README.read_text(encoding="utf-8")))


def with_suites(text: str) -> str:
    """The README with the table of other projects' tests as it is drawn now."""
    head, mark, rest = text.partition("<!-- suites -->\n")
    return (
        head
        + mark
        + drawn("suites")
        + "\n"
        + rest[rest.index("<!-- end of suites -->") :]
    )


def drawn(name: str) -> str:
    """The Markdown of one of TABLES."""
    return "\n".join(TABLES[name]()).strip("\n") + "\n"


def replace(path: Path, text: str) -> None:
    """Write a file at one stroke, so that an interruption leaves the earlier one."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


@contextmanager
def read(path: Path, command: str, mend: str = "run it again") -> Iterator[Any]:
    """What a command wrote; within, a fault in it is BadFile, which names command and mend."""
    try:
        yield json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        fault = f"{type(error).__name__}: {error}"
        raise BadFile(
            f"{path}: not what '{command}' writes ({fault}); {mend}"
        ) from None


def table(
    heads: Sequence[str], rows: Iterable[Sequence], numbers: Iterable[int] = ()
) -> list[str]:
    """The lines of a table; the columns in `numbers` are set flush right."""
    rules = ["--:" if column in numbers else ":--" for column in range(len(heads))]
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in [heads, rules, *cells]]


def survey() -> list[str]:
    """The survey's figures, and what does not pass."""
    with read(HERE / "survey.json", f"{COMMAND} survey") as found:
        rows = [
            [f"{kind}s", of["total"], of["passed"], f"{of['percent']} %", of["skipped"]]
            for kind, of in found["summary"].items()
        ]
        exceptions = [
            [f"`{one['name']}`", one["reason"]] for one in found["exceptions"]
        ]
        measured = (
            f"`{COMMAND} survey`, {found['date']}, PyTorch {found['torch']}, "
            f"Python {found['python']}, on {found['hardware']}."
        )
    heads = ["What", "Surveyed", "Pass", "Share", "Left out"]
    lines = [*table(heads, rows, numbers=(1, 2, 3, 4)), "", measured]
    if exceptions:
        lines += ["", "What does not pass:", "", *table(["Name", "Reason"], exceptions)]
    return lines


def conformance() -> list[str]:
    """What came of PyTorch's own tests, file by file, and the reasons for what fails."""
    with read(HERE / "conformance.json", f"{COMMAND} conformance") as found:
        counts = ("file", "total", "passed", "failed", "not run", "skipped")
        rows = [[of[name] for name in counts] for of in found["files"]]
        facts = ("file", "tests", "kind", "reason")
        reasons = [[of[name] for name in facts] for of in found["reasons"]]
        measured = (
            f"`{COMMAND} conformance`, {found['date']}, the tests of PyTorch {found['tests']} on "
            f"PyTorch {found['torch']}, Python {found['python']}, on {found['hardware']}."
        )
    heads = ["File", "Tests", "Pass", "Fail", "Not run", "Left out by the file"]
    lines = [*table(heads, rows, numbers=(1, 2, 3, 4, 5)), "", measured]
    if reasons:
        lines += ["", "Why the others do not pass:", ""]
        lines += table(["File", "Tests", "Kind", "Reason"], reasons, numbers=(1,))
    return lines


def suites() -> list[str]:
    """What came of other projects' tests, and why some fail."""
    with read(HERE / "suites.json", f"{COMMAND} suites") as found:
        counts = ("alone", "passed", "thanks", "failed", "anyway")
        rows = [
            [
                f"{of['project']} {of['version']}",
                *(of[name] for name in counts),
                of["date"],
            ]
            for of in found["projects"]
        ]
        reasons = [
            [of["project"], *each] for of in found["projects"] for each in of["reasons"]
        ]
    heads = [
        "Project",
        "Passed without GPUs",
        "Passed with two",
        "Ran only thanks to them",
    ]
    heads += ["Failed", "Failed anyway", "Date"]
    lines = table(heads, rows, numbers=range(1, 6))
    if reasons:
        lines += ["", "Why some fail:", ""]
        lines += table(["Project", "Tests", "Reason"], reasons, numbers=(1,))
    return lines


def support() -> list[str]:
    """On which Python, PyTorch and system the tests ran."""
    with read(HERE / "support.json", f"{COMMAND} support") as found:
        rows = [[row[name] for name in SUPPORT] for row in found["rows"]]
    heads = ["Python", "PyTorch", "System", "Passed", "Failed", "Skipped", "Date"]
    return table(heads, rows, numbers=(3, 4, 5))


def fidelity() -> list[str]:
    """What real GPUs answered to the programs of `fidelity/`, and the listed differences.

    The tests compare those answers with cudasim's and fail on every difference that is not
    listed; so answers, list and programs are enough.
    """
    programs = index.programs()
    several = sum(program.gpus > 1 for program in programs.values())
    paths = sorted(index.ANSWERS.glob("*.json"))
    if not paths:
        return [
            f"No real GPU has answered yet: {len(programs)} programs wait, {several} of them for "
            f"two GPUs. `{COMMAND} fidelity` asks the GPUs of a machine that has some."
        ]
    listed = comparing.read_differences()
    rows, differing = [], {}
    for path in paths:
        answers = comparing.read_answers(path)
        recorded = [  # answered as its code is now
            name
            for name, program in programs.items()
            if answers["programs"].get(name, {}).get("code") == program.code
        ]
        differ = [
            name for name in recorded if comparing.applies(listed.get(name), path.stem)
        ]
        for name in differ:
            differing.setdefault(name, []).append(path.stem)
        count = f"{answers['gpus']} x " if answers["gpus"] > 1 else ""
        facts = [
            count + answers["card"],
            answers["torch"],
            answers["cuda"],
            answers["date"],
        ]
        total, answered, others = len(programs), len(recorded), len(differ)
        rows.append(
            [*facts, total, answered, answered - others, others, total - answered]
        )
    heads = [
        "Card",
        "PyTorch",
        "CUDA",
        "Date",
        "Programs",
        "Recorded",
        "Agree",
        "Differ",
        "Wait",
    ]
    lines = table(heads, rows, numbers=range(4, 9))
    if differing:
        reasons = [
            [
                f"`{name}`",
                ", ".join(cards),
                listed[name]["kind"],
                listed[name]["reason"],
            ]
            for name, cards in differing.items()
        ]
        lines += ["", "Where the answers differ:", ""]
        lines += table(["Program", "Card", "Kind", "Reason"], reasons)
    return lines


def timings() -> list[str]:
    """How far modelled times are from real ones: of cards that were measured, and published."""
    folder = published.PATH.parent
    paths = sorted({*folder.glob("*.json")} - {published.PATH})
    lines = [line for path in paths for line in _measured(path)]
    if not paths:
        lines = [f"No card was measured yet: `{COMMAND} calibrate` does it on one.", ""]
    about = {
        row["id"]: row for row in json.loads(published.PATH.read_text(encoding="utf-8"))
    }
    rows = published.rows()
    for use, words in (("validate", "not used"), ("fit", "used")):
        chosen = [row for row in rows if row.use == use]
        cells = [
            [
                row.card,
                f"[{about[row.id]['what']}]({about[row.id]['source']})",
                in_milliseconds(row.published),
                in_milliseconds(row.modelled),
                f"{row.ratio:.2f}",
            ]
            for row in chosen
        ]
        said = summary([row.ratio for row in chosen])
        heads = ["Card", "What was measured", "Published, ms", "Modelled, ms", "Ratio"]
        lines += [
            "<details>",
            f"<summary>{len(chosen)} published figures {words} to fit the model: {said}</summary>",
            "",
            *table(heads, cells, numbers=(2, 3, 4)),
            "",
            "</details>",
            "",
        ]
    return lines


def _measured(path: Path) -> list[str]:
    """The workloads of a card that was calibrated."""
    with read(path, f"{COMMAND} calibrate") as found:
        made = found["provenance"]
        cells = [
            [
                row["name"],
                in_milliseconds(row["measured"]),
                in_milliseconds(row["modelled"]),
                f"{row['ratio']:.2f}",
            ]
            for row in found["rows"]
        ]
        said = summary([row["ratio"] for row in found["rows"] if row["counted"]])
        title = f"**{found['card']}**, measured on {made['hardware']}, {made['date']}: {said}."
    heads = ["Workload", "Measured, ms", "Modelled, ms", "Ratio"]
    return [title, "", *table(heads, cells, numbers=(1, 2, 3)), ""]


def in_milliseconds(seconds: float) -> str:
    """Whole nanoseconds, as the modelled clock has them, in milliseconds with three digits."""
    return f"{round(seconds, 9) * 1e3:#.3g}".rstrip(".")


def summary(ratios: list[float]) -> str:
    """How near modelled times are to the others, in words."""
    error, near = published.summary(ratios)
    return f"median error {error:.0%}, {near:.0%} within a factor of {published.NEAR}"


def cards() -> list[str]:
    """The data sheets, with two modelled times of each card."""
    rows = []
    for card in map(described, sheet_names()):
        figures = [
            (card["memory"], 2**30),
            *((card["peak"].get(name), 1e12) for name in PRECISIONS),
            (card["bandwidth"], 1e9),
            (card["seconds"]["product"], 1e-3),
            (card["seconds"]["copy"], 1e-3),
        ]
        words = card["provenance"]["words"]
        rows.append([card["name"], *(_scaled(*figure) for figure in figures), words])
    heads = ["Card", "GiB", *PRECISIONS, "GB/s", "Product, ms", "Copy, ms", "Model"]
    return table(heads, rows, numbers=range(1, len(heads) - 1))


def _scaled(value: float | None, unit: float) -> str:
    """Three digits of a value in its unit; a dash where there is none."""
    if value is None:
        return "-"
    return f"{value / unit:.3g}" if value < 1000 * unit else f"{value / unit:,.0f}"


def scaling() -> list[str]:
    """Published training and published all-reduces on several GPUs, with what the model says."""
    found = [
        (about, published_scaling.row_of(about)) for about in published_scaling.read()
    ]
    training = [both for both in found if both[0]["kind"] == "training"]
    reduces = [both for both in found if both[0]["kind"] == "all_reduce"]
    cells = [
        [
            *_about(about),
            f"{about['gpus']:,}",
            f"{row.published:.2f}",
            f"{row.modelled:.2f}",
            f"{row.ratio:.2f}",
            f"{row.bare / row.published:.2f}",
        ]
        for about, row in training
    ]
    heads = [
        "What ran",
        "Hardware",
        "GPUs",
        "Published",
        "Modelled",
        "Ratio",
        "Bare ratio",
    ]
    lines = [*table(heads, cells, numbers=(2, 3, 4, 5, 6)), "", *_notes(training), ""]
    cells = [
        [
            *_about(about),
            f"{1e3 * about['figure']:.3g}",
            f"{1e3 * about['size'] / row.modelled:.3g}",
            f"{row.ratio:.2f}",
            {"fit": "yes", "validate": "no"}[about["use"]],
        ]
        for about, row in reduces
    ]
    heads = [
        "What ran",
        "Hardware",
        "Published, ms",
        "Modelled, ms",
        "Ratio",
        "Used to fit",
    ]
    return [*lines, *table(heads, cells, numbers=(2, 3, 4)), "", *_notes(reduces)]


def _about(about: dict[str, Any]) -> list[str]:
    mark = " *" if "note" in about else ""
    return [f"[{about['what']}]({about['source']}){mark}", about["hardware"]]


def _notes(rows: list[tuple]) -> list[str]:
    """What is said of rows with a star, each remark once."""
    said: dict[str, list[str]] = {}
    for about, _ in rows:
        if "note" in about:
            said.setdefault(about["note"], []).append(
                f"{about['what']}, {about['gpus']} GPUs"
            )
    return [f"- \\* {'; '.join(names)}: {note}." for note, names in said.items()]


TABLES = {
    drawing.__name__: drawing
    for drawing in (
        survey,
        conformance,
        suites,
        support,
        fidelity,
        timings,
        cards,
        scaling,
    )
}
