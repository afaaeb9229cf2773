"""The first screen of the front page: what the book shows, in steps, as its chapters printed it.

`book/front.yml` is the one place that names the cells. Code, outputs, and where each tensor is
drawn and with which numbers, are read from a recording when the site is built; a cell that is gone,
or printed something else, ends the build. Without `book/static/front.js` and on paper, all steps
are shown one under another.
"""

import ast
import re
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from tools.book.book import Book
from tools.book.links import launch_links
from tools.book.recordings import Recording
from tools.errors import BookError
from tools.files import read_yaml
from tools.site.assets import add_part, load_where
from tools.site.extension import read_pages
from tools.site.templates import render
from tools.site.timeline import MIME, timeline_html

RUNNER = "simulated"  # whose outputs are shown
GPUS = 2
PICTURE = "book/front.yml"
CHOOSE = f"choose another in {PICTURE}"


class Step(NamedTuple):
    """A step of the picture: what is said of it, and the cell that shows it.

    `way` is what the cell shows: tensors "made", one "copied" from another, a sum "refused", or a
    "timeline". Names, numbers and places of tensors are those of the cell's last line and of
    what it printed.
    """

    title: str
    said: str
    chapter: str
    cell: str
    way: str


class Tensor(NamedTuple):
    """A tensor as a cell printed it: its numbers as text, row by row, and its GPU."""

    rows: list[list[str]]
    gpu: int


# What PyTorch prints of a matrix: tensor([[1., 1.], [1., 1.]], device='cuda:0')
PRINTED = re.compile(r"tensor\(\[(\[[^()]*\])\](?:, [a-z_]+=[^()=]*?)*?, device='[a-z]+:(\d+)'")


class Scene(NamedTuple):
    """A step as it is drawn: the cell's code and outputs, and the tensors there by then."""

    step: Step
    recording: Recording
    code: str
    printed: str  # as text; of a timeline, its payload
    tensors: dict[str, Tensor]
    new: tuple[str, ...]  # the names of those that the cell prints
    told: str  # the picture of them in words


def setup(app: Sphinx) -> None:
    add_part(app, "first-screen", first_screen)
    load_where(app, 'class="front-steps"', "front.css", "front.js")


def first_screen(env: BuildEnvironment) -> str:
    """Where to begin, and every step. Raises BookError."""
    book, _ = read_pages(Path(env.srcdir))
    builder, first = env.app.builder, next(iter(book.chapters))
    links = {link.label: link.url for link in launch_links(first, book.repository)}

    def highlight(code: str) -> str:
        drawn = builder.highlighter.highlight_block(code, "ipython3")
        return re.sub(r"^<div[^>]*><pre>(<span></span>)?|</pre></div>\s*$", "", drawn)

    return render(
        "front.html",
        scenes=scenes(book, read_picture(book.root)),
        gpus=range(GPUS),
        first=first,
        colab=links["Google Colab"],
        link=lambda document: builder.get_relative_uri(env.docname, document),
        highlight=highlight,
        timeline=timeline_html,
    )


def read_picture(root: Path) -> list[Step]:
    try:
        return [Step(**entry) for entry in read_yaml(root / PICTURE, root)["steps"]]
    except (KeyError, TypeError) as error:
        raise BookError(f"{PICTURE}: not a list of 'steps' ({error}); correct it there") from None


def scenes(book: Book, picture: list[Step]) -> list[Scene]:
    """Every step with what its cell printed. Raises BookError, naming the cell, if one is gone."""
    found, tensors = [], {}
    for step in picture:
        try:
            found.append(_scene(step, book, tensors))
        except ValueError as fault:
            where = f"the cell '{step.cell}' of notebooks/{step.chapter}.ipynb"
            raise BookError(f"the front page shows {where}, {fault}") from None
        tensors = found[-1].tensors
    return found


def _scene(step: Step, book: Book, tensors: dict[str, Tensor]) -> Scene:
    """A step beside the `tensors` of those before it. Raises ValueError, saying what is wrong."""
    chapter, recording = book.chapters.get(step.chapter), book.recording(RUNNER, step.chapter)
    if chapter is None or step.cell not in {cell.id for cell in chapter.code_cells}:
        raise ValueError(f"which is gone; {CHOOSE}")
    if recording is None or step.cell not in recording.cells:
        raise ValueError(
            f"which is not recorded on the runner '{RUNNER}' as it is now; "
            f"make record RUNNER={RUNNER} CHAPTERS={step.chapter}"
        )
    cell = recording.cells[step.cell]
    printed, new, also = _printed(step, cell), {}, ""
    if step.way in ("made", "copied"):
        new = _tensors(cell.source, printed)
    if step.way == "copied":
        also = f" {', '.join(new)} is a copy of {_original(cell.source, new, tensors)}."
    elif step.way == "refused":
        also = " Their sum is refused."
    tensors = tensors | new
    held = [[name for name in tensors if tensors[name].gpu == gpu] for gpu in range(GPUS)]
    told = [f"GPU {i} holds {', '.join(names) or 'nothing'}." for i, names in enumerate(held)]
    words = " ".join(told) + also
    return Scene(step, recording, cell.source, printed, tensors, tuple(new), words)


def _printed(step: Step, cell: NotebookNode) -> str:
    kind = MIME if step.way == "timeline" else "text/plain"
    texts = [
        output.text if output.output_type == "stream" else output.get("data", {}).get(kind, "")
        for output in cell.outputs
    ]
    printed = next(filter(None, texts), "") if kind == MIME else "".join(texts)
    if not printed:
        raise ValueError(f"which printed {'no timeline' if kind == MIME else 'nothing'}; {CHOOSE}")
    if step.way == "refused":
        if "same device" not in printed:
            raise ValueError(f"in which no sum was refused; {CHOOSE}")
        # A message that a cell ends in is printed as Python writes a text.
        printed = re.sub(r"^(['\"])(.*)\1$", r"\2", printed.strip())
    return printed


def _tensors(code: str, printed: str) -> dict[str, Tensor]:
    """The tensors that a cell printed, by their names in its last line."""
    last = ast.parse(code).body[-1]
    shown = last.value if isinstance(last, ast.Expr) else None
    names = [ast.unparse(name) for name in getattr(shown, "elts", [shown]) if name]
    found = [
        Tensor([row.split(", ") for row in re.findall(r"\[([^\[\]]*)\]", rows)], int(gpu))
        for rows, gpu in PRINTED.findall(re.sub(r"\s+", " ", printed))
    ]
    if not names or len(found) != len(names) or any(gpu >= GPUS for _, gpu in found):
        asked = ", ".join(names) or "a tensor"
        raise ValueError(f"which did not print {asked} on a GPU; {CHOOSE}")
    return dict(zip(names, found, strict=True))


def _original(code: str, new: dict[str, Tensor], there: dict[str, Tensor]) -> str:
    """The name of the tensor, on another GPU, that a cell copies."""
    for copy, original in re.findall(r"^(\w+) = (\w+)\.to\(", code, re.M):
        if copy in new and original in there:
            one, other = new[copy], there[original]
            if one.rows == other.rows and one.gpu != other.gpu:
                return original
    raise ValueError(f"in which no tensor was copied to another GPU; {CHOOSE}")
