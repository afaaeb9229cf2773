"""Where submissions are judged: by processes of this machine, or by workers of a Dask cluster.

Both yield each task with its judgement as it comes, with few tasks under way at a time. A task
whose worker died is done again. One that kills every worker that takes it becomes a row with its
reason.
"""

import multiprocessing
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from coursework.exercises.tasks import Task
from coursework.grade.judge import judge
from coursework.grade.results import Judgement
from coursework.grade.sandbox import NoSandbox
from tools.environment import REQUIREMENTS
from tools.errors import BookError
from tools.files import ROOT

TRIES = 4  # of a task whose worker dies; as many as Dask allows one
AHEAD = 2  # tasks for each worker of a cluster: one that runs, and one that waits
WAIT = 30  # seconds for the scheduler of a cluster to answer
SENT = ("coursework", "tools", "kernels", "cudasim/src", *REQUIREMENTS)
# A process has one sandbox, however many threads Dask gives it.
ONE_AT_A_TIME = threading.Lock()

Answer = Judgement | BookError  # the error says why this run has no judgement
Engine = Callable[[Iterable[Task]], Iterator[tuple[Task, Answer]]]


def answer_to(task: Task) -> Answer:
    """In a worker: return the judgement of a task, or why this machine has none."""
    try:
        with ONE_AT_A_TIME:
            return judge(task)
    except BookError as error:
        return error
    except OSError as error:
        # No room, or too many files: the fault is this machine's, not the answer's.
        fault = f"this machine: {error.strerror or error}"
        return BookError(f"{fault}; correct that, then grade again")


def checked(answer: Answer | None) -> Answer:
    """Return a worker's answer; None means that the task killed its workers.

    Raises NoSandbox, which stops the whole run.
    """
    if isinstance(answer, NoSandbox):
        raise answer
    if answer is None:
        return BookError("ended every worker that took it; look at it by hand")
    return answer


# --- this machine


def serve(tasks: Connection) -> None:
    """Be a worker: answer one task after another until the coordinator is gone."""
    # Ctrl-C is for the coordinator, which then ends its workers.
    signal.signal(signal.SIGINT, lambda *_: None)
    with suppress(EOFError, OSError):
        while True:
            tasks.send(answer_to(tasks.recv()))


class Workers:
    """The worker processes of this machine, by their pipes, and what each is at."""

    def __init__(self) -> None:
        # A fork would hold the other workers' pipes open.
        self.spawn = multiprocessing.get_context("spawn")
        self.processes: dict[Connection, Any] = {}
        self.under_way: dict[Connection, tuple[Task, int]] = {}  # the task and the try

    def hire(self) -> Connection:
        pipe, theirs = self.spawn.Pipe()
        process = self.spawn.Process(target=serve, args=(theirs,), daemon=True)
        self.processes[pipe] = process
        process.start()
        theirs.close()
        return pipe

    def give(self, task: Task, pipe: Connection, attempt: int = 1) -> None:
        self.under_way[pipe] = task, attempt
        with suppress(OSError):  # it died while it waited: reading from it says so
            pipe.send(task)

    def end(self, pipe: Connection) -> None:
        process = self.processes.pop(pipe)
        process.kill()
        process.join()
        pipe.close()

    def end_all(self) -> None:
        for pipe in list(self.processes):
            self.end(pipe)


def on_this_machine(
    tasks: Iterable[Task], workers: int
) -> Iterator[tuple[Task, Answer]]:
    """Judge by `workers` processes, each with sandboxes of its own. Raises NoSandbox."""
    tasks = iter(tasks)
    crew = Workers()
    try:
        for task in islice(tasks, workers):
            crew.give(task, crew.hire())
        while crew.under_way:
            for pipe in wait(list(crew.under_way)):
                task, attempt = crew.under_way.pop(pipe)
                try:
                    answer = pipe.recv()
                except (EOFError, OSError):  # it died
                    answer = None
                    crew.end(pipe)
                    pipe = None
                    if attempt < TRIES:
                        crew.give(task, crew.hire(), attempt + 1)
                        continue
                # The next task comes first, so that the worker need not wait.
                for following in islice(tasks, 1):
                    crew.give(following, pipe or crew.hire())
                yield task, checked(answer)
    finally:
        crew.end_all()


# --- a cluster


def on_dask(tasks: Iterable[Task], address: str) -> Iterator[tuple[Task, Answer]]:
    """Judge by the workers of the Dask cluster at `address`, which get the code from here.

    They need the pins and a sandbox, and may be started in any checkout. Raises BookError.
    """
    from distributed import Client, as_completed

    def judge_there(entry: dict) -> object:
        """Defined in here, it is sent whole; the scheduler could not import it."""
        from coursework.exercises.tasks import Task
        from coursework.grade.engine import answer_to

        return answer_to(Task.from_json(entry))

    try:
        client = Client(address, timeout=WAIT, set_as_default=False)
    except (OSError, ValueError) as error:
        fault = f"no scheduler answers there ({type(error).__name__})"
        advice = "start one, as the page on clusters says, and name its address"
        raise BookError(f"DASK={address}: {fault}; {advice}") from None
    with client:
        send_code(client)
        tasks = iter(tasks)
        pending: dict[str, Task] = {}
        futures = as_completed(loop=client.loop)

        def hand_out() -> None:
            most = max(1, AHEAD * sum(client.nthreads().values()))
            for task in islice(tasks, max(0, most - len(pending))):
                future = client.submit(judge_there, task.as_json(), pure=False)
                pending[future.key] = task
                futures.add(future)

        hand_out()
        for future in futures:
            task = pending.pop(future.key)
            answer = result_of(future)
            future.release()
            yield task, checked(answer)
            hand_out()


def send_code(client: Any) -> None:
    """Send the code to the workers of a cluster, and to those that come later."""
    from distributed.diagnostics.plugin import UploadDirectory

    # The folder has a name of its own, so that no file of an earlier run is among these.
    with tempfile.TemporaryDirectory(prefix="grading-") as folder:
        for name in SENT:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, Path(folder, name))
        plugin = UploadDirectory(folder, restart_workers=True, update_path=True)
        client.register_plugin(plugin)


def result_of(future: Any) -> Answer | None:
    """Return the answer of a worker of a cluster; None if the task killed its workers."""
    from distributed.scheduler import KilledWorker

    try:
        return future.result()
    except KilledWorker:
        return None
    except Exception as error:  # whatever that machine lacks
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        fault = f"a worker of the cluster failed ({reason})"
        return BookError(f"{fault}; correct that there")
