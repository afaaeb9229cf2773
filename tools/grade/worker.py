"""A worker process on this machine: a line with a task in, a line with its result out.

It ends when its coordinator does, as its standard input ends then. Standard output belongs to the
protocol; whatever else is printed goes to standard error.
"""

import json
import os
import signal
import sys
import threading

from tools.errors import BookError
from tools.grade.grade import NoSandbox, grade_one

ONE_AT_A_TIME = threading.Lock()  # a process has one sandbox, whatever threads Dask gives it


def answer_to(task: dict) -> dict:
    """The result of a task, or why this machine has none, as data."""
    try:
        with ONE_AT_A_TIME:
            return {"result": grade_one(task)}
    except NoSandbox as error:
        return {"no sandbox": str(error)}
    except BookError as error:
        return {"fault": str(error)}
    except OSError as error:  # no room, or too many files: of this machine, not of the answer
        return {"fault": f"this machine: {error.strerror or error}; mend it, then grade again"}


def main() -> None:
    signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is for the coordinator, which ends this
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(json.dumps(answer_to(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
