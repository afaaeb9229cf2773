"""What a simulation publishes for other programs: the figures that `nvidia-smi` prints.

Each simulating process keeps a small file in a temporary folder, which the programs that it
starts know by an environment variable. Its first line names the process and its cards; then come
8 bytes for each card, which this process maps, so that keeping them up to date costs nothing:
they change when the allocator takes or returns segments, and when the process first uses the card.

The processes share the cards: what one takes, the others cannot. A program that was not started
by a simulating one has a machine of its own, unless CUDASIM_FIGURES names the same folder.
"""

import atexit
import functools
import json
import mmap
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

try:
    import fcntl
except ModuleNotFoundError:  # Windows: there two processes may ask the driver at one time
    fcntl = None

from cudasim.backends.cuda import nvidia_smi
from cudasim.device.gpu import GPU, Machine
from cudasim.patching import Patches
from cudasim.session import session

FOLDER = "CUDASIM_FIGURES"  # environment variable: where the processes' files are
PYTHON = "CUDASIM_PYTHON"  # environment variable: the interpreter that runs our nvidia-smi
USED = struct.Struct("<Q")  # bytes that this process takes of one card
_PACKAGE = Path(__file__).resolve().parent
PROGRAMS = _PACKAGE / "bin"  # holds the command `nvidia-smi`


class Board:
    """The file in which this process publishes its figures."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        """A file in `folder`: nothing is used of any card of the `machine`."""
        self._pid, self._folder = os.getpid(), folder
        self._lock = (folder / "lock").open("ab")
        about = {
            "pid": self._pid,
            "program": sys.executable or "python",
            "gpus": [
                {
                    "index": number,
                    "name": machine.name,
                    "uuid": uuid,
                    "capability": "{}.{}".format(*machine.card.capability),
                    "total": machine.card.board or machine.card.memory,
                    "memory": machine.card.memory,
                    "context": machine.card.type.context,
                }
                for number, uuid in enumerate(machine.uuids())
            ],
        }
        first = json.dumps(about).encode() + b"\n"
        self._path, self._begin = folder / f"{self._pid}.figures", len(first)
        draft = self._path.with_suffix(".draft")
        draft.write_bytes(first + bytes(USED.size * machine.number))
        draft.replace(self._path)  # whoever reads it, reads all of it
        with self._path.open("r+b") as file:
            self._used = mmap.mmap(file.fileno(), 0)

    def write(self, gpu: GPU) -> None:
        """Publish what is used of `gpu`. A forked child, whose map this is too, does not."""
        if os.getpid() == self._pid:
            used = gpu.memory.context + gpu.memory.reserved
            USED.pack_into(self._used, self._begin + USED.size * gpu.number, used)

    def others(self, gpu: GPU) -> list[tuple[int, int]]:
        """(process, bytes) of every other process that takes some of the card of `gpu`."""
        if len(list(self._folder.glob("*.figures"))) == 1:
            return []
        try:
            processes = nvidia_smi.published(str(self._folder))[1]
        except nvidia_smi.Refusal:  # nobody publishes any more
            return []
        identity = f"GPU-{gpu.uuid}"
        return [
            (process["pid"], process["used"])
            for process in processes
            if process["uuid"] == identity and process["pid"] != os.getpid()
        ]

    def __enter__(self) -> None:
        """Keep the other processes from the driver: two cannot take the same memory."""
        if fcntl is not None and not self._lock.closed:
            fcntl.lockf(self._lock, fcntl.LOCK_EX)

    def __exit__(self, *error: object) -> None:
        """Let them at it again."""
        if fcntl is not None and not self._lock.closed:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)

    def remove(self) -> None:
        """Take the files away, in the process that published them."""
        if os.getpid() == self._pid and not self._used.closed:
            self._used.close()
            self._lock.close()
            self._path.unlink(missing_ok=True)


def publish(patches: Patches) -> None:
    """Publish the figures of the GPUs, and put our `nvidia-smi` on the path of programs."""
    folder = os.environ.get(FOLDER)
    if folder is None or not Path(folder).is_dir():
        sweep()
        owner = os.getpid()
        folder = tempfile.mkdtemp(prefix=f"cudasim-{owner}-")
        patches.finally_do(_at_exit(lambda: os.getpid() == owner and shutil.rmtree(folder, True)))
    board = Board(Path(folder), session.machine)
    patches.finally_do(_at_exit(board.remove))
    patches.finally_do(_forget)
    session.when_placed.append(functools.partial(_watch, board))
    _watch(board)
    path = f"{PROGRAMS}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    for name, value in ((FOLDER, folder), (PYTHON, sys.executable), ("PATH", path)):
        patches.replace_item(os.environ, name, value)
    if os.name == "nt":
        patches.wrap(subprocess.Popen, "__init__", start)


def sweep() -> None:
    """Remove the folders of programs that a signal has ended, and in which nobody publishes."""
    for folder in Path(tempfile.gettempdir()).glob("cudasim-*-*"):
        with suppress(OSError):  # it is another user's, or its program removes it now
            numbers = [
                folder.name.split("-")[1],
                *(name.split(".")[0] for name in os.listdir(folder)),
            ]
            if not any(each.isdecimal() and nvidia_smi.is_alive(int(each)) for each in numbers):
                shutil.rmtree(folder)


def _watch(board: Board) -> None:
    for gpu in session.gpus:
        gpu.memory.watch = functools.partial(board.write, gpu)
        gpu.memory.others = functools.partial(board.others, gpu)
        gpu.memory.driver = board


def _forget() -> None:
    for gpu in session.gpus:
        gpu.memory.watch, gpu.memory.others = lambda: None, list
        gpu.memory.driver = nullcontext()


def _at_exit(action: Callable[[], Any]) -> Callable[[], None]:
    """Do `action` when Python ends, or when what is returned is called, whichever is first."""
    atexit.register(action)

    def now() -> None:
        atexit.unregister(action)
        action()

    return now


def start(original: Callable, process: Any, args: Any, *rest: Any, **named: Any) -> None:
    """`Popen.__init__`, with our `nvidia-smi` in place of its bare name.

    Windows looks only for `nvidia-smi.exe` when a program is started without a shell.
    """
    if isinstance(args, list | tuple) and args and args[0] == "nvidia-smi":
        args = [sys.executable, "-I", "-S", str(_PACKAGE / "nvidia_smi.py"), *args[1:]]
    original(process, args, *rest, **named)
