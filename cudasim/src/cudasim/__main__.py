"""`cudasim [--gpus N] ... script.py`, or `python -m cudasim`: a program on simulated GPUs."""

import argparse
import builtins
import os
import pkgutil
import runpy
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType

from cudasim import config, startup, startup_file
from cudasim.device.types import DEFAULT

# Lines of a traceback that the program did not write: this package's, and Python's importer's.
_OURS = (
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    "<frozen importlib",
    "<frozen runpy",
)


def parse() -> tuple[argparse.Namespace, config.Config]:
    parser = argparse.ArgumentParser(
        "cudasim",
        usage=f"%(prog)s [--gpus N] {config.USAGE} (script.py | -m module) [argument ...]",
        description="Run a Python program on simulated GPUs.",
        epilog="'python -m cudasim.kernel' installs a Jupyter kernel that does the same. 'cudasim "
        "install-startup' lets every program of this Python heed CUDASIM_GPUS, 'cudasim "
        "remove-startup' takes that back.",
        allow_abbrev=False,
    )
    config.add_options(parser)
    parser.add_argument(
        "--full-traceback", action="store_true", help="show cudasim's lines too"
    )
    parser.add_argument(
        "-m", "--module", action="store_true", help="run a module, not a file"
    )
    parser.add_argument(
        "program", nargs=argparse.REMAINDER, help="the program, its arguments"
    )
    options = parser.parse_args()
    if not options.program:
        parser.error("name a script, or a module with -m")
    theirs = config.setting("device_type") or DEFAULT.name
    options.device_type = options.device_type or theirs
    for (
        name
    ) in config.SETTINGS:  # what the environment says of another type is not meant here
        if options.device_type == theirs or name == "races":
            setattr(options, name, getattr(options, name) or config.setting(name))
    try:
        return options, config.from_options(options)
    except ValueError as error:
        parser.error(str(error))


def run(options: argparse.Namespace) -> None:
    sys.argv = options.program
    main = sys.modules["__main__"] = ModuleType("__main__")
    path = options.program[0]
    try:
        if options.module:
            runpy._run_module_as_main(path)  # which is what `python -m` calls
        elif (
            pkgutil.get_importer(os.path.abspath(path)) is not None
        ):  # a folder or a zip file
            sys.path[0:1] = [os.path.abspath(path)]
            runpy._run_module_as_main("__main__", alter_argv=False)
        else:
            run_script(path, main)
    except SystemExit:
        raise
    except BaseException as error:  # whatever it is, the program's own hook reports it
        if not options.full_traceback:
            error.__traceback__ = without_ours(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(130 if isinstance(error, KeyboardInterrupt) else 1)


def run_script(path: str, main: ModuleType) -> None:
    path = os.path.abspath(path)
    try:
        source = Path(path).read_bytes()
    except OSError as error:
        print(f"cudasim: can't open file {path!r}: {error.strerror}", file=sys.stderr)
        sys.exit(2)
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    names = {
        "__file__": path,
        "__cached__": None,
        "__loader__": SourceFileLoader("__main__", path),
    }
    vars(main).update(names, __builtins__=builtins)
    exec(compile(source, path, "exec"), vars(main))


def without_ours(trace: TracebackType | None) -> TracebackType | None:
    """A traceback less the lines of this package: what real GPUs would leave of it."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    if trace is not None:
        trace.tb_next = without_ours(trace.tb_next)
    return trace


def change_startup(name: str, *others: str) -> None:
    if others:
        print(f"cudasim: {name!r} takes no arguments", file=sys.stderr)
        sys.exit(2)
    try:
        print(f"cudasim: {startup_file.COMMANDS[name]()}")
    except RuntimeError as error:
        sys.exit(f"cudasim: {error}")
    sys.exit()


def command() -> None:
    """The console script. Modules are looked up in the current folder, as `python -m` has it."""
    if not sys.flags.safe_path:
        sys.path[0] = os.getcwd()
    main()


def main() -> None:
    if sys.argv[1:] and sys.argv[1] in startup_file.COMMANDS:
        change_startup(*sys.argv[1:])
    options, wanted = parse()
    os.environ.update(config.to_environment(wanted))
    startup.simulate_as_asked()
    run(options)


if __name__ == "__main__":
    main()
