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
from tempfile import TemporaryDirectory

PROJECT = Path(__file__).resolve().parents[1]
INTERRUPTED = 130
ROW = "CUDASIM_SUPPORT=row.json python -m pytest tests"
LIMIT = 600  # seconds for one test of PyTorch: those that end take a tenth of it on two slow cores
OUTCOMES = Path("_build/conformance")


def survey(_: argparse.Namespace) -> None:
    """run PyTorch's databases of operators and modules on a simulated GPU"""
    from cudasim import survey

    with TemporaryDirectory() as folder:
        verdicts = Path(folder, "verdicts.json")
        if survey.main(["--json", str(verdicts)]):
            sys.exit("the survey found failures, named above; nothing is written")
        found = json.loads(verdicts.read_text(encoding="utf-8"))
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
    from fidelity import index

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
    print(json.dumps(answers, indent=1, ensure_ascii=False))


def calibrate(options: argparse.Namespace) -> None:
    """measure this machine's GPU for modelled times, and check them"""
    from cudasim import calibrate

    if failed := calibrate.main(["--force"] * options.force):
        sys.exit(failed)
    draw("timings")


def support(options: argparse.Namespace) -> None:
    """gather rows: on what the tests ran, and how it went"""
    from facts import tables

    paths = sorted(options.rows.rglob("*.json"))
    if not paths:
        sys.exit(f"{options.rows}: holds no row; write one: '{ROW}'")
    gathered = tables.HERE / "support.json"
    with tables.read(gathered, f"{tables.COMMAND} support", "restore it with git") as found:
        rows = {_place(row): row for row in found["rows"]}
    for path in paths:
        with tables.read(path, ROW, "leave it out") as row:
            rows[_place(row)] = {name: row[name] for name in tables.SUPPORT}
    text = json.dumps({"rows": [rows[place] for place in sorted(rows)]}, indent=1)
    tables.replace(gathered, text + "\n")
    draw("support")


def _place(row: dict) -> tuple[str, ...]:
    """What a row is of; a newer one of the same system and minor versions takes its place."""
    return row["system"], *(".".join(row[name].split(".")[:2]) for name in ("python", "torch"))


def tables(_: argparse.Namespace) -> None:
    """draw every table afresh: after a change of the model, a data sheet, a program"""
    from facts.tables import TABLES

    draw(*TABLES)


def keep(name: str, found: dict) -> None:
    """Write what was found, with the day and the machine, and its table."""
    from cudasim.timeline import processor
    from facts import tables

    made = {"date": datetime.now(UTC).date().isoformat()}
    made["hardware"] = f"{processor()}, {os.cpu_count()} cores"
    tables.replace(tables.HERE / f"{name}.json", json.dumps(made | found, indent=1) + "\n")
    draw(name)


def draw(*names: str) -> None:
    """Draw these tables."""
    from facts import tables

    tables.write(names)
    print("written:", ", ".join(f"facts/{name}.md" for name in names))


def stop(*_: object) -> None:
    """End, once, at Ctrl-C or `kill`; on the way out what was started is ended."""
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.SIG_IGN)  # a second one would leave processes behind
    raise KeyboardInterrupt


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python cudasim/facts", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    named = {}
    for run in (survey, conformance, fidelity, simulate, calibrate, support, tables):
        named[run] = commands.add_parser(run.__name__, help=run.__doc__, description=run.__doc__)
        named[run].set_defaults(run=run)
    add = named[conformance].add_argument
    add("source", type=Path, help="the folder of PyTorch's sources: the tag of the torch in use")
    add("files", nargs="*", metavar="FILE", help="test_cuda, ...; if any, nothing is written")
    add("--resume", action="store_true", help="go on where a run was stopped")
    add("--limit", type=float, default=LIMIT, help=f"seconds for a test ({LIMIT})")
    add("--outcomes", type=Path, default=OUTCOMES, help=f"a folder, to resume from ({OUTCOMES})")
    named[fidelity].add_argument("--at-once", type=int, default=4, metavar="N", help="programs (4)")
    add = named[simulate].add_argument
    add("--gpus", type=int, default=2)
    add("--card", default="T4")
    add("--seed", type=int, help="shuffle the programs")
    add("names", nargs="*", metavar="NAME", help="programs or themes; all if none is named")
    named[calibrate].add_argument("--force", action="store_true", help="replace files")
    named[support].add_argument("rows", type=Path, help=f"a folder of what '{ROW}' writes")
    return parser.parse_args()


def main() -> None:
    """Carry out one command; what is wrong with the input is one line."""
    from conformance.reasons import BadReasons
    from conformance.running import BadSource
    from fidelity.comparing import BadFile
    from fidelity.recording import CannotRecord

    options = read_arguments()
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, stop)
    try:
        options.run(options)
    except (BadFile, BadReasons, BadSource, CannotRecord) as error:
        sys.exit(str(error))
    except ModuleNotFoundError as error:
        sys.exit(f"no module '{error.name}' here: install torch and numpy")
    except KeyboardInterrupt:
        print("interrupted: nothing was written, what was there is as it was", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    sys.path[:1] = [str(PROJECT), str(PROJECT / "src")]  # where `facts` and `cudasim` are
    main()
