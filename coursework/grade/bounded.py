"""Runs what reads a student's file in a process of its own, within limits."""

import json
import multiprocessing
import signal
import traceback
from collections.abc import Callable

SECONDS, MEMORY = 20, 4 << 30  # of processor time, and bytes of address space
WAIT = 120  # s on a machine that is busy
BY_HAND = "look at it by hand"


def bounded(function: Callable[..., dict], *arguments: object) -> dict:
    """What `function` returns, computed in a fork; or the `reason` why it does not."""
    fork = multiprocessing.get_context("fork")
    answers, into = fork.Pipe(duplex=False)

    def answer() -> None:
        import resource  # which Windows has not got

        try:
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            said = function(*arguments)
        except (RecursionError, MemoryError) as error:
            said = {
                "reason": f"its code cannot be read ({type(error).__name__}); {BY_HAND}"
            }
        except (
            Exception
        ) as error:  # ours, as it seems: the class goes on, and it is not kept quiet
            traceback.print_exc()
            name = type(error).__name__
            said = {
                "reason": f"the grader failed on it ({name}; see what is printed); {BY_HAND}"
            }
        into.send_bytes(json.dumps(said).encode())

    child = fork.Process(target=answer, daemon=True)
    child.start()
    into.close()
    try:
        if answers.poll(WAIT):
            return json.loads(answers.recv_bytes())
    except (EOFError, OSError):
        pass
    finally:
        child.kill()
        child.join()
    code = child.exitcode
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return {"reason": f"reading it took too long or too much memory ({how}); {BY_HAND}"}
