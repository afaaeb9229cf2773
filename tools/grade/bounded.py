"""Runs what reads a student's file in a process of its own, within limits."""

import json
import multiprocessing
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

SECONDS, MEMORY = 20, 4 << 30  # of processor time, and bytes of address space
WAIT = 120  # s on a machine that is busy


class Unread(Exception):
    """It did not come to a good end within its limits; the message says how it ended."""


def bounded(function: Callable[..., Any], *arguments: object) -> Any:
    """What `function` returns, if JSON holds it, computed in a fork of this process.

    Raises Unread, whatever went wrong there.
    """
    fork = multiprocessing.get_context("fork")
    answers, into = fork.Pipe(duplex=False)
    child = fork.Process(target=_answer, args=(into, function, arguments), daemon=True)
    child.start()
    into.close()
    try:
        said = json.loads(answers.recv_bytes()) if answers.poll(WAIT) else None
    except (EOFError, OSError):
        said = None
    child.kill()
    child.join()
    if said is None:
        code = child.exitcode
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        raise Unread(f"reading it took too long or too much memory ({how})")
    if "error" in said:
        raise Unread(said["error"])
    return said["answer"]


def _answer(into: Connection, function: Callable[..., Any], arguments: tuple[object, ...]) -> None:
    """In the fork: compute, and say it."""
    import resource  # which Windows has not got

    try:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        said = {"answer": function(*arguments)}
    except (RecursionError, MemoryError) as error:
        said = {"error": f"its code cannot be read ({type(error).__name__})"}
    except Exception as error:  # ours, as it seems: the class goes on, and it is not kept quiet
        traceback.print_exc()
        said = {"error": f"the grader failed on it ({type(error).__name__}; see what is printed)"}
    into.send_bytes(json.dumps(said).encode())
