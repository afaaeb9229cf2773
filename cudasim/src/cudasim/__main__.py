"""`cudasim [--gpus N] ... script.py`, or `python -m cudasim`: a program on simulated GPUs."""

import argparse
import builtins
import os
import pkgutil
import runpy
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

from cudasim import __version__, config, startup, startup_file
from cudasim.device.types import DEFAULT
from cudasim.tracebacks import hide_our_lines


def parse() -> tuple[argparse.Namespace, config.Config]:
    """Read the command line. Ends the process if there is a mistake in it."""
    parser = argparse.ArgumentParser(
        "cudasim",
        usage=f"%(prog)s [--gpus N] {config.USAGE} (script.py | -m module) [argument ...]",
        description="Run a Python program on simulated GPUs.",
        epilog="'python -m cudasim.kernel' installs a Jupyter kernel with simulated GPUs. After "
        "'cudasim install-startup', every program that this Python runs follows CUDASIM_GPUS. "
        "'cudasim remove-startup' undoes this.",
        allow_abbrev=False,
    )
    config.add_options(parser)
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {__version__}"
    )
    parser.add_argument(
        "--full-traceback",
        action="store_true",
        help="show cudasim's own lines in tracebacks too",
    )
    parser.add_argument(
        "-m", "--module", action="store_true", help="run a module instead of a file"
    )
    parser.add_argument(
        "program", nargs=argparse.REMAINDER, help="the program and its arguments"
    )
    options = parser.parse_args()
    if not options.program:
        parser.error("name a script, or a module with -m")
    _complete(options)
    try:
        return options, config.from_options(options)
    except ValueError as error:
        parser.error(str(error))


def _complete(options: argparse.Namespace) -> None:
    """Fill in missing options from the environment.

    Settings in the environment for another type of device do not apply here.
    """
    usual_type = config.setting("device_type") or DEFAULT.name
    if not options.device_type:
        options.device_type = usual_type
    for name in config.SETTINGS:
        applies = options.device_type == usual_type or name == "races"
        if applies and not getattr(options, name):
            setattr(options, name, config.setting(name))


def run(options: argparse.Namespace) -> None:
    """Run the program as Python does. Its tracebacks show only its own lines."""
    sys.argv = options.program
    try:
        _run_program(options)
    except SystemExit:
        raise
    except BaseException as error:  # whatever it is, the program's own hook reports it
        if not config.shows_full_tracebacks():
            hide_our_lines(error)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(130 if isinstance(error, KeyboardInterrupt) else 1)


def _run_program(options: argparse.Namespace) -> None:
    main = ModuleType("__main__")
    sys.modules["__main__"] = main
    name = options.program[0]
    path = os.path.abspath(name)
    if options.module:
        runpy._run_module_as_main(name)  # `python -m` calls this too
    elif pkgutil.get_importer(path) is not None:  # a folder or a zip file
        sys.path[0:1] = [path]
        runpy._run_module_as_main("__main__", alter_argv=False)
    else:
        run_script(path, main)


def run_script(path: str, main: ModuleType) -> None:
    """Run a file as the module `main`."""
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


def change_startup(command: str, *others: str) -> None:
    """Carry out `install-startup` or `remove-startup`, and end the process."""
    if others:
        print(f"cudasim: {command!r} takes no arguments", file=sys.stderr)
        sys.exit(2)
    try:
        print(f"cudasim: {startup_file.COMMANDS[command]()}")
    except RuntimeError as error:
        sys.exit(f"cudasim: {error}")
    sys.exit()


def command() -> None:
    """Run the console script, which looks for modules in the current folder first.

    `python -m cudasim` does this by itself.
    """
    if not sys.flags.safe_path:
        sys.path[0] = os.getcwd()
    main()


def main() -> None:
    if sys.argv[1:] and sys.argv[1] in startup_file.COMMANDS:
        change_startup(*sys.argv[1:])
    options, wanted = parse()
    os.environ.update(config.to_environment(wanted))
    if options.full_traceback:
        os.environ[config.FULL_TRACEBACK] = "1"
    startup.simulate_as_asked()
    run(options)


if __name__ == "__main__":
    main()
