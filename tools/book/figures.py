"""Figures: drawn by hand as SVG in `img/`, and carried by the chapters as PNG.

Colab shows no SVG in a text cell and no file of the repository, so a chapter that stands
alone carries a picture of each figure. The PNG says which SVG it was drawn from, and from
which version, so that the site can show the SVG itself and a stale copy is found.
"""

import base64
import hashlib
import io
import re
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PIL import Image, UnidentifiedImageError
from PIL.PngImagePlugin import PngInfo

from tools.book.chapters import Chapter
from tools.book.notebooks import write_changed
from tools.errors import BookError
from tools.files import read_text

# ![what the figure shows](../img/name.svg), or the same with the PNG that stands for it
FIGURE = re.compile(
    r"!\[(?P<alt>[^\]]*)\]\((?:\.\./img/(?P<svg>[\w.-]+)|data:image/png;base64,(?P<png>[^)]+))\)"
)
DRAW = "'python -m tools figures'"
DEFAULT_WIDTH = 1400  # pixels of a PNG whose drawing names no width
DRAWING_WIDTH = re.compile(r'<svg [^>]*?\bwidth="(\d+)"')


@dataclass(frozen=True)
class Figure:
    """A figure in the text of a chapter, and the drawing in `img/` that it shows."""

    alt: str
    svg: str  # the drawing's file
    drawing: str  # its text
    drawn_version: str | None  # of the drawing that the chapter carries as PNG

    @property
    def is_current(self) -> bool:
        return self.drawn_version == version(self.drawing)


def embed_figures(chapters: Iterable[Chapter], root: Path) -> list[str]:
    """Draw every figure of the chapters that is not drawn, or out of date.

    Returns the paths of the chapters that it changed.
    """

    def embedded(match: re.Match, where: str) -> str:
        figure = _read_figure(match, where, root)
        if figure.is_current:
            return match[0]
        return picture(figure.alt, figure.svg, figure.drawing)

    pairs = []
    for chapter in chapters:
        changed = deepcopy(chapter)
        for cell in changed.notebook.cells:
            embed = partial(embedded, where=chapter.where)
            cell.source = FIGURE.sub(embed, cell.source)
        pairs.append((chapter, changed))
    return write_changed(pairs, root)


def link_figures(text: str, where: str, root: Path) -> str:
    """Return the text of a chapter with links to `img/` in place of its pictures.

    Raises BookError if a picture is not of the drawing as it is now.
    """

    for match in FIGURE.finditer(text):
        figure = _read_figure(match, where, root)
        if not figure.is_current:
            raise BookError(
                where,
                f"it does not carry img/{figure.svg} as it is now",
                f"draw it by {DRAW}",
            )
    return named_figures(text)


def named_figures(text: str) -> str:
    """Return the text of a chapter with links to `img/`, whether they lead to a file or not."""

    def named(match: re.Match) -> str:
        svg = match["svg"] or png_facts(match["png"]).get("Source")
        return f"![{match['alt']}](../img/{svg})"

    return FIGURE.sub(named, text)


def _read_figure(match: re.Match, where: str, root: Path) -> Figure:
    facts = png_facts(match["png"]) if match["png"] else {}
    svg = match["svg"] or facts.get("Source")
    fault = f"the figure '{match['alt']}' names no drawing in img/"
    if svg is None:
        advice = f"write ![...](../img/name.svg) in its place, then {DRAW}"
        raise BookError(where, fault, advice)
    path = root / "img" / svg
    if not path.is_file():
        advice = f"'git restore img/{svg}', or take the figure out of the chapter"
        raise BookError(where, fault, advice)
    return Figure(match["alt"], svg, read_text(path, root), facts.get("Version"))


def picture(alt: str, svg: str, drawing: str, fonts: Iterable[Path] = ()) -> str:
    """Return a figure as a chapter carries it, drawn with `fonts` for what DejaVu lacks."""
    encoded = base64.b64encode(draw(svg, drawing, fonts)).decode()
    return f"![{alt}](data:image/png;base64,{encoded})"


def draw(svg: str, drawing: str, fonts: Iterable[Path] = ()) -> bytes:
    """Return a PNG of the drawing `svg`, with the version it was drawn from."""
    import resvg_py  # here, as the site does not need it

    # Two pixels for each of the page: sharp on fine screens, and small drawings stay small.
    declared_width = DRAWING_WIDTH.search(drawing)
    width = 2 * int(declared_width[1]) if declared_width else DEFAULT_WIDTH
    try:
        png = resvg_py.svg_to_bytes(
            svg_string=drawing,
            width=width,
            skip_system_fonts=True,
            font_files=[str(font) for font in faces(fonts)],
            font_family="DejaVu Sans",
            sans_serif_family="DejaVu Sans",
        )
    except ValueError as error:
        raise BookError(
            f"img/{svg}", f"cannot be drawn ({error})", "correct it there"
        ) from None

    facts = PngInfo()
    facts.add_text("Source", svg)
    facts.add_text("Version", version(drawing))
    image = Image.open(io.BytesIO(bytes(png)))
    few_colours = image.quantize(64, method=Image.Quantize.FASTOCTREE)
    file = io.BytesIO()
    few_colours.save(file, "PNG", optimize=True, pnginfo=facts)
    return file.getvalue()


def faces(fonts: Iterable[Path] = ()) -> list[Path]:
    """Return the fonts that figures are lettered in."""
    import matplotlib  # here, as the site does not need it

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return [folder / "DejaVuSans.ttf", folder / "DejaVuSans-Bold.ttf", *fonts]


def version(drawing: str) -> str:
    return hashlib.sha256(drawing.encode()).hexdigest()[:16]


def png_facts(encoded: str) -> dict[str, str]:
    """Return what a PNG, in base64, says: its `Source` in img/, and the `Version` of that."""
    try:
        with Image.open(io.BytesIO(base64.b64decode(encoded))) as picture:
            return getattr(picture, "text", {})
    except (ValueError, UnidentifiedImageError):  # not base64, or not a picture
        return {}
