"""What a simulation publishes for other programs: the figures that `nvidia-smi` prints.

Each simulating process keeps two small files in a temporary folder, which the programs that it
starts know by an environment variable. One names the process and its cards; the other is
memory that both sides map, 8 bytes for each card, so that keeping it up to date costs nothing:
it changes when the allocator takes or returns segments, and when the process first uses the card.

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
    """The files in which this process publishes its figures."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        """Files in `folder`: nothing is used of any card of the `machine`."""
        self._pid, self._folder = os.getpid(), folder
        self._lock = (folder / "lock").open("ab")
        self._about = folder / f"{self._pid}.json"
        self._path = folder / f"{self._pid}.used"
        self._path.write_bytes(bytes(USED.size * machine.number))
        with self._path.open("r+b") as file:
            self._used = mmap.mmap(file.fileno(), 0)
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
        draft = self._about.with_suffix(".draft")
        draft.write_text(json.dumps(about))
        draft.replace(self._about)  # whoever reads it, reads all of it

    def write(self, gpu: GPU) -> None:
        """Publish what is used of `gpu`. A forked child, whose map this is too, does not."""
        if os.getpid() == self._pid:
            used = gpu.memory.context + gpu.memory.reserved
            USED.pack_into(self._used, USED.size * gpu.number, used)

    def others(self, gpu: GPU) -> list[tuple[int, int]]:
        """(process, bytes) of every other process that takes some of the card of `gpu`."""
        if len(list(self._folder.glob("*.json"))) == 1:
            return []
        try:
            processes = nvidia_smi.published(str(self._folder))[1]
        except nvidia_smi.Refusal:  # nobody publishes any more
            return []
        identity = f"GPU-{gpu.uuid}"
        return [
            (each["pid"], each["used"])
            for each in processes
            if each["uuid"] == identity and each["pid"] != os.getpid()
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
            self._about.unlink(missing_ok=True)
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
    _set_variable(patches, FOLDER, folder)
    _set_variable(patches, PYTHON, sys.executable)
    before = os.environ.get("PATH", os.defpath)
    _set_variable(patches, "PATH", f"{PROGRAMS}{os.pathsep}{before}")
    if os.name == "nt":
        patches.replace(subprocess.Popen, "__init__", _naming(subprocess.Popen.__init__))


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
        gpu.memory.watch, gpu.memory.others = None, list
        gpu.memory.driver = nullcontext()


def _at_exit(action: Callable[[], Any]) -> Callable[[], None]:
    """Do `action` when Python ends, or when what is returned is called, whichever is first."""
    atexit.register(action)

    def now() -> None:
        atexit.unregister(action)
        action()

    return now


def _set_variable(patches: Patches, name: str, value: str) -> None:
    """Set an environment variable, for the programs that this one starts too, until the end."""
    before = os.environ.get(name)
    os.environ[name] = value

    def undo() -> None:
        if os.environ.get(name) != value:
            return  # the program has set it since; that is its own affair
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before

    patches.finally_do(undo)


def _naming(original: Callable) -> Callable:
    """`Popen.__init__` that finds our `nvidia-smi` by its bare name."""

    @functools.wraps(original)
    def start(*args: Any, **kwargs: Any) -> None:
        args, kwargs = named_in_full(args, kwargs)
        original(*args, **kwargs)

    return start


def named_in_full(args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """The arguments of Popen.__init__, with our `nvidia-smi` in place of its bare name.

    Windows looks only for `nvidia-smi.exe` when a program is started without a shell.
    """
    given = kwargs.get("args", args[1] if len(args) > 1 else None)
    if not isinstance(given, list | tuple) or not given or given[0] != "nvidia-smi":
        return args, kwargs
    full = [sys.executable, "-I", "-S", str(_PACKAGE / "nvidia_smi.py"), *given[1:]]
    if "args" in kwargs:
        return args, {**kwargs, "args": full}
    return (args[0], full, *args[2:]), kwargs
