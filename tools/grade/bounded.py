"""Runs what reads a student's file in a process of its own, within limits."""

import json
import os
import select
import signal
import traceback
from collections.abc import Callable
from typing import Any

SECONDS, MEMORY = 20, 4 << 30  # of processor time, and bytes of address space
WAIT = 120  # s on a machine that is busy


class Unread(Exception):
    """It did not come to a good end within its limits; the message says how it ended."""


def bounded(function: Callable[..., Any], *arguments: object) -> Any:
    """What `function` returns, if JSON holds it, computed in a fork of this process.

    Raises Unread, whatever went wrong there.
    """
    out, into = os.pipe()
    child = os.fork()
    if not child:
        os.close(out)
        _answer(into, function, arguments)
    os.close(into)
    with os.fdopen(out, "rb") as pipe:
        parts = []
        while select.select([pipe], [], [], WAIT)[0] and (part := os.read(out, 1 << 20)):
            parts.append(part)
        os.kill(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        said = json.loads(b"".join(parts))
    except ValueError:
        how = signal.Signals(-status).name if status < 0 else f"exit code {status}"
        raise Unread(f"reading it took too long or too much memory ({how})") from None
    if "error" in said:
        raise Unread(said["error"])
    return said["answer"]


def _answer(into: int, function: Callable[..., Any], arguments: tuple[object, ...]) -> None:
    """In the fork: compute, write a line, end."""
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
    try:
        line = json.dumps(said).encode()
        while line:
            line = line[os.write(into, line) :]
    finally:
        os._exit(0)
