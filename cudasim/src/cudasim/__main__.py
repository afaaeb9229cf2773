"""`cudasim [--gpus N] [--card NAME] [--device-type TYPE] [--clock CLOCK] script.py`.

Run a program on simulated GPUs; `python -m cudasim` is the same.

The program runs as `python script.py ...` or `python -m module ...` would run it: its own
arguments, folder, `__main__` module, traceback and exit code.
"""

import argparse
import builtins
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType

from cudasim import config, startup, startup_file
from cudasim.config import Config
from cudasim.device.types import DEFAULT

# Lines of a traceback that the program did not write: this package's, and Python's importer's.
_OURS = (os.path.dirname(os.path.abspath(__file__)) + os.sep, "<frozen importlib")


class NoSuchProgram(Exception):
    """What was to be run is not there."""


def parse(arguments: Sequence[str] | None = None) -> tuple[argparse.Namespace, Config]:
    """What the command line asks for: (module, full_traceback and program, what to simulate)."""
    parser = argparse.ArgumentParser(
        "cudasim",
        usage="%(prog)s [--gpus N] [--card NAME] [--device-type TYPE] [--clock CLOCK] "
        "[--force] (script.py | -m module) [argument ...]",
        description="Run a Python program on simulated GPUs.",
        epilog="'python -m cudasim.kernel' installs a Jupyter kernel that does the same. 'cudasim "
        "install-startup' lets every program of this Python heed CUDASIM_GPUS, 'cudasim "
        "remove-startup' takes that back.",
        allow_abbrev=False,
    )
    parser.add_argument("--gpus", metavar="N", help="how many GPUs (2)")
    config.add_options(parser)
    parser.add_argument("--races", metavar="ACTION", help="warn or raise: look for data races")
    parser.add_argument("--force", action="store_true", help="even where real GPUs are")
    parser.add_argument("--full-traceback", action="store_true", help="show cudasim's lines too")
    parser.add_argument("-m", "--module", action="store_true", help="run a module, not a file")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="the program, its arguments")
    options = parser.parse_args(arguments)
    if not options.program:
        parser.error("name a script, or a module with -m")
    theirs = config.setting(config.TYPE) or DEFAULT.name
    number, card, type = options.gpus, options.card, options.device_type or theirs
    clock = options.clock
    if type == theirs:  # what the environment says of another type is not meant here
        number = number or config.setting(config.GPUS)
        card = card or config.setting(config.CARD)
        clock = clock or config.setting(config.CLOCK)
    try:
        asked = number or None, card or None, type, options.force, config.OPTIONS, clock or None
        wanted = config.parse(*asked, options.races or config.setting(config.RACES))
    except ValueError as error:
        parser.error(str(error))
    return options, wanted


def find_script(path: str) -> tuple[CodeType, dict]:
    """The code of a script, or of the `__main__` in a folder or zip file, and its globals."""
    path = os.path.abspath(path)
    importer = pkgutil.get_importer(path)
    spec = importer.find_spec("__main__") if importer else None
    if spec is not None and spec.loader is not None:  # a folder or a zip file
        sys.path[0:1] = [path]
        return spec.loader.get_code("__main__"), {**names_of(spec), "__spec__": spec}
    try:
        source = Path(path).read_bytes()
    except OSError as error:
        raise NoSuchProgram(f"can't open file {path!r}: {error.strerror}") from None
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    loader = SourceFileLoader("__main__", path)
    names = {"__file__": path, "__cached__": None, "__loader__": loader, "__package__": None}
    return compile(source, path, "exec"), names


def find_module(name: str) -> tuple[CodeType, dict]:
    """The code of a module, or of the `__main__` of a package, and its globals."""
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name += ".__main__"
            spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        spec = None
    code = spec.loader.get_code(spec.name) if spec and spec.loader else None
    if code is None:
        raise NoSuchProgram(f"No module named {name}")
    sys.argv[0] = spec.origin
    return code, {**names_of(spec), "__spec__": spec}


def names_of(spec: ModuleSpec) -> dict:
    """The globals that tell a module where it comes from."""
    return {
        "__file__": spec.origin,
        "__cached__": spec.cached,
        "__loader__": spec.loader,
        "__package__": spec.parent,
    }


def run(options: argparse.Namespace) -> None:
    """Run the program as the `__main__` module. An exception is reported as Python reports one."""
    sys.argv = options.program
    main = ModuleType("__main__")
    try:
        code, names = (find_module if options.module else find_script)(options.program[0])
        main.__dict__.update({"__builtins__": builtins, "__spec__": None, **names})
        sys.modules["__main__"] = main
        exec(code, main.__dict__)
    except SystemExit:
        raise
    except NoSuchProgram as error:
        print(f"cudasim: {error}", file=sys.stderr)
        sys.exit(2)
    except BaseException as error:  # whatever it is, the program's own hook reports it
        if not options.full_traceback:
            error.__traceback__ = without_ours(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(130 if isinstance(error, KeyboardInterrupt) else 1)


def without_ours(trace: TracebackType | None) -> TracebackType | None:
    """A traceback less the lines of this package: what real GPUs would leave of it."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    if trace is not None:
        trace.tb_next = without_ours(trace.tb_next)
    return trace


def change_startup(name: str) -> None:
    """Run a command of `startup_file`, and end the program."""
    try:
        print(f"cudasim: {startup_file.COMMANDS[name]()}")
    except startup_file.CannotInstall as error:
        sys.exit(f"cudasim: {error}")
    sys.exit()


def command() -> None:
    """The console script. Modules are looked up in the current folder, as `python -m` has it."""
    if not sys.flags.safe_path:
        sys.path[0] = os.getcwd()
    main()


def main() -> None:
    """Simulate, then run the program."""
    if sys.argv[1:] and sys.argv[1] in startup_file.COMMANDS:
        if sys.argv[2:]:
            print(f"cudasim: {sys.argv[1]!r} takes no arguments", file=sys.stderr)
            sys.exit(2)
        change_startup(sys.argv[1])
    options, wanted = parse()
    os.environ.update(config.to_environment(wanted))
    startup.simulate_as_asked()
    run(options)


if __name__ == "__main__":
    main()
