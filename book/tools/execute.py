"""Execute chapters on a runner, in parallel, and keep what they print."""

import asyncio
import datetime
import importlib.metadata
import os
import platform
import sys
import tempfile
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor, wait
from copy import deepcopy
from pathlib import Path

from jupyter_client import AsyncKernelClient, AsyncKernelManager
from jupyter_client.kernelspec import NoSuchKernel
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode
from tqdm import tqdm

from book.tools.chapters import ROOT, code_cells, read_chapter, write_notebook
from book.tools.environment import pins_digest
from book.tools.errors import BookError
from book.tools.outputs import as_outputs, outputs_path
from book.tools.runners import use_runner

VERSIONS = ("torch", "torchvision", "d2l", "numpy", "matplotlib", "ipykernel")


def record(names: list[str], runner: str, root: Path = ROOT) -> None:
    """Execute the chapters `names` on `runner` and write their outputs.

    A chapter's outputs are written when its last cell is done, in one step. Raises
    BookError, with the cell's code and traceback, as soon as a cell of any chapter fails.
    """
    kernel = use_runner(runner, root)
    chapters = {name: read_chapter(name, root) for name in names}
    cells = sum(len(code_cells(chapter)) for chapter in chapters.values())
    seconds = 0.1 if sys.stderr.isatty() else 10  # a log needs fewer lines than a screen
    with tqdm(total=cells, unit="cell", mininterval=seconds) as bar:
        try:
            _run(_record_all(chapters, kernel, bar, root))
        except ExceptionGroup as failures:  # the first to fail stopped the others
            raise failures.exceptions[0] from None


def _run(work: Coroutine) -> None:
    """Run `work` in a thread: there nbclient leaves the signals alone, and Ctrl-C is ours."""
    with ThreadPoolExecutor(1) as thread, asyncio.Runner() as runner:
        loop = runner.get_loop()
        task = loop.create_task(work)
        running = thread.submit(loop.run_until_complete, task)
        try:
            running.result()
        except KeyboardInterrupt:
            loop.call_soon_threadsafe(task.cancel)
            wait([running])
            raise


async def _record_all(
    chapters: dict[str, NotebookNode], kernel: str, bar: tqdm, root: Path
) -> None:
    """Execute chapters side by side, as many as there are cores."""
    cores = asyncio.Semaphore(os.cpu_count() or 1)

    async def record_one(name: str, chapter: NotebookNode) -> None:
        async with cores:
            start = time.monotonic()
            executed = await _execute(name, chapter, kernel, bar)
            facts = provenance(kernel, time.monotonic() - start, root)
            outputs = as_outputs(chapter, executed, facts)
            write_notebook(outputs, outputs_path(name, kernel, root))

    async with asyncio.TaskGroup() as group:
        for name, chapter in chapters.items():
            group.create_task(record_one(name, chapter))


async def _execute(name: str, chapter: NotebookNode, kernel: str, bar: tqdm) -> NotebookNode:
    """A copy of `chapter`, executed in an empty folder."""
    number = {cell.id: i for i, cell in enumerate(code_cells(chapter), start=1)}

    def show(cell: NotebookNode, cell_index: int) -> None:
        if cell.cell_type == "code":
            place = f"{kernel}: {name}, cell {number[cell.id]} of {len(number)} ({cell.id})"
            bar.set_description(place, refresh=sys.stderr.isatty())

    def count(cell: NotebookNode, cell_index: int, execute_reply: dict) -> None:
        bar.update()

    with tempfile.TemporaryDirectory() as folder:
        manager, client = await _start_kernel(kernel, folder)
        notebook = NotebookClient(
            deepcopy(chapter),
            km=manager,
            timeout=None,
            record_timing=False,
            on_cell_start=show,
            on_cell_executed=count,
        )
        notebook.kc = client
        try:
            return await notebook.async_execute()
        except CellExecutionError as error:
            raise BookError(f"notebooks/{name}.ipynb: a cell fails on {kernel}:\n{error}") from None
        except DeadKernelError:
            raise BookError(
                f"notebooks/{name}.ipynb: the kernel of {kernel} died; is there memory enough?"
            ) from None
        finally:
            client.stop_channels()
            await manager.shutdown_kernel(now=True)


async def _start_kernel(kernel: str, folder: str) -> tuple[AsyncKernelManager, AsyncKernelClient]:
    """A running kernel whose working directory is `folder`, or BookError."""
    manager, client, ready = AsyncKernelManager(kernel_name=kernel), None, False
    starting = asyncio.create_task(manager.start_kernel(cwd=folder))
    try:
        await asyncio.shield(starting)  # half-started, a kernel could not be shut down
        client = manager.client()
        client.start_channels()
        await client.wait_for_ready(timeout=60)
        ready = True
        return manager, client
    except (NoSuchKernel, RuntimeError, OSError) as error:
        raise BookError(
            f"kernels/{kernel}/kernel.json: the kernel does not start ({error}); "
            "complete the environment with 'make environment'"
        ) from None
    finally:
        if not ready:  # Ctrl-C and a failing neighbour come here too: nothing is left behind
            await asyncio.wait([starting])
            if client is not None:
                client.stop_channels()  # left open, they would hold up the end of the program
            await manager.shutdown_kernel(now=True)


def provenance(runner: str, seconds: float, root: Path = ROOT) -> dict:
    """Where and when outputs were made. Date and hardware are facts, never staleness."""
    return {
        "runner": runner,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seconds": round(seconds, 1),
        "hardware": f"{processor()}, {os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in VERSIONS},
        "pins": pins_digest(root),
    }


def processor() -> str:
    """The name of this machine's processor, as its system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
