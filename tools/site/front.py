"""The first screen of the front page: what the book shows, in steps, as its chapters printed it.

`PICTURE` is the one place that names the cells. Code, outputs, and where each tensor is drawn and
with which numbers, are read from a recording when the site is built; a cell that is gone, or
printed something else, ends the build. Without `book/static/front.js` and on paper, all steps are
shown one under another.
"""

import ast
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from docutils import nodes
from nbformat import NotebookNode
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from tools.book.book import Book
from tools.book.links import launch_links
from tools.errors import BookError
from tools.site.assets import load_where
from tools.site.extension import read_pages
from tools.site.timeline import MIME, timeline_html

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

RUNNER = "simulated"  # whose outputs are shown
GPUS = 2


@dataclass(frozen=True)
class Step:
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


COPYING = "copying-between-devices"
PICTURE = (
    Step(
        "Two tensors, two GPUs",
        "Every tensor is in the memory of one device: X on the first GPU, Y on the second.",
        *(COPYING, "two-tensors", "made"),
    ),
    Step(
        "Their sum is refused",
        "PyTorch copies nothing that you did not ask for. It raises an error and names both GPUs.",
        *(COPYING, "add", "refused"),
    ),
    Step(
        "A copy",
        "Ask for a copy of X on the second GPU. Z is that copy; X stays where it was.",
        *(COPYING, "copied", "copied"),
    ),
    Step(
        "The sum",
        "Y and Z are in one memory. Their sum is computed there, and stays there.",
        *(COPYING, "summed", "made"),
    ),
    Step(
        "What it costs",
        "A larger tensor is copied, then both GPUs multiply. Python asks for all of it and waits.",
        *(COPYING, "together", "timeline"),
    ),
)


class Tensor(NamedTuple):
    """A tensor as a cell printed it: its numbers as text, row by row, and its GPU."""

    rows: list[list[str]]
    gpu: int


# What PyTorch prints of a matrix: tensor([[1., 1.], [1., 1.]], device='cuda:0')
PRINTED = re.compile(r"tensor\(\[(\[[^()]*\])\](?:, [a-z_]+=[^()=]*?)*?, device='[a-z]+:(\d+)'")


class first_screen(nodes.General, nodes.Element):
    """What the page shows first: where to begin, and the picture."""


class FirstScreen(SphinxDirective):
    """The first screen, drawn of the book's recordings."""

    def run(self) -> list[nodes.Node]:
        """Read the cells. A fault fails the build in one line."""
        try:
            book, _ = read_pages(Path(self.env.srcdir))
            shown = scenes(book)
            chapter = next(iter(book.chapters))
            (colab,) = (
                link.url
                for link in launch_links(chapter, book.repository)
                if link.label == "Google Colab"
            )
        except BookError as error:
            raise ExtensionError(str(error)) from None
        return [first_screen("", scenes=shown, chapter=f"notebooks/{chapter}", colab=colab)]


def setup(app: "Sphinx") -> dict[str, bool]:
    """Give the site the directive, and the page that has it its style and script."""
    app.add_node(first_screen, html=(visit_first_screen, None))
    app.add_directive("first-screen", FirstScreen)
    load_where(app, 'class="front-steps"', "front.css", "front.js")
    return {"parallel_read_safe": True, "parallel_write_safe": True}


# What is read.


class Scene(NamedTuple):
    """A step as it is drawn: the cell's code and outputs, and the tensors there by then."""

    step: Step
    title: str  # of the chapter
    times: str  # what its times are
    code: str
    printed: str  # as text; of a timeline, its payload
    tensors: dict[str, Tensor]
    new: tuple[str, ...]  # the names of those that the cell prints
    original: str  # what the cell copies, or empty


def scenes(book: Book, picture: tuple[Step, ...] = PICTURE) -> list[Scene]:
    """Every step with what its cell printed. Raises BookError, naming the cell, if one is gone."""
    found, tensors = [], {}
    for step in picture:
        cell, times = _cell(book, step)
        printed = _printed(step, cell)
        new = _tensors(step, cell.source, printed)
        original = _original(step, cell.source, new, tensors)
        tensors = tensors | new
        title = book.chapters[step.chapter].title
        shown = cell.source, printed, tensors, tuple(new), original
        found.append(Scene(step, title, times, *shown))
    return found


def _where(step: Step) -> str:
    return f"the front page shows the cell '{step.cell}' of notebooks/{step.chapter}.ipynb"


CHOOSE = "choose another in PICTURE, tools/site/front.py"


def _cell(book: Book, step: Step) -> tuple[NotebookNode, str]:
    """The cell of a step as it was recorded, and what its times are."""
    chapter = book.chapters.get(step.chapter)
    if chapter is None or step.cell not in {cell.id for cell in chapter.code_cells}:
        raise BookError(f"{_where(step)}, which is gone; {CHOOSE}")
    recording = book.recording(RUNNER, step.chapter)
    if recording is None or step.cell not in recording.cells:
        raise BookError(
            f"{_where(step)}, which is not recorded on the runner '{RUNNER}' as it is now; "
            f"make record RUNNER={RUNNER} CHAPTERS={step.chapter}"
        )
    return recording.cells[step.cell], recording.times


def _printed(step: Step, cell: NotebookNode) -> str:
    """What the cell printed, as text, or the payload of its timeline."""
    kind = MIME if step.way == "timeline" else "text/plain"
    texts = [
        output.text if output.output_type == "stream" else output.get("data", {}).get(kind, "")
        for output in cell.outputs
    ]
    printed = next((text for text in texts if text), "") if kind == MIME else "".join(texts)
    if not printed:
        what = "no timeline" if kind == MIME else "nothing"
        raise BookError(f"{_where(step)}, which printed {what}; {CHOOSE}")
    if step.way == "refused":
        if "same device" not in printed:
            raise BookError(f"{_where(step)}, in which no sum was refused; {CHOOSE}")
        # A message that a cell ends in is printed as Python writes a text.
        printed = re.sub(r"^(['\"])(.*)\1$", r"\2", printed.strip())
    return printed


def _tensors(step: Step, code: str, printed: str) -> dict[str, Tensor]:
    """The tensors that a cell printed, by their names in its last line."""
    if step.way in ("refused", "timeline"):
        return {}
    last = ast.parse(code).body[-1]
    shown = last.value if isinstance(last, ast.Expr) else None
    names = [ast.unparse(each) for each in getattr(shown, "elts", [shown]) if each]
    found = [
        Tensor([row.split(", ") for row in re.findall(r"\[([^\[\]]*)\]", rows)], int(gpu))
        for rows, gpu in PRINTED.findall(re.sub(r"\s+", " ", printed))
    ]
    if not names or len(found) != len(names) or any(gpu >= GPUS for _, gpu in found):
        asked = ", ".join(names) or "a tensor"
        raise BookError(f"{_where(step)}, which did not print {asked} on a GPU; {CHOOSE}")
    return dict(zip(names, found, strict=True))


def _original(step: Step, code: str, new: dict[str, Tensor], there: dict[str, Tensor]) -> str:
    """Of a step that copies: the name of the tensor, on another GPU, that its cell copies."""
    if step.way != "copied":
        return ""
    for line in ast.parse(code).body:
        match line:
            case ast.Assign(
                targets=[ast.Name(id=copy)],
                value=ast.Call(func=ast.Attribute(value=ast.Name(id=original), attr="to")),
            ) if copy in new and original in there:
                one, other = new[copy], there[original]
                if one.rows == other.rows and one.gpu != other.gpu:
                    return original
    raise BookError(f"{_where(step)}, in which no tensor was copied to another GPU; {CHOOSE}")


# What is drawn.


def visit_first_screen(writer: "HTML5Translator", node: first_screen) -> None:
    """Write where to begin, and every step."""

    def link(document: str) -> str:
        return writer.builder.get_relative_uri(writer.builder.current_docname, document)

    writer.body.append(
        '<p class="front-start">'
        f'<a class="front-go" href="{escape(link(node["chapter"]))}">Start reading</a> '
        f'<a href="{escape(node["colab"])}">Open in Colab</a></p>\n'
    )
    total = len(node["scenes"])
    items = []
    for number, scene in enumerate(node["scenes"], start=1):
        code = writer.highlighter.highlight_block(scene.code, "ipython3")
        code = re.sub(r"^<div[^>]*><pre>(<span></span>)?|</pre></div>\s*$", "", code)
        items.append(_step(number, total, scene, code, link(f"notebooks/{scene.step.chapter}")))
    writer.body.append(
        '<div class="front-steps" role="group" aria-label="What this book shows, in steps">\n'
        f"{_controls(node['scenes'])}<ol>\n{''.join(items)}</ol>\n</div>\n"
    )
    raise nodes.SkipNode


def _controls(shown: list[Scene]) -> str:
    """The buttons, which are seen where the script runs."""
    numbers = "".join(
        f'<button type="button" data-step="{i}" aria-label="{i + 1}: {escape(scene.step.title)}">'
        f"{i + 1}</button>"
        for i, scene in enumerate(shown)
    )
    return (
        '<div class="front-controls">'
        f'<button type="button" data-by="-1">Back</button>{numbers}'
        '<button type="button" data-by="1" class="front-next">Next</button>'
        '<p class="front-status" role="status"></p></div>\n'
    )


def _step(number: int, total: int, scene: Scene, code: str, chapter: str) -> str:
    step = scene.step
    if step.way == "timeline":
        shown = f'<div class="front-scene front-time">{timeline_html(scene.printed)}</div>\n'
        source = f", {scene.times}"
    else:
        shown = (
            f'<div class="front-scene">\n<div class="front-host">'
            f'<p class="front-place">Host, where Python runs</p>\n'
            f'<pre class="highlight">{code}</pre>\n'
            f'<pre class="front-out {step.way}">{escape(scene.printed.strip())}</pre></div>\n'
            f"{_gpus(scene)}</div>\n"
        )
        source = ""
    return (
        f'<li class="front-step" data-title="{escape(step.title)}">\n'
        f'<p class="front-title"><b>{number}</b> {escape(step.title)}</p>\n'
        f'<p class="front-said">{escape(step.said)}</p>\n{shown}'
        f'<p class="front-from">Cell <code>{escape(step.cell)}</code> of '
        f'<a href="{escape(chapter)}">{escape(scene.title)}</a>, '
        f"as two simulated GPUs ran it{escape(source)}</p>\n</li>\n"
    )


def _gpus(scene: Scene) -> str:
    """The GPUs with their tensors, and what passes between them."""
    step = scene.step
    sign = {"copied": "copy", "refused": "refused"}.get(step.way, "")
    boxes, told = [], []
    for gpu in range(GPUS):
        here = {name: each for name, each in scene.tensors.items() if each.gpu == gpu}
        told.append(f"GPU {gpu} holds {', '.join(here) or 'nothing'}.")
        drawn = "".join(
            _tensor(name, each, step.way if name in scene.new else "")
            for name, each in here.items()
        )
        boxes.append(
            f'<div class="front-gpu gpu{gpu}"><p class="front-place">GPU {gpu}</p>\n{drawn}</div>\n'
        )
    bus = f'<div class="front-bus {sign}"><span>{sign}</span></div>\n'
    if step.way == "refused":
        told.append("Their sum is refused.")
    if scene.original:
        told.append(f"{', '.join(scene.new)} is a copy of {scene.original}.")
    label = escape(" ".join(told))
    return f'<div class="front-gpus" role="img" aria-label="{label}">\n{bus.join(boxes)}</div>\n'


def _tensor(name: str, tensor: Tensor, way: str) -> str:
    """A tensor as a grid of its numbers. `way` is how it came in this step, or empty."""
    rows = "".join(
        "<span>" + "".join(f"<i>{escape(number)}</i>" for number in row) + "</span>"
        for row in tensor.rows
    )
    grid = f'<span class="front-grid">{rows}</span>'
    return f'<div class="front-tensor {way}"><b>{escape(name)}</b>{grid}</div>\n'
