"""Where submissions are graded: by processes of this machine, or by the workers of a Dask cluster.

Both yield each task with its result as it comes, few under way at a time. A task whose worker died
is done again; one that kills every worker that takes it becomes a row with its reason.
"""

import multiprocessing
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection, wait
from pathlib import Path

from coursework.grade.judge import grade_one
from coursework.grade.sandbox import NoSandbox
from tools.environment import PINS
from tools.errors import BookError
from tools.root import ROOT

TRIES = 4  # of a task whose worker dies; as many as Dask allows one
AHEAD = 2  # tasks for each worker of a cluster: one that runs, and one that waits
WAIT = 30  # seconds for the scheduler of a cluster to answer
SENT = ("coursework", "tools", "kernels", "cudasim/src", *PINS)
ONE_AT_A_TIME = (
    threading.Lock()
)  # a process has one sandbox, whatever threads Dask gives it
Outcome = tuple[
    dict, dict | BookError
]  # a task, and its result or why this run has none


def answer_to(task: dict) -> dict | BookError:
    """In a worker: the result of a task, or why this machine has none."""
    try:
        with ONE_AT_A_TIME:
            return grade_one(task)
    except BookError as error:
        return error
    except (
        OSError
    ) as error:  # no room, or too many files: of this machine, not of the answer
        return BookError(
            f"this machine: {error.strerror or error}; mend it, then grade again"
        )


def outcome(task: dict, answer: dict | BookError | None) -> Outcome:
    """A task with a worker's answer; None if it killed its workers. Raises NoSandbox for all."""
    if isinstance(answer, NoSandbox):
        raise answer
    return task, answer or BookError(
        "ended every worker that took it; look at it by hand"
    )


def serve(tasks: Connection) -> None:
    """Be a worker of this machine: answer one task after another until the coordinator is gone."""
    signal.signal(
        signal.SIGINT, lambda *_: None
    )  # Ctrl-C is for the coordinator, which ends this
    with suppress(EOFError, OSError):
        while True:
            tasks.send(answer_to(tasks.recv()))


def on_this_machine(tasks: Iterable[dict], workers: int) -> Iterator[Outcome]:
    """Grade by `workers` processes, each with sandboxes of its own. Raises NoSandbox."""
    spawn = multiprocessing.get_context(
        "spawn"
    )  # a fork would hold the other workers' pipes open
    hired, under_way = (
        {},
        {},
    )  # workers, and the task and try that each is at, by their pipes

    def hand(task: dict, pipe: Connection | None = None, tries: int = 1) -> None:
        if pipe not in hired:
            pipe, theirs = spawn.Pipe()
            hired[pipe] = spawn.Process(target=serve, args=(theirs,), daemon=True)
            hired[pipe].start()
            theirs.close()
        under_way[pipe] = task, tries
        with suppress(OSError):  # it died while it waited: reading from it says so
            pipe.send(task)

    def end(pipe: Connection) -> None:
        hired[pipe].kill()
        hired.pop(pipe).join()
        pipe.close()

    try:
        tasks = iter(tasks)
        for task in islice(tasks, workers):
            hand(task)
        while under_way:
            for pipe in wait(list(under_way)):
                (task, tries), answer = under_way.pop(pipe), None
                try:
                    answer = pipe.recv()
                except (EOFError, OSError):  # it died
                    end(pipe)
                    if tries < TRIES:
                        hand(task, tries=tries + 1)
                        continue
                for following in islice(
                    tasks, 1
                ):  # first, so that the worker need not wait
                    hand(following, pipe)
                yield outcome(task, answer)
    finally:
        for pipe in list(hired):
            end(pipe)


def on_dask(tasks: Iterable[dict], address: str) -> Iterator[Outcome]:
    """Grade by the workers of the Dask cluster at `address`, which get the code from here. They
    need the pins and a sandbox, and may be started in any checkout. Raises BookError."""
    from distributed import Client, as_completed
    from distributed.diagnostics.plugin import UploadDirectory
    from distributed.scheduler import KilledWorker

    def grade(task: dict) -> dict:
        """Made here, it travels whole: the scheduler could not import it."""
        from coursework.grade.engine import answer_to

        return answer_to(task)

    try:
        client = Client(address, timeout=WAIT, set_as_default=False)
    except (OSError, ValueError) as error:
        fault = f"no scheduler answers there ({type(error).__name__})"
        advice = "start one, as the page on clusters says, and name its address"
        raise BookError(f"DASK={address}: {fault}; {advice}") from None
    # A name of its own: on a worker's machine no file of an earlier run is among these.
    with client, tempfile.TemporaryDirectory(prefix="grading-") as folder:
        for name in SENT:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, Path(folder, name))
        code = UploadDirectory(folder, restart_workers=True, update_path=True)
        client.register_plugin(code)  # for those that come later, too
        tasks, pending, done = iter(tasks), {}, as_completed(loop=client.loop)

        def hand_out() -> None:
            most = max(1, AHEAD * sum(client.nthreads().values()))
            for task in islice(tasks, max(0, most - len(pending))):
                future = client.submit(grade, task, pure=False)
                pending[future.key] = task
                done.add(future)

        hand_out()
        for future in done:
            task, answer = pending.pop(future.key), None
            try:
                answer = future.result()
            except KilledWorker:
                pass
            except Exception as error:  # whatever that machine lacks
                reason = f"{type(error).__name__}: {error}".splitlines()[0]
                answer = BookError(
                    f"a worker of the cluster failed ({reason}); mend it there"
                )
            future.release()
            yield outcome(task, answer)
            hand_out()
