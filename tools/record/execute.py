"""Execute chapters on runners, in one pool over the machine's cores, and record what they print."""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from jupyter_client import AsyncKernelClient, AsyncKernelManager
from jupyter_client.kernelspec import NoSuchKernel
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode
from tqdm import tqdm

from tools.book.book import Book
from tools.book.chapters import Chapter
from tools.book.recordings import make_recording
from tools.book.runners import Runner
from tools.errors import BookError
from tools.files import NO_ROOM, check_writable
from tools.record.provenance import Cards, provenance
from tools.record.reprint import keep_old_if_same


@dataclass(frozen=True)
class Run:
    """A chapter to be executed on a runner; on real GPUs, on these `cards`."""

    chapter: Chapter
    runner: Runner
    cards: Cards | None = None

    @property
    def folder(self) -> str:
        return self.cards.folder if self.cards else self.runner.name


def execute(runs: list[Run], book: Book, keep: bool = True) -> None:
    """Execute the `runs` side by side, those on a card one by one; record them if `keep`.

    A recording is written in one step, after its last cell; it stays when a cell elsewhere
    fails.
    """
    if not runs:
        return
    if keep:
        for folder in {run.folder for run in runs}:
            check_writable(book.root / "outputs" / folder, book.root)
    at_once = min(len(runs), os.cpu_count() or 1)
    if any(run.cards for run in runs):
        at_once = 1  # kernels that share a card fail for want of memory, at random

    cells = sum(len(run.chapter.code_cells) for run in runs)
    # A log needs fewer lines than a screen.
    seconds = 0.1 if sys.stderr.isatty() else 10
    with tqdm(total=cells, unit="cell", mininterval=seconds) as bar:
        slots = asyncio.Semaphore(at_once)

        async def execute_when_free(run: Run) -> None:
            async with slots:
                start = time.monotonic()
                executed = await _execute(run.chapter, run.runner, bar, at_once)
                if keep:
                    _record(run, executed, time.monotonic() - start, book, bar)

        async def execute_all() -> None:
            async with asyncio.TaskGroup() as group:
                for run in runs:
                    group.create_task(execute_when_free(run))

        try:
            run_in_thread(execute_all())
        except ExceptionGroup as failures:  # the first to fail stopped the others
            raise failures.exceptions[0] from None


def _record(
    run: Run, executed: NotebookNode, seconds: float, book: Book, bar: tqdm
) -> None:
    """Write what an executed chapter printed, unless the same is recorded already."""
    pins = book.pins_of(run.runner)
    facts = provenance(run.chapter, run.runner, seconds, pins, run.cards)
    new = make_recording(run.chapter, run.runner, run.folder, executed, facts)
    recording = keep_old_if_same(new, book.root)
    if edited := recording.write(book.root):
        bar.write(
            f"{recording.where}: recorded; what was edited there is {edited.name}"
        )


def execute_one(chapter: Chapter, runner: Runner) -> NotebookNode:
    """Return a copy of a chapter, executed without a bar that shows progress."""
    return run_in_thread(_execute(chapter, runner, tqdm(disable=True), 1))


@contextmanager
def one_at_a_time(root: Path) -> Iterator[None]:
    """Wait until no other command executes or builds in this folder, then keep others out."""
    path = root / "_build" / "lock"
    check_writable(path.parent, root)
    lock = FileLock(path)
    try:
        held = lock.acquire(timeout=0)
    except Timeout:
        print("waiting: another command of this book works in this folder", flush=True)
        held = lock.acquire()
    with held:
        yield


def run_in_thread(work: Coroutine) -> object:
    """Run `work` in a thread with a loop of its own: there nbclient leaves the signals alone."""
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    loop = runner.get_loop()
    task = loop.create_task(work)
    with ThreadPoolExecutor(1) as thread:
        try:
            running = thread.submit(loop.run_until_complete, task)
            # A signal that comes just before a wait without end would be noticed at its end.
            while wait([running], timeout=0.2).not_done:
                pass
            return running.result()
        except KeyboardInterrupt:
            loop.call_soon_threadsafe(task.cancel)
            raise
        finally:
            thread.submit(runner.close).result()  # after the work's own cleaning up


async def _execute(
    chapter: Chapter, runner: Runner, bar: tqdm, at_once: int
) -> NotebookNode:
    """Return a copy of `chapter`, executed in an empty folder beside `at_once - 1` others."""
    ids = [cell.id for cell in chapter.code_cells]

    def show(cell: NotebookNode, cell_index: int) -> None:
        if cell.cell_type == "code":
            place = f"cell {ids.index(cell.id) + 1} of {len(ids)} ({cell.id})"
            text = f"{runner.name}: {chapter.name}, {place}"
            bar.set_description(text, refresh=sys.stderr.isatty())

    with tempfile.TemporaryDirectory() as folder:
        manager, client = await _start_kernel(runner, folder, at_once)
        notebook = NotebookClient(
            deepcopy(chapter.notebook),
            km=manager,
            timeout=None,
            # Outputs of a busy machine that come later are lost without a word.
            iopub_timeout=60,
            record_timing=False,
            # However the pieces of a line arrive, a recording holds the line.
            coalesce_streams=True,
            on_cell_start=show,
            on_cell_executed=lambda **_: bar.update(),
        )
        notebook.kc = client
        try:
            return await notebook.async_execute()
        except CellExecutionError as error:
            raise BookError(
                chapter.where, f"a cell fails on {runner.name}:\n{error}"
            ) from None
        except DeadKernelError:
            raise BookError(
                chapter.where,
                f"the kernel of {runner.name} died; is there memory enough?",
            ) from None
        finally:
            client.stop_channels()
            await manager.shutdown_kernel(now=True)


async def _start_kernel(
    runner: Runner, folder: str, at_once: int
) -> tuple[AsyncKernelManager, AsyncKernelClient]:
    """Return a running kernel whose working directory is `folder`, or raise BookError."""
    manager = AsyncKernelManager(kernel_name=runner.use())
    client = None
    ready = False
    # Side by side, kernels with a thread for every core each would wait for one another.
    threads = max(1, (os.cpu_count() or 1) // at_once)
    environment = {"OMP_NUM_THREADS": str(threads)} | os.environ
    starting = asyncio.create_task(manager.start_kernel(cwd=folder, env=environment))
    try:
        await asyncio.shield(starting)  # half-started, a kernel could not be shut down
        client = manager.client()
        # Stopped before it began, jupyter_client's heartbeat would never end.
        client.start_channels(hb=False)
        await client.wait_for_ready(timeout=60)
        ready = True
        return manager, client
    except (NoSuchKernel, RuntimeError, OSError) as error:
        if getattr(error, "errno", None) in NO_ROOM:
            raise
        raise BookError(
            runner.where,
            f"the kernel does not start ({error})",
            "remove .venv, and the next 'make' command makes it anew",
        ) from None
    finally:
        # Ctrl-C and a failing neighbour come here too: nothing is left behind.
        if not ready:
            await asyncio.wait([starting])
            if client is not None:
                # Left open, they would hold up the end of the program.
                client.stop_channels()
            await manager.shutdown_kernel(now=True)
