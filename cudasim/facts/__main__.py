"""Record what is known of cudasim: data as JSON, and tables of it as Markdown, in this folder.

Any Python that has torch and NumPy will do.
"""

import argparse
import json
import os
import platform
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
INTERRUPTED = 130
ROW = "CUDASIM_SUPPORT=row.json python -m pytest tests"
# Seconds for one test of PyTorch: those that end take a tenth of it on two slow cores.
LIMIT = 600
OUTCOMES = Path("_build/conformance")
GPU1 = "cuda:1"


def survey(options: argparse.Namespace) -> None:
    """run PyTorch's databases of operators and modules on a simulated GPU"""
    from facts import survey

    result = survey.run(options.device, options.sample, options.only, options.processes)
    if any(counts["failed"] for counts in result["summary"].values()):
        sys.exit("the survey found failures, named above; nothing is written")
    if (options.device, options.sample, options.only) != (GPU1, 1, ""):
        return  # a part of it says nothing of the whole

    exceptions = []
    for verdict in result.pop("verdicts"):
        if verdict.outcome == "expected":
            exceptions.append(
                {"kind": verdict.kind, "name": verdict.name, "reason": verdict.reason}
            )
    keep("survey", result | {"exceptions": exceptions})


def conformance(options: argparse.Namespace) -> None:
    """run PyTorch's own tests of CUDA, unmodified, on two simulated GPUs"""
    from conformance import suite

    result, faults = suite.run(
        options.source, options.files, options.outcomes, options.resume, options.limit
    )
    if faults:
        sys.exit("\n".join([*faults, "nothing is written"]))
    if not options.files:
        keep("conformance", result)


def fidelity(options: argparse.Namespace) -> None:
    """run small programs on this machine's GPUs, and write their answers"""
    from fidelity import recording

    recording.record()
    draw("fidelity")


def simulate(options: argparse.Namespace) -> None:
    """print what cudasim answers to the same programs"""
    from fidelity import index, recording, running

    known = index.programs()
    themes = {name.split(".")[0] for name in known}
    unknown = set(options.names) - set(known) - themes
    if unknown:
        sys.exit(f"no program and no theme: {', '.join(sorted(unknown))}")

    chosen = []
    for name, program in known.items():
        theme = name.split(".")[0]
        named = not options.names or name in options.names or theme in options.names
        if named and program.gpus <= options.gpus:
            chosen.append(program)
    answers = running.simulate(chosen, options.gpus, options.card, options.seed)
    print(recording.one_a_line(answers))


def compare(options: argparse.Namespace) -> None:
    """print where cudasim answers otherwise than the GPUs that were recorded"""
    from fidelity import comparing, recording

    reasons = comparing.read_reasons()
    problems = []
    for answers in recording.read_all():
        comparison = comparing.compare_with_simulation(answers)
        agree = len(comparison.agree)
        differ = len(comparison.differ)
        print(f"{answers.name}: {agree} agree, {differ} differ")
        for name, why in comparison.waiting.items():
            print(f"{answers.name}: {name} waits: {why}")
        problems += comparing.problems(answers, comparison, reasons)
    if problems:
        sys.exit("\n".join(problems))


def types(options: argparse.Namespace) -> None:
    """compare the types that CUDA's kernels take with the torch in use, or write them"""
    from facts import kernel_sources, kernel_types

    if options.card:
        print(json.dumps(kernel_types.read_database(options.card)))
        return
    if options.sources:
        kernel_sources.renew(options.sources)
        return
    differences = kernel_types.renew(options.write)
    if differences:
        sys.exit("\n".join(differences))


def suites(options: argparse.Namespace) -> None:
    """run other projects' own tests, from their sources, on two simulated GPUs"""
    from facts import files, suites

    path = files.FOLDER / "suites.json"
    command = f"{files.COMMAND} suites"
    for argument in options.projects:
        result = suites.run(argument)
        with files.reading(path, command, "restore it with git") as recorded:
            rows = {row["project"]: row for row in recorded["projects"]}
        rows[result["project"]] = result | origin()
        projects = [rows[name] for name in sorted(rows)]
        files.replace_json("suites", {"projects": projects})
        draw("suites")


def bench(options: argparse.Namespace) -> None:
    """measure the time of small programs, with simulated GPUs and without"""
    from facts import bench

    programs = []
    for cost in bench.measure():
        print(f"{cost.times:.2f} times: {cost.program}", flush=True)
        programs.append(asdict(cost))
    versions = {"torch": torch_version(), "python": platform.python_version()}
    keep("bench", versions | {"programs": programs})


def support(options: argparse.Namespace) -> None:
    """gather rows: on what the tests ran, and how it went"""
    from facts import files, recorded_tables

    paths = sorted(options.rows.rglob("*.json"))
    if not paths:
        sys.exit(f"{options.rows}: holds no row; write one: '{ROW}'")

    # A newer row takes the place of one of the same system and minor versions.
    rows = {}
    gathered = files.FOLDER / "support.json"
    command = f"{files.COMMAND} support"
    with files.reading(gathered, command, "restore it with git") as recorded:
        for row in recorded["rows"]:
            rows[_place(row)] = row
    for path in paths:
        with files.reading(path, ROW, "leave it out") as written:
            row = {name: written[name] for name in recorded_tables.SUPPORT}
            rows[_place(row)] = row
    ordered = [rows[place] for place in sorted(rows)]
    files.replace_json("support", {"rows": ordered})
    draw("support")


def _place(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["system"], _minor(row["python"]), _minor(row["torch"])


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def tables(options: argparse.Namespace) -> None:
    """draw every table afresh: after a change of the model, a data sheet, a program"""
    from facts.tables import TABLES

    draw(*TABLES)


def release(options: argparse.Namespace) -> None:
    """print what a release changes, if its tag is that of this version"""
    from facts.releases import changes

    try:
        print(changes(options.tag))
    except ValueError as error:
        sys.exit(str(error))


def keep(name: str, result: dict[str, Any]) -> None:
    """Write a result with its origin, and its table."""
    from facts import files

    files.replace_json(name, origin() | result)
    draw(name)


def origin() -> dict[str, str]:
    """Return the day and the machine of what is found now."""
    from cudasim.hardware import processor

    today = datetime.now(UTC).date()
    hardware = f"{processor()}, {os.cpu_count()} cores"
    return {"date": today.isoformat(), "hardware": hardware}


def torch_version() -> str:
    import torch

    return str(torch.__version__)


def draw(*names: str) -> None:
    """Draw these tables."""
    from facts import tables

    tables.write(names)
    written = ", ".join(f"facts/{name}.md" for name in names)
    print("written:", written)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python cudasim/facts", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(run: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
        text = run.__doc__
        command = commands.add_parser(run.__name__, help=text, description=text)
        command.set_defaults(run=run)
        return command

    command = add(survey)
    about = "every N-th; nothing is written"
    command.add_argument("--sample", type=int, default=1, metavar="N", help=about)
    about = "names with TEXT; nothing is written"
    command.add_argument("--only", default="", metavar="TEXT", help=about)
    about = f"the simulated GPU; nothing is written but of {GPU1}"
    command.add_argument("--device", default=GPU1, help=about)
    command.add_argument("--processes", type=int, default=2)

    command = add(types)
    either = command.add_mutually_exclusive_group()
    either.add_argument("--write", action="store_true", help="write them")
    either.add_argument("--card", help="print what the database says for a card")
    about = "write the names of kernels, from a folder of PyTorch's sources"
    either.add_argument("--sources", type=Path, metavar="FOLDER", help=about)

    command = add(conformance)
    about = "the folder of PyTorch's sources: the tag of the torch in use"
    command.add_argument("source", type=Path, help=about)
    about = "test_cuda, ...; if any, nothing is written"
    command.add_argument("files", nargs="*", metavar="FILE", help=about)
    about = "go on where a run was stopped"
    command.add_argument("--resume", action="store_true", help=about)
    about = f"seconds for a test ({LIMIT})"
    command.add_argument("--limit", type=float, default=LIMIT, help=about)
    about = f"a folder, to resume from ({OUTCOMES})"
    command.add_argument("--outcomes", type=Path, default=OUTCOMES, help=about)

    add(fidelity)
    add(compare)

    command = add(simulate)
    command.add_argument("--gpus", type=int, default=2)
    command.add_argument("--card", default="T4")
    command.add_argument("--seed", type=int, help="shuffle the programs")
    about = "programs or themes; all if none is named"
    command.add_argument("names", nargs="*", metavar="NAME", help=about)

    add(bench)

    command = add(suites)
    about = "of facts/suites.toml, its sources"
    command.add_argument("projects", nargs="+", metavar="PROJECT=FOLDER", help=about)

    command = add(support)
    command.add_argument("rows", type=Path, help=f"a folder of what '{ROW}' writes")

    add(tables)

    add(release).add_argument("tag", help="cudasim-1.2.3")
    return parser.parse_args()


def stop(*_: object) -> None:
    """Stop at Ctrl-C or `kill`, and end the processes that were started on the way out."""
    # A second signal would leave processes behind.
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.SIG_IGN)
    raise KeyboardInterrupt


def main() -> None:
    """Carry out one command; wrong input gets an error of one line."""
    from conformance import ConformanceError
    from facts import FactsError
    from fidelity import FidelityError

    options = parse_arguments()
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, stop)
    try:
        options.run(options)
    except (ConformanceError, FactsError, FidelityError) as error:
        sys.exit(str(error))
    except ModuleNotFoundError as error:
        sys.exit(f"no module '{error.name}' here: install torch and numpy")
    except KeyboardInterrupt:
        print("interrupted: what was not complete was not written", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    # The first entry of the path is this folder. `facts` and `cudasim` are in the others.
    sys.path[:1] = [str(PROJECT), str(PROJECT / "src")]
    main()
