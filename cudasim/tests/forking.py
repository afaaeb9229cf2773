"""A Python with torch loaded that forks itself into the programs that it is asked to run.

It reads lines of JSON, each a list of programs that run side by side, and answers each line with
the list of their exit codes. Importing torch takes seconds; forking a process that has it does not.
"""

import atexit
import gc
import json
import multiprocessing.process
import os
import runpy
import signal
import sys
import threading
from types import ModuleType

import torch.distributed

import cudasim


def serve() -> dict | None:
    """Answer requests until there are no more. A child returns the program that it becomes."""
    for line in sys.stdin.buffer:
        children = []
        for program in json.loads(line):
            child = os.fork()
            if child == 0:
                return program
            children.append(child)

        codes = []
        for child in children:
            _, status = os.waitpid(child, 0)
            codes.append(os.waitstatus_to_exitcode(status))
        os.write(1, json.dumps(codes).encode() + b"\n")
    return None


def become(program: dict) -> None:
    """Turn this process into one that was started for the program alone."""
    signal.alarm(program["seconds"])
    for number, path in enumerate((os.devnull, program["stdout"], program["stderr"])):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
    os.chdir(program["cwd"])
    multiprocessing.process.ORIGINAL_DIR = program["cwd"]
    os.environ.clear()
    os.environ.update(program["environ"])


def execute(first: str, *rest: str) -> None:
    """Do what `python first *rest` does."""
    main = sys.modules["__main__"] = ModuleType("__main__")
    if first == "-m":
        sys.path[0] = os.getcwd()
        sys.argv[1:] = rest[1:]
        runpy._run_module_as_main(rest[0])  # which is what `python -m` calls
    elif first == "-c":
        sys.path[0] = ""
        sys.argv[:] = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), vars(main))
    else:
        sys.path[0] = os.path.dirname(os.path.realpath(first))
        sys.argv[:] = [first, *rest]
        main.__file__ = os.path.abspath(first)
        with open(first, "rb") as script:
            exec(compile(script.read(), first, "exec"), vars(main))


def exit_code(arguments: list[str]) -> int:
    """Run a program and return the code that Python would end with, having printed why."""
    try:
        execute(*arguments)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        # The frames of this function and of `execute` are not the program's.
        traceback = error.__traceback__.tb_next.tb_next
        sys.excepthook(type(error), error.with_traceback(traceback), traceback)
        return 1
    return 0


with cudasim.simulate():  # imports what a simulation needs
    torch.ones(2, device="cuda") + 1
gc.freeze()  # so that children need not copy what they only look through

program = serve()
if program:
    become(program)
    code = exit_code(program["arguments"])
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # taking torch apart would take as long as importing it
