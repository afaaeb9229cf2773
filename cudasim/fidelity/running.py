"""Run the programs: on simulated GPUs in this process, on real ones each in its own."""

import io
import json
import random
import subprocess
import sys
import warnings
from contextlib import redirect_stdout
from typing import Any

from fidelity.index import HERE, Program, programs

SECONDS = 120  # the longest that one program may take


def answer(program: Program) -> Any:
    """Return a program's answer in the form that it has after a trip through JSON.

    An error that the program does not expect is an answer too.
    """
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            text = json.dumps(program.run(), allow_nan=False)
            return json.loads(text)
    except Exception as error:
        return {"unexpected": f"{type(error).__name__}: {error}"}


def is_unexpected(answer: Any) -> bool:
    """Return whether an answer is an error that the program does not expect."""
    return isinstance(answer, dict) and list(answer) == ["unexpected"]


def simulate(
    chosen: list[Program], gpus: int, card: str, seed: int | None = None
) -> dict[str, Any]:
    """Return the answers of `cudasim`, each from a new simulation.

    With a `seed` the programs run in a random order.
    """
    import cudasim

    order = list(chosen)
    if seed is not None:
        random.Random(seed).shuffle(order)

    answers = {}
    for program in order:
        with redirect_stdout(io.StringIO()):
            cudasim.enable(gpus, card, force=True)
        try:
            answers[program.name] = answer(program)
        finally:
            cudasim.disable()
    return answers


def answer_apart(name: str) -> Any:
    """Return what a program answers in a process of its own.

    A process that dies or takes too long gives an unexpected answer.
    """
    command = [sys.executable, "-m", "fidelity.running", name]
    try:
        done = subprocess.run(
            command,
            cwd=HERE.parent,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"unexpected": f"no answer within {SECONDS} s"}
    if done.returncode:
        return {"unexpected": f"the process ended with exit code {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Print the answer of the program that the command line names."""
    program = programs()[sys.argv[1]]
    print(json.dumps(answer(program)))


if __name__ == "__main__":
    main()
