"""Execute chapters on a runner, side by side where they can be, and keep what they print."""

import asyncio
import datetime
import importlib.metadata
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path

from filelock import FileLock, Timeout
from jupyter_client import AsyncKernelClient, AsyncKernelManager
from jupyter_client.kernelspec import NoSuchKernel
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode
from tqdm import tqdm

from tools.environment import pins_digest
from tools.errors import BookError
from tools.run.cards import answer, card_folder, card_label, check_memory, question
from tools.run.recordings import as_outputs, is_stale, outputs_path, read_outputs, record_command
from tools.run.runners import GPU, simulator_digest, use_runner
from tools.source.chapters import ROOT, code_cells, read_chapter, write_notebook

VERSIONS = ("torch", "torchvision", "d2l", "numpy", "matplotlib", "ipykernel")


def record(names: list[str], runner: str, root: Path = ROOT, again: bool = True) -> None:
    """Execute the chapters `names` on `runner` and write their outputs.

    A chapter's outputs are written when its last cell is done, in one step. For real GPUs
    they lie under the name of the card, and chapters of which a recording on that card
    still holds are left alone unless `again`. Raises BookError, with the cell's code and
    traceback, as soon as a cell of any chapter fails.
    """
    kernel = use_runner(runner, root)
    if runner == GPU:
        with one_at_a_time(root):
            facts = ask_cards(root)
            names = [name for name in names if again or not kept(name, facts["folder"], root)]
            execute(names, kernel, root, facts)
    else:
        execute(names, kernel, root)


def execute(
    names: list[str], kernel: str, root: Path = ROOT, card: dict | None = None, keep: bool = True
) -> None:
    """Execute chapters, side by side unless on a `card`; write their outputs if `keep`."""
    if not names:
        return
    chapters = {name: read_chapter(name, root) for name in names}
    for name, chapter in chapters.items() if card else ():
        check_memory(chapter, name, card)
    cells = sum(len(code_cells(chapter)) for chapter in chapters.values())
    seconds = 0.1 if sys.stderr.isatty() else 10  # a log needs fewer lines than a screen
    with tqdm(total=cells, unit="cell", mininterval=seconds) as bar:

        async def execute_one(name: str, chapter: NotebookNode) -> None:
            start = time.monotonic()
            executed = await _execute(name, chapter, kernel, bar)
            facts = provenance(name, kernel, time.monotonic() - start, root, card)
            if keep:
                folder = card["folder"] if card else kernel
                outputs = as_outputs(chapter, executed, facts)
                write_notebook(outputs, outputs_path(name, folder, root))

        # Kernels that share a card fail for want of memory, at random.
        at_once = 1 if card else os.cpu_count() or 1
        try:
            _run(_side_by_side(chapters, execute_one, at_once))
        except ExceptionGroup as failures:  # the first to fail stopped the others
            raise failures.exceptions[0] from None


def ask_cards(root: Path = ROOT) -> dict:
    """The facts of this machine's GPUs, as the kernel `gpu` sees them, with `folder`, `label`.

    Raises NoGpu if there is none that torch can use, BookError if a package is lacking.
    """
    kernel = use_runner(GPU, root)
    require(VERSIONS)
    asked = []

    async def ask() -> None:
        with tqdm(disable=True) as silent:
            asked.append(await _execute("question", question(), kernel, silent))

    _run(ask())
    facts = answer(asked[0])
    return facts | {"folder": card_folder(facts["names"]), "label": card_label(facts["names"])}


def kept(name: str, folder: str, root: Path = ROOT) -> bool:
    """True, and a line that says so, if a good recording of a chapter on a card is there."""
    outputs = read_outputs(name, folder, root)
    if outputs is None or is_stale(read_chapter(name, root), outputs, root):
        return False
    where = outputs_path(name, folder, root).relative_to(root).as_posix()
    print(
        f"{where}: recorded on {outputs.metadata.provenance.date}, and kept; "
        f"to record it again: '{record_command(folder, name, root)}'"
    )
    return True


@contextmanager
def one_at_a_time(root: Path = ROOT) -> Iterator[None]:
    """Hold the GPUs of this machine against another recording in this folder."""
    lock = root / "_build" / "gpu.lock"
    lock.parent.mkdir(exist_ok=True)
    try:
        with FileLock(lock, timeout=0):
            yield
    except Timeout:
        where = lock.relative_to(root).as_posix()
        raise BookError(f"{where}: another recording uses the GPUs; wait until it ends") from None


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


async def _side_by_side(
    chapters: dict[str, NotebookNode], execute_one: Callable[..., Coroutine], at_once: int
) -> None:
    """Execute chapters, `at_once` of them at a time."""
    places = asyncio.Semaphore(at_once)

    async def in_turn(name: str, chapter: NotebookNode) -> None:
        async with places:
            await execute_one(name, chapter)

    async with asyncio.TaskGroup() as group:
        for name, chapter in chapters.items():
            group.create_task(in_turn(name, chapter))


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


def provenance(
    name: str, runner: str, seconds: float, root: Path = ROOT, card: dict | None = None
) -> dict:
    """Where and when outputs were made. Date and hardware are facts, never staleness."""
    host = f"{processor()}, {os.cpu_count()} cores"
    made = {
        "chapter": name,
        "runner": runner,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seconds": round(seconds, 1),
        "hardware": host,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {package: importlib.metadata.version(package) for package in VERSIONS},
        "pins": pins_digest(root),
    }
    if simulator := simulator_digest(runner, root):
        made["simulator"] = simulator
    if card:
        made |= {"card": card["label"], "hardware": ", ".join(card["names"]), "host": host}
        made |= {"cuda": card["cuda"], "driver": card["driver"]}
        made["versions"]["torch"] = card["torch"]
    return made


def require(packages: Iterable[str]) -> None:
    """Raise BookError, with the mend, if this Python lacks one of `packages`."""
    missing = [name for name in packages if not _installed(name)]
    if missing:
        raise BookError(
            f"{sys.executable}: lacks {', '.join(missing)}; install it there "
            "(requirements.txt has the pins; with no network, from wheels)"
        )


def _installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def processor() -> str:
    """The name of this machine's processor, as its system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
