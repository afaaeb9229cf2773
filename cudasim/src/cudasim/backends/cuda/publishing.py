"""What a simulation publishes for other programs: the figures that `nvidia-smi` prints.

Each process keeps a small file in a folder, which CUDASIM_FIGURES names to the programs
that it starts: a line about the process and its cards, then 8 bytes a card, which it maps,
so that they cost nothing. Processes with one folder share the cards: what one takes, the
others cannot.
"""

import functools
import json
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

try:
    import fcntl
except ModuleNotFoundError:  # Windows: there two processes may ask the driver at once
    fcntl = None

from cudasim.backends.cuda.nvidia_smi import FOLDER, USED, Refusal, is_alive, published
from cudasim.device.gpu import GPU, Machine
from cudasim.device.specs import RATINGS
from cudasim.patching import Patches
from cudasim.session import session

# Environment variable: the interpreter that runs our nvidia-smi.
PYTHON = "CUDASIM_PYTHON"
_PACKAGE = Path(__file__).resolve().parent
PROGRAMS = _PACKAGE / "bin"  # holds the command `nvidia-smi`


class Board:
    """The file in which this process publishes what it uses of the cards.

    As a context, it keeps the other processes from the driver: two cannot take the same
    memory.
    """

    def __init__(self, folder: Path, machine: Machine, owned: bool) -> None:
        self._pid = os.getpid()
        self._folder = folder
        self._owned = owned  # whether the folder is removed with this file
        self._lock = (folder / "lock").open("ab")

        line = json.dumps(self._describe(machine)).encode() + b"\n"
        self._path = folder / f"{self._pid}.figures"
        self._begin = len(line)
        # Renamed when it is complete: nobody reads a part of it.
        draft = self._path.with_suffix(".draft")
        draft.write_bytes(line + bytes(USED.size * machine.number))
        draft.replace(self._path)
        with self._path.open("r+b") as file:
            self._used = mmap.mmap(file.fileno(), 0)

    def _describe(self, machine: Machine) -> dict[str, Any]:
        card = machine.card
        return {
            "pid": self._pid,
            "program": sys.executable or "python",
            "uuids": machine.uuids(),
            "name": machine.name,
            "capability": "{}.{}".format(*card.capability),
            "total": card.board or card.memory,
            "memory": card.memory,
            "context": card.type.context,
            **{name: getattr(card, name) for name in RATINGS},
        }

    def watch(self) -> None:
        """Let the GPUs that are there publish what they use."""
        for gpu in session.gpus:
            gpu.memory.watch = functools.partial(self.write, gpu)
            gpu.memory.others = functools.partial(self.others, gpu)
            gpu.memory.driver = self

    def write(self, gpu: GPU) -> None:
        """Publish what is used of `gpu`. A forked child, whose map this is too, does not."""
        if os.getpid() == self._pid:
            used = gpu.memory.context + gpu.memory.reserved
            USED.pack_into(self._used, self._begin + USED.size * gpu.number, used)

    def others(self, gpu: GPU) -> list[tuple[int, int]]:
        """Return (process, bytes) of every other process that uses the card of `gpu`."""
        if len(list(self._folder.glob("*.figures"))) == 1:
            return []
        try:
            _, processes = published(str(self._folder))
        except Refusal:  # nobody publishes any more
            return []

        uuid = f"GPU-{gpu.uuid}"
        return [
            (process.pid, process.used)
            for process in processes
            if process.uuid == uuid and process.pid != os.getpid()
        ]

    def __enter__(self) -> None:
        if fcntl is not None and not self._lock.closed:
            fcntl.lockf(self._lock, fcntl.LOCK_EX)

    def __exit__(self, *error: object) -> None:
        if fcntl is not None and not self._lock.closed:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)

    def remove(self) -> None:
        """Publish no more. Does nothing in a forked child."""
        if os.getpid() != self._pid:
            return
        self._pid = 0  # memory that outlives the simulation is written of no more
        self._used.close()
        self._lock.close()
        self._path.unlink(missing_ok=True)
        if self._owned:
            shutil.rmtree(self._folder, ignore_errors=True)


def publish(patches: Patches) -> None:
    """Publish the figures of this process, and offer `nvidia-smi` to what it starts."""
    folder = os.environ.get(FOLDER)
    is_new = folder is None or not Path(folder).is_dir()
    if is_new:
        sweep()
        folder = tempfile.mkdtemp(prefix=f"cudasim-{os.getpid()}-")

    board = Board(Path(folder), session.machine, is_new)
    patches.finally_do(weakref.finalize(board, board.remove))  # or when Python ends
    session.when_gpus_change.append(board.watch)
    board.watch()

    path = os.environ.get("PATH", os.defpath)
    patches.replace_item(os.environ, FOLDER, folder)
    patches.replace_item(os.environ, PYTHON, sys.executable)
    patches.replace_item(os.environ, "PATH", f"{PROGRAMS}{os.pathsep}{path}")
    if os.name == "nt":
        patches.wrap(subprocess.Popen, "__init__", start)


def sweep() -> None:
    """Remove the folders of programs that a signal has ended, and in which nobody publishes."""
    for folder in Path(tempfile.gettempdir()).glob("cudasim-*-*"):
        with suppress(OSError):  # it is another user's, or its program removes it now
            owner = folder.name.split("-")[1]
            publishers = [name.split(".")[0] for name in os.listdir(folder)]
            if not any(map(_is_process, [owner, *publishers])):
                shutil.rmtree(folder)


def _is_process(name: str) -> bool:
    """Tell whether `name` is the number of a process that runs."""
    return name.isdecimal() and is_alive(int(name))


def start(
    original: Callable, process: Any, args: Any, *rest: Any, **named: Any
) -> None:
    """Start our program for its bare name: `Popen` on Windows looks only for an .exe."""
    if isinstance(args, list | tuple) and args and args[0] == "nvidia-smi":
        args = [sys.executable, "-I", "-S", str(_PACKAGE / "nvidia_smi.py"), *args[1:]]
    original(process, args, *rest, **named)
