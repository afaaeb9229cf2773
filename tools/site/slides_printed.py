"""What a cell printed, as a slide shows it: of the runner that the lecturer has chosen."""

import base64
import math
import re
from html import escape

from nbformat import NotebookNode

from tools.site.slides_prose import GAP, Block, Prose, joined

LINE, COLUMNS = 31, 82  # pixels of a line of output, and how many characters it holds
MOST = 15  # lines of an output; what is longer is cut
LABEL = 40  # the line that says whose output it is
LEAST = 260  # pixels of a picture
CUT = "[...]"
ZOOM = 1.8  # of a timeline, at most
HEAD, NOTE = 70, 45  # pixels of a timeline, above its lanes and for a line below them
OF_PAGES = re.compile(
    r'<details>.*?</details>|<div class="timeline-tools".*?</div>|<p class="timeline-said".*?</p>'
    r"| The table below has its numbers\.",
    re.S,
)
STYLE = re.compile(r"\x1b\[[0-9;]*m")


def printed(cell: NotebookNode, runs: list[NotebookNode], prose: Prose, room: float) -> Block:
    """What a cell of a page printed: for all runners, or in the cells `runs`, one for each.

    A picture gets what is left of `room` pixels.
    """
    if not runs:
        return _outputs(cell, cell.outputs, prose, room)
    shown, heights, pictures = [], [], []
    for run in runs:
        about = run.metadata.runner
        block = _outputs(cell, run.outputs, prose, room - LABEL)
        times = f" {escape(about['times'])}" if "times" in about else ""
        shown.append(
            f'<div class="ran" data-runner="{escape(about["name"])}">\n'
            f'<p class="runner-name"><b>{escape(about["label"])}</b>{times}</p>\n'
            f"{block.html}\n</div>"
        )
        heights.append(block.height)
        pictures.append(block.alone)
    html = "\n".join(shown)
    return Block(f'<div class="by-runner">\n{html}\n</div>', max(heights) + LABEL, any(pictures))


def has_picture(cell: NotebookNode, runs: list[NotebookNode]) -> bool:
    """True if a cell drew a plot."""
    found = [output.get("data", {}) for each in [cell, *runs] for output in each.outputs]
    return any(kind.startswith("image/") for data in found for kind in data)


def _outputs(cell: NotebookNode, outputs: list[NotebookNode], prose: Prose, room: float) -> Block:
    if not outputs:
        return Block('<p class="nothing">Prints nothing.</p>', LINE + GAP)
    plain = [_plain(output, prose) for output in outputs]
    left = max(LEAST, room - sum(block.height for block in plain if block))
    blocks = [
        block or _picture(output.data, cell.metadata["mystnb"]["image"]["alt"], left)
        for output, block in zip(outputs, plain, strict=True)
    ]
    html, height = joined(block.html for block in blocks), sum(block.height for block in blocks)
    return Block(html, height, any(block.alone for block in blocks))


def _plain(output: NotebookNode, prose: Prose) -> Block | None:
    """An output that is text or a table; None if it is a picture."""
    data = output.get("data", {})
    if "text/markdown" in data:
        blocks = [*prose.blocks(data["text/markdown"], whole=True)]
        return Block(joined(each.html for each in blocks), sum(each.height for each in blocks))
    if "text/html" in data or any(kind.startswith("image/") for kind in data):
        return None
    text = STYLE.sub("", output.get("text") or data.get("text/plain", ""))
    rows, height = [], 0
    for row in text.rstrip("\n").split("\n"):
        height += max(1, math.ceil(len(row) / COLUMNS))
        if height > MOST:
            rows.append(CUT)
            break
        rows.append(row)
    html = f'<pre class="printed">{escape(chr(10).join(rows))}</pre>'
    return Block(html, min(height, MOST + 1) * LINE + GAP)


def _picture(data: dict[str, str], alt: str, room: float) -> Block:
    """A plot or a timeline, as large as fits."""
    if "text/html" in data:
        return Block(_timeline(data["text/html"], room), room, alone=True)
    kind = next(kind for kind in sorted(data, reverse=True) if kind.startswith("image/"))
    content = data[kind]
    if kind == "image/svg+xml":
        content = base64.b64encode(content.encode()).decode()
    source = f"data:{kind};base64,{content.strip()}"
    html = f'<img class="plot" style="height:{room:.0f}px" alt="{escape(alt)}" src="{source}">'
    return Block(html, room, alone=True)


def _timeline(drawn: str, room: float) -> str:
    """A timeline of a page without what only a reader of pages needs: its table, its buttons."""
    high = int(re.search(r'<svg [^>]*height="(\d+)"', drawn)[1]) + HEAD + NOTE * drawn.count("<p>")
    zoom = min(ZOOM, room / high)
    slim = OF_PAGES.sub("", drawn)
    return slim.replace("<figure ", f'<figure style="zoom:{zoom:.2f}" ', 1)
