"""Record what is known of cudasim: data as JSON, and tables of it as Markdown, in this folder.

Any Python that has torch and NumPy will do.
"""

import argparse
import json
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
INTERRUPTED = 130
ROW = "CUDASIM_SUPPORT=row.json python -m pytest tests"
LIMIT = 600  # seconds for one test of PyTorch: those that end take a tenth of it on two slow cores
OUTCOMES = Path("_build/conformance")
GPU1 = "cuda:1"


def survey(options: argparse.Namespace) -> None:
    """run PyTorch's databases of operators and modules on a simulated GPU"""
    from facts import survey

    found = survey.run(options.device, options.sample, options.only, options.processes)
    if any(row["failed"] for row in found["summary"].values()):
        sys.exit("the survey found failures, named above; nothing is written")
    if (options.device, options.sample, options.only) != (GPU1, 1, ""):
        return
    found["exceptions"] = [
        {name: verdict[name] for name in ("kind", "name", "reason")}
        for verdict in found.pop("verdicts")
        if verdict["outcome"] == "expected"
    ]
    keep("survey", found)


def conformance(options: argparse.Namespace) -> None:
    """run PyTorch's own tests of CUDA, unmodified, on two simulated GPUs"""
    from conformance import suite

    found, faults = suite.run(
        options.source, options.files, options.outcomes, options.resume, options.limit
    )
    if faults:
        sys.exit("\n".join([*faults, "nothing is written"]))
    if not options.files:
        keep("conformance", found)


def fidelity(options: argparse.Namespace) -> None:
    """ask this machine's GPUs what cudasim must answer alike, and write their answers"""
    from fidelity import recording

    recording.record(recording.ANSWERS, max(1, options.at_once))
    draw("fidelity")


def simulate(options: argparse.Namespace) -> None:
    """print what cudasim answers to the same programs"""
    from fidelity import index, recording

    known = index.programs()
    wanted = set(options.names) or set(known)
    unknown = wanted - set(known) - {name.split(".")[0] for name in known}
    if unknown:
        sys.exit(f"no program and no theme: {', '.join(sorted(unknown))}")
    from fidelity import running

    names = [
        name
        for name in running.suitable(known, options.gpus)
        if name in wanted or name.split(".")[0] in wanted
    ]
    answers = running.simulated(names, options.gpus, options.card, options.seed)
    print(recording.a_line_each(answers))


def calibrate(options: argparse.Namespace) -> None:
    """measure this machine's GPU for modelled times, and check them"""
    from calibration.measuring import calibrate

    path = calibrate(options.to, options.force, options.quick)
    if not options.only_measure:  # timings of an earlier file say nothing of this one
        _validate(str(path), None, True, options.quick)


def validate(options: argparse.Namespace) -> None:
    """time the workloads on this machine's GPU and as modelled for a card"""
    _validate(options.card, options.to, options.force, options.quick)


def _validate(card: str, to: Path | None, force: bool, quick: bool) -> None:
    """Validate; the table of timings tells of it if it is among the others."""
    from calibration.validating import validate

    print(validate(card, to, force, quick))
    if not to:
        draw("timings")


def types(options: argparse.Namespace) -> None:
    """compare the types that CUDA's kernels take with the torch in use, or write them"""
    from facts import kernel_types

    if options.card:
        print(json.dumps(kernel_types.read_database(options.card)))
    elif found := kernel_types.renew(options.write):
        sys.exit("\n".join(found))


def suites(options: argparse.Namespace) -> None:
    """run other projects' own tests, from their sources, on two simulated GPUs"""
    from facts import suites, tables

    kept = tables.HERE / "suites.json"
    for given in options.projects:
        found = suites.run(given)
        with tables.read(
            kept, f"{tables.COMMAND} suites", "restore it with git"
        ) as before:
            rows = [
                row for row in before["projects"] if row["project"] != found["project"]
            ]
        rows = sorted([*rows, found | made()], key=lambda row: row["project"])
        tables.replace(kept, json.dumps({"projects": rows}, indent=1) + "\n")
        draw("suites")


def bench(_: argparse.Namespace) -> None:
    """measure what the simulation costs"""
    from facts import bench

    for row in bench.measure():
        print(
            f"{row['what']}: {row['value']} {row['unit']} (aim: {row['aim']})",
            flush=True,
        )


def support(options: argparse.Namespace) -> None:
    """gather rows: on what the tests ran, and how it went"""
    from facts import tables

    paths = sorted(options.rows.rglob("*.json"))
    if not paths:
        sys.exit(f"{options.rows}: holds no row; write one: '{ROW}'")
    gathered = tables.HERE / "support.json"
    with tables.read(
        gathered, f"{tables.COMMAND} support", "restore it with git"
    ) as found:
        rows = {_place(row): row for row in found["rows"]}
    for path in paths:
        with tables.read(path, ROW, "leave it out") as row:
            rows[_place(row)] = {name: row[name] for name in tables.SUPPORT}
    text = json.dumps({"rows": [rows[place] for place in sorted(rows)]}, indent=1)
    tables.replace(gathered, text + "\n")
    draw("support")


def _place(row: dict) -> tuple[str, ...]:
    """What a row is of; a newer one of the same system and minor versions takes its place."""
    return row["system"], *(
        ".".join(row[name].split(".")[:2]) for name in ("python", "torch")
    )


def tables(_: argparse.Namespace) -> None:
    """draw every table afresh: after a change of the model, a data sheet, a program"""
    from facts.tables import TABLES

    draw(*TABLES)


def keep(name: str, found: dict) -> None:
    """Write what was found, with the day and the machine, and its table."""
    from facts import tables

    tables.replace(
        tables.HERE / f"{name}.json", json.dumps(made() | found, indent=1) + "\n"
    )
    draw(name)


def made() -> dict[str, str]:
    """The day and the machine of what is found now."""
    from cudasim.recorded import processor

    today = datetime.now(UTC).date().isoformat()
    return {"date": today, "hardware": f"{processor()}, {os.cpu_count()} cores"}


def draw(*names: str) -> None:
    """Draw these tables."""
    from facts import tables

    tables.write(names)
    print("written:", ", ".join(f"facts/{name}.md" for name in names))


def stop(*_: object) -> None:
    """End, once, at Ctrl-C or `kill`; on the way out what was started is ended."""
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(
            ending, signal.SIG_IGN
        )  # a second one would leave processes behind
    raise KeyboardInterrupt


COMMANDS = (survey, types, conformance, fidelity, simulate)
COMMANDS += (calibrate, validate, bench, suites, support, tables)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python cudasim/facts", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    named = {}
    for run in COMMANDS:
        named[run] = commands.add_parser(
            run.__name__, help=run.__doc__, description=run.__doc__
        )
        named[run].set_defaults(run=run)
    add = named[conformance].add_argument
    add(
        "source",
        type=Path,
        help="the folder of PyTorch's sources: the tag of the torch in use",
    )
    add(
        "files",
        nargs="*",
        metavar="FILE",
        help="test_cuda, ...; if any, nothing is written",
    )
    add("--resume", action="store_true", help="go on where a run was stopped")
    add("--limit", type=float, default=LIMIT, help=f"seconds for a test ({LIMIT})")
    add(
        "--outcomes",
        type=Path,
        default=OUTCOMES,
        help=f"a folder, to resume from ({OUTCOMES})",
    )
    named[fidelity].add_argument(
        "--at-once", type=int, default=4, metavar="N", help="programs (4)"
    )
    add = named[simulate].add_argument
    add("--gpus", type=int, default=2)
    add("--card", default="T4")
    add("--seed", type=int, help="shuffle the programs")
    add(
        "names",
        nargs="*",
        metavar="NAME",
        help="programs or themes; all if none is named",
    )
    add = named[survey].add_argument
    add(
        "--sample",
        type=int,
        default=1,
        metavar="N",
        help="every N-th; nothing is written",
    )
    add(
        "--only", default="", metavar="TEXT", help="names with TEXT; nothing is written"
    )
    add(
        "--device",
        default=GPU1,
        help=f"the simulated GPU; nothing is written but of {GPU1}",
    )
    add("--processes", type=int, default=2)
    add = named[types].add_mutually_exclusive_group().add_argument
    add("--write", action="store_true", help="write them")
    add("--card", help="print what the database says for a card")
    add = named[suites].add_argument
    add(
        "projects",
        nargs="+",
        metavar="PROJECT=FOLDER",
        help="of facts/suites.toml, its sources",
    )
    named[validate].add_argument("--card", required=True, help="its name, or its file")
    named[calibrate].add_argument(
        "--only-measure", action="store_true", help="no workloads"
    )
    for command in (calibrate, validate):
        add = named[command].add_argument
        add("--to", type=Path, metavar="PATH", help="the file to write")
        add("--force", action="store_true", help="replace a file that is there")
        add("--quick", action="store_true", help="small sizes, few readings: a trial")
    named[support].add_argument(
        "rows", type=Path, help=f"a folder of what '{ROW}' writes"
    )
    return parser.parse_args()


def main() -> None:
    """Carry out one command; what is wrong with the input is one line."""
    from calibration import CannotCalibrate
    from conformance.reasons import BadReasons
    from conformance.running import BadSource
    from facts.errors import CannotRun
    from fidelity.comparing import BadFile
    from fidelity.recording import CannotRecord

    known = (BadFile, BadReasons, BadSource, CannotCalibrate, CannotRecord, CannotRun)
    options = read_arguments()
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, stop)
    try:
        options.run(options)
    except known as error:
        sys.exit(str(error))
    except ModuleNotFoundError as error:
        sys.exit(f"no module '{error.name}' here: install torch and numpy")
    except KeyboardInterrupt:
        print("interrupted: what was not complete was not written", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    sys.path[:1] = [
        str(PROJECT),
        str(PROJECT / "src"),
    ]  # where `facts` and `cudasim` are
    main()
