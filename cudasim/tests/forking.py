"""A Python with torch loaded, which forks itself into the programs that it is asked to run. It
reads lines of JSON, each a list of programs that run beside each other, and answers each with the
list of their exit codes. To import torch takes seconds, to fork a process that has it does not."""

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
    """Answer requests until there are no more: None. In a child: the program that it becomes."""
    for line in sys.stdin.buffer:
        children = []
        for program in json.loads(line):
            if not (child := os.fork()):
                return program
            children.append(child)
        codes = [
            os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children
        ]
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
    """What `python first *rest` does."""
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
    """Run a program; what Python would end with, having said why."""
    try:
        execute(*arguments)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        theirs = (
            error.__traceback__.tb_next.tb_next
        )  # without this function's and `execute`'s
        sys.excepthook(type(error), error.with_traceback(theirs), theirs)
        return 1
    return 0


with cudasim.simulate():  # imports what a simulation needs
    torch.ones(2, device="cuda") + 1
gc.freeze()  # so that children need not copy what they only look through
if program := serve():
    become(program)
    code = exit_code(program["arguments"])
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush(), sys.stderr.flush()
    os._exit(code)  # without taking torch apart, which takes as long as to import it
