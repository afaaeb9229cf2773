"""The commands of this suite: `python cudasim/fidelity record`, `simulate` or `list`."""

import argparse
import dataclasses
import json
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path[0] = str(PROJECT)  # where the package `fidelity` is


def main() -> str | None:
    """Carry out one command; returns why it failed, in one line."""
    parser = argparse.ArgumentParser(prog="python cudasim/fidelity", description=__doc__)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("record", help="ask this machine's GPUs, and write their answers")
    one.add_argument("--at-once", type=int, default=4, metavar="N", help="programs at once (4)")
    one.set_defaults(run=record)
    one = commands.add_parser("simulate", help="ask cudasim, and print its answers")
    one.add_argument("--gpus", type=int, default=2)
    one.add_argument("--card", default="T4")
    one.add_argument("--seed", type=int, help="shuffle the programs")
    one.add_argument("names", nargs="*", help="programs or themes; all if none is named")
    one.set_defaults(run=simulate)
    one = commands.add_parser("list", help="print what programs there are")
    one.set_defaults(run=list_programs)
    options = parser.parse_args()
    return options.run(options)


def record(options: argparse.Namespace) -> str | None:
    """Write the answers of the GPUs of this machine."""
    from fidelity import recording

    try:
        recording.record(recording.ANSWERS, max(1, options.at_once))
    except recording.CannotRecord as error:
        return str(error)
    except KeyboardInterrupt:
        return "interrupted: nothing was written, earlier answers are as they were"
    return None


def simulate(options: argparse.Namespace) -> str | None:
    """Print the answers of cudasim, as JSON."""
    sys.path.insert(1, str(PROJECT / "src"))  # where `cudasim` is
    from fidelity import index

    known = index.programs()
    wanted = set(options.names) or set(known)
    unknown = wanted - set(known) - {name.split(".")[0] for name in known}
    if unknown:
        return f"no program and no theme: {', '.join(sorted(unknown))}"
    from fidelity import running

    names = [
        name
        for name in running.suitable(known, options.gpus)
        if name in wanted or name.split(".")[0] in wanted
    ]
    answers = running.simulated(names, options.gpus, options.card, options.seed)
    print(json.dumps(answers, indent=1, ensure_ascii=False))
    return None


def list_programs(options: argparse.Namespace) -> None:
    """Print every program with what it needs and its hash, as JSON."""
    from fidelity.index import programs

    print(json.dumps({name: dataclasses.asdict(each) for name, each in programs().items()}))


if __name__ == "__main__":
    sys.exit(main())
