"""Where submissions are graded: by processes of this machine, or by the workers of a Dask cluster.

Both take tasks and yield each with its result as it comes, in any order, with few under way at a
time. They outlive workers that die: a task whose worker died is done again, and one that kills
every worker that takes it becomes a row with its reason.
"""

import json
import os
import queue
import subprocess
import sys
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


class Worker:
    """A process that grades one task after another; another takes its place when it dies."""

    def __init__(self) -> None:
        self.process: subprocess.Popen | None = None
        self.stopped = False

    def answer(self, task: dict) -> dict | None:
        """What the process answers to a task; None if TRIES of them died of it."""
        for _ in range(TRIES):
            if self.stopped:
                break
            try:
                self.process = self.process or start_worker()
                self.process.stdin.write(json.dumps(task) + "\n")
                self.process.stdin.flush()
                return json.loads(self.process.stdout.readline())
            except (OSError, ValueError):  # it died: the pipe is broken, or ends
                self.end(patience=0)
        return None

    def end(self, patience: float = PATIENCE) -> None:
        """Let the process end, or kill it after so many seconds."""
        process, self.process = self.process, None
        if process is None:
            return
        try:
            process.stdin.close()
        except OSError:
            pass  # what was not yet written is of no use to it
        try:
            process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def stop(self) -> None:
        """End at once, whatever is under way."""
        self.stopped = True
        if process := self.process:
            process.kill()  # whoever reads from it sees its end


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


def on_this_machine(tasks: Iterable[dict], workers: int) -> Iterator[Outcome]:
    """Grade by `workers` processes, each with sandboxes of its own. Raises NoSandbox."""
    all_workers = [Worker() for _ in range(workers)]
    idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    for worker in all_workers:
        idle.put(worker)

    def graded(task: dict) -> dict | None:
        worker = idle.get()
        try:
            return worker.answer(task)
        finally:
            idle.put(worker)

    tasks, pending = iter(tasks), {}
    with ThreadPoolExecutor(workers) as pool:
        try:
            while True:
                for task in islice(tasks, max(0, AHEAD * workers - len(pending))):
                    pending[pool.submit(graded, task)] = task
                if not pending:
                    break
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    task = pending.pop(future)
                    yield task, outcome(task, future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in all_workers:
                worker.stop()
            raise
        finally:
            for worker in all_workers:
                worker.end()


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
