"""Running programs: on simulated GPUs one after another, on real ones each in a fresh process."""

import importlib
import io
import json
import multiprocessing
import os
import random
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from multiprocessing.connection import wait
from typing import Any

import torch

from fidelity.index import Program

SECONDS = 120  # the longest that one program may take


def suitable(programs: dict[str, Program], gpus: int) -> list[str]:
    """The names of those programs that can run with `gpus` GPUs on this system."""
    forks = hasattr(os, "fork")
    return [
        name
        for name, each in programs.items()
        if each.gpus <= gpus and (forks or not each.fork)
    ]


def answer(name: str) -> Any:
    """What the program answers, as JSON gives it back; an unexpected error is an answer too."""
    theme, function = name.split(".")
    try:
        program = getattr(
            importlib.import_module(f"fidelity.programs.{theme}"), function
        )
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            return json.loads(json.dumps(program(), allow_nan=False))
    except Exception as error:
        return {"unexpected": f"{type(error).__name__}: {error}"}


def unexpected(given: Any) -> str | None:
    """The error that a program did not expect, if `given` is one."""
    return (
        given["unexpected"]
        if isinstance(given, dict) and list(given) == ["unexpected"]
        else None
    )


def simulated(
    names: list[str], gpus: int, card: str, seed: int | None = None
) -> dict[str, Any]:
    """The answers of `cudasim`, each from a new simulation, in the order that `seed` gives."""
    import cudasim

    order = list(names)
    if seed is not None:
        random.Random(seed).shuffle(order)
    answers = {}
    for name in order:
        with redirect_stdout(io.StringIO()):
            cudasim.enable(gpus, card, force=True)
        try:
            answers[name] = answer(name)
        finally:
            cudasim.disable()
    return answers


def in_processes(
    tasks: dict[str, Callable[[], Any]], most: int
) -> Iterator[tuple[str, Any]]:
    """Run each task in a forked process of its own, at the most `most` at once.

    Yields (name, what the task returned) as they end. A process that dies or takes too long
    answers so. This process must not have used a GPU: its children could not.
    """
    context = multiprocessing.get_context("fork")
    waiting, running = dict(tasks), {}
    try:
        while waiting or running:
            while waiting and len(running) < most:
                name = next(iter(waiting))
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(
                    target=_send, args=(sender, waiting.pop(name))
                )
                process.start()
                sender.close()
                running[receiver] = name, process, time.monotonic() + SECONDS
            ready = wait(running, timeout=1)
            late = [each for each in running if time.monotonic() > running[each][2]]
            for receiver in {*ready, *late}:
                name, process, _ = running.pop(receiver)
                if receiver in ready:
                    given = _receive(receiver, process)
                else:
                    given = {"unexpected": f"no answer within {SECONDS} s"}
                _end(process)
                yield name, given
    finally:
        for (
            process
        ) in multiprocessing.active_children():  # one may not be in `running` yet
            _end(process)


def _send(sender: Any, task: Callable[[], Any]) -> None:
    """In the child: run the task in silence, and send what it returns."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    sender.send(task())


def _receive(receiver: Any, process: Any) -> Any:
    try:
        return receiver.recv()
    except EOFError:
        process.join()
        return {"unexpected": f"the process ended with exit code {process.exitcode}"}


def _end(process: Any) -> None:
    process.kill()
    process.join()


def facts() -> dict[str, Any]:
    """What this process's torch says of itself and its GPUs, and what it warns of."""
    cuda = torch.cuda
    with warnings.catch_warnings(record=True) as caught:  # an old driver, for one
        warnings.simplefilter("always")
        count = cuda.device_count() if cuda.is_available() else 0
    return {
        "names": [cuda.get_device_name(i) for i in range(count)],
        "capability": list(cuda.get_device_capability()) if count else None,
        "memory": cuda.get_device_properties(0).total_memory if count else None,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "warnings": [str(each.message) for each in caught],
    }


def by_company(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """(those that may run at the same time as others, those that look at the card's memory)."""
    names = list(names)
    alone = [name for name in names if name.startswith("memory.")]
    return [name for name in names if name not in alone], alone
