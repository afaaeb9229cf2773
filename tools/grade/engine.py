"""Where submissions are graded: by processes of this machine, or by the workers of a Dask cluster.

Both take tasks and yield each with its result as it comes, in any order, with few under way at a
time. They outlive workers that die: a task whose worker died is done again, and one that kills
every worker that takes it becomes a row with its reason.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice

from tools.errors import BookError
from tools.grade.grade import NoSandbox, refused
from tools.root import ROOT

TRIES = 4  # of a task whose worker dies; as many as Dask allows one
AHEAD = 2  # tasks for each worker: one that runs, and one that waits
WAIT = 30  # seconds for the scheduler of a cluster to answer
PATIENCE = 10  # seconds that a worker has to end when there is no more to do
DEADLY = "ended every worker that took it; look at it by hand"
Outcome = tuple[dict, dict | BookError]  # a task, and its result or why this run has none


def outcome(task: dict, answer: dict | None) -> dict | BookError:
    """The result that a worker answered; None if the task killed its workers.

    Raises NoSandbox, since then there is none for any other task.
    """
    if answer is None:
        return refused(task["submission"], task["student"], DEADLY, task["assignment"])
    if "no sandbox" in answer:
        raise NoSandbox(answer["no sandbox"])
    return answer["result"] if "result" in answer else BookError(answer["fault"])


# --- this machine


def start_worker() -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "tools.grade.worker"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def end(worker: subprocess.Popen, patience: float) -> None:
    """Let a worker end, or kill it after so many seconds."""
    with contextlib.suppress(OSError):  # what was not yet written is of no use to it
        worker.stdin.close()
    try:
        worker.wait(timeout=patience)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()
    worker.stdout.close()


def on_this_machine(tasks: Iterable[dict], workers: int) -> Iterator[Outcome]:
    """Grade by `workers` processes, each with sandboxes of its own. Raises NoSandbox."""
    thread, started, over = threading.local(), [], threading.Event()

    def answer(task: dict) -> dict | None:
        """What this thread's worker answers; None if TRIES of them died of the task."""
        for _ in range(TRIES):
            if over.is_set():
                break
            if not hasattr(thread, "worker"):
                thread.worker = start_worker()
                started.append(thread.worker)
                if over.is_set():  # whoever ended the others has not seen this one
                    thread.worker.kill()
            try:
                thread.worker.stdin.write(json.dumps(task) + "\n")
                thread.worker.stdin.flush()
                return json.loads(thread.worker.stdout.readline())
            except (OSError, ValueError):  # it died: the pipe is broken, or ends
                started.remove(thread.worker)
                end(thread.worker, patience=0)
                del thread.worker
        return None

    tasks, pending = iter(tasks), {}
    try:
        with ThreadPoolExecutor(workers) as pool:
            try:
                while True:
                    for task in islice(tasks, max(0, AHEAD * workers - len(pending))):
                        pending[pool.submit(answer, task)] = task
                    if not pending:
                        break
                    for future in wait(pending, return_when=FIRST_COMPLETED).done:
                        task = pending.pop(future)
                        yield task, outcome(task, future.result())
            except BaseException:
                over.set()
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in list(started):
                    worker.kill()  # whoever reads from it sees its end
                raise
    finally:  # no thread is left that ends its own
        for worker in started:
            end(worker, PATIENCE)


# --- a Dask cluster


def on_dask(tasks: Iterable[dict], address: str) -> Iterator[Outcome]:
    """Grade by the workers of the Dask cluster at `address`, which get the code from here.

    Raises BookError if there is no scheduler, NoSandbox.
    """
    from distributed import Client, as_completed
    from distributed.scheduler import KilledWorker

    from tools.grade import shipping

    try:
        client = Client(address, timeout=WAIT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise BookError(
            f"DASK={address}: no scheduler answers there ({type(error).__name__}); start one, as "
            "the page on clusters says, and name its address"
        ) from None
    with client:
        shipping.send(client)
        grade = shipping.by_value()
        tasks, pending, done = iter(tasks), {}, as_completed(loop=client.loop)

        def hand_out() -> None:
            workers = sum(client.nthreads().values())
            for task in islice(tasks, max(0, max(1, AHEAD * workers) - len(pending))):
                future = client.submit(grade, task, pure=False)
                pending[future.key] = task
                done.add(future)

        def answer_of(future: Future) -> dict | None:
            try:
                return future.result()
            except KilledWorker:
                return None
            except Exception as error:  # whatever that machine lacks
                reason = f"{type(error).__name__}: {error}".splitlines()[0]
                return {"fault": f"a worker of the cluster failed ({reason}); mend it there"}

        hand_out()
        for future in done:
            task = pending.pop(future.key)
            answer = answer_of(future)
            future.release()
            yield task, outcome(task, answer)
            hand_out()
