"""Show times, errors, tables and the output of nvidia-smi as text."""

import re
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cudasim import frameworks
from cudasim.hardware import with_article
from cudasim.lab.devices import modelled_card
from cudasim.tracebacks import is_program

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
NO_GPU = "No NVIDIA GPU that this program can use."
NOT_SEEN = "nvidia-smi does not see simulated GPUs."
MISSING = "\N{EN DASH}"
JAX_NOTE = "JAX_TRACEBACK_FILTERING"
# How the name of the file begins that stands for a cell of a notebook.
CELL = re.compile(r"<ipython-input-|.*[/\\]ipykernel_\d+[/\\]")


def short(seconds: float) -> str:
    """Return a time in seconds as text with two digits, in s, ms or µs: '3.2 ms'."""
    rounded = float(f"{seconds:.2g}")
    size, unit = next((pair for pair in UNITS if abs(rounded) >= pair[0]), UNITS[-1])
    return f"{float(f'{rounded / size:.2g}'):g} {unit}"


def about(seconds: float | Mapping[str, float]) -> str | dict[str, str]:
    """Return a time in seconds as text that marks it as approximate: '≈ 3.2 ms'.

    For a modelled time, the text names the card: '≈ 3.2 ms, modelled for a T4'. For a
    dictionary of times, the result is a dictionary of texts, which contains the card only
    once, under 'times'.
    """
    card = modelled_card()
    label = f"modelled for {with_article(card)}" if card else ""
    if isinstance(seconds, Mapping):
        texts = {name: f"≈ {short(value)}" for name, value in seconds.items()}
        return texts | ({"times": label} if label else {})
    return f"≈ {short(seconds)}, {label}" if label else f"≈ {short(seconds)}"


def attempt(work: Callable[..., Any], *args: Any) -> Any:
    """Return the result of `work(*args)`, or print its error and return None.

    The error is printed as a short traceback. It contains only lines from the notebook's
    cells or from the program, followed by the type and the message.
    """
    try:
        return work(*args)
    except Exception as error:
        print(_traceback(error), end="")
        return None


def _traceback(error: Exception) -> str:
    lines = ["Traceback (most recent call last):\n"]
    for step in traceback.extract_tb(error.__traceback__):
        if not is_program(step.filename):
            continue
        place = "Cell" if CELL.match(step.filename) else f'File "{step.filename}"'
        lines.append(f"  {place}, line {step.lineno}, in {step.name}\n")
        if step.line:
            lines.append(f"    {step.line}\n")
    _drop_note_of_jax(error)
    return "".join([*lines, *traceback.format_exception_only(error)])


def _drop_note_of_jax(error: Exception) -> None:
    """Drop JAX's note that it has left out lines of its own, as this module does too."""
    notes = getattr(error, "__notes__", [])
    error.__notes__ = [note for note in notes if JAX_NOTE not in note]


class Table:
    """Rows under heads. A notebook shows them as a table, and `print` shows Markdown."""

    def __init__(
        self, heads: Sequence[object], rows: Iterable[Sequence[object]]
    ) -> None:
        self.heads = [str(head) for head in heads]
        self.rows = [[_cell(cell) for cell in row] for row in rows]
        for row in self.rows:
            if len(row) != len(self.heads):
                have, want = len(row), len(self.heads)
                raise ValueError(f"a row of {have} cells under {want} heads: {row}")

    def __repr__(self) -> str:
        columns = range(len(self.heads))
        rulers = ["--:" if self._is_numeric(column) else ":--" for column in columns]
        return "\n".join(map(_line, [self.heads, rulers, *self.rows]))

    def _repr_markdown_(self) -> str:
        return repr(self)

    def _is_numeric(self, column: int) -> bool:
        """Return whether the cells of a column are numbers, or dashes for missing ones."""
        return all(re.match(r"≈|[-+]?\d|\W?$", row[column]) for row in self.rows)


def _cell(value: object) -> str:
    return MISSING if value is None else str(value)


def _line(cells: list[str]) -> str:
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def table(heads: Sequence[object], rows: Iterable[Sequence[object]]) -> Table:
    """Return a table with the given heads and rows, whose cells are numbers or text.

    Columns of numbers are aligned to the right, and None is shown as a dash. Raises
    ValueError if a row does not have as many cells as there are heads.
    """
    return Table(heads, rows)


def nvidia_smi(*options: str) -> str:
    """Return the output of `nvidia-smi` with these options, or the reason there is none.

    The reason is one line. This also works for simulated GPUs of PyTorch, but not for
    those of JAX or TensorFlow.
    """
    if frameworks.is_simulating():
        return NOT_SEEN
    if not _sees_nvidia() or shutil.which("nvidia-smi") is None:
        return NO_GPU
    run = subprocess.run(["nvidia-smi", *options], capture_output=True, text=True)
    return run.stdout.strip() or run.stderr.strip()


def _sees_nvidia() -> bool:
    """Return whether the framework that the program has imported sees a GPU."""
    if "jax" in sys.modules:
        return sys.modules["jax"].default_backend() == "gpu"
    if "tensorflow" in sys.modules:
        return bool(sys.modules["tensorflow"].config.list_physical_devices("GPU"))
    if "mxnet" in sys.modules:
        return sys.modules["mxnet"].npx.num_gpus() > 0
    return "torch" in sys.modules and sys.modules["torch"].cuda.is_available()
