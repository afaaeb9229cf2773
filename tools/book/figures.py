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


def embed_figures(chapters: Iterable[Chapter], root: Path) -> list[str]:
    """Draw every figure of the chapters that is not drawn, or out of date; returns their paths."""

    def embedded(match: re.Match, where: str) -> str:
        svg, current = _drawing(match, where, root)
        drawing = read_text(root / "img" / svg, root)
        return match[0] if current else picture(match["alt"], svg, drawing)

    pairs = [(chapter, deepcopy(chapter)) for chapter in chapters]
    for _, chapter in pairs:
        for cell in chapter.notebook.cells:
            cell.source = FIGURE.sub(
                partial(embedded, where=chapter.where), cell.source
            )
    return write_changed(pairs, root)


def link_figures(text: str, where: str, root: Path) -> str:
    """Text of a chapter with the figures in `img/` for its pictures, if they are current."""

    def linked(match: re.Match) -> str:
        svg, current = _drawing(match, where, root)
        if not current:
            raise BookError(
                f"{where}: it does not carry img/{svg} as it is now; draw it by {DRAW}"
            )
        return f"![{match['alt']}](../img/{svg})"

    return FIGURE.sub(linked, text)


def named_figures(text: str) -> str:
    """Text of a chapter with the names of the figures in `img/` for its pictures."""

    def named(match: re.Match) -> str:
        return f"![{match['alt']}](../img/{match['svg'] or about(match['png']).get('Source')})"

    return FIGURE.sub(named, text)


def _drawing(match: re.Match, where: str, root: Path) -> tuple[str, bool]:
    png = about(match["png"]) if match["png"] else {}
    svg = match["svg"] or png.get("Source")
    nameless = f"{where}: the figure '{match['alt']}' names no drawing in img/"
    if svg is None:
        raise BookError(
            f"{nameless}; write ![...](../img/name.svg) in its place, then {DRAW}"
        )
    if not (root / "img" / svg).is_file():
        raise BookError(
            f"{nameless}: 'git restore img/{svg}', or take the figure out of the chapter"
        )
    return svg, png.get("Version") == version(read_text(root / "img" / svg, root))


def picture(alt: str, svg: str, drawing: str, fonts: Iterable[Path] = ()) -> str:
    """A figure as a chapter carries it: drawn, in DejaVu and in `fonts` for what that lacks."""
    encoded = base64.b64encode(draw(svg, drawing, fonts)).decode()
    return f"![{alt}](data:image/png;base64,{encoded})"


def draw(svg: str, drawing: str, fonts: Iterable[Path] = ()) -> bytes:
    """A PNG of the drawing `svg`, 1400 pixels wide, with the version it was drawn from."""
    import resvg_py  # here, as the site needs it not

    files = [str(face) for face in faces(fonts)]
    family = dict.fromkeys(("font_family", "sans_serif_family"), "DejaVu Sans")
    options = {"width": 1400, "skip_system_fonts": True, "font_files": files, **family}
    try:
        png = resvg_py.svg_to_bytes(svg_string=drawing, **options)
    except ValueError as error:
        raise BookError(
            f"img/{svg}: cannot be drawn ({error}); correct it there"
        ) from None
    says, small = PngInfo(), io.BytesIO()
    says.add_text("Source", svg)
    says.add_text("Version", version(drawing))
    drawn = Image.open(io.BytesIO(bytes(png))).quantize(
        64, method=Image.Quantize.FASTOCTREE
    )
    drawn.save(small, "PNG", optimize=True, pnginfo=says)
    return small.getvalue()


def faces(fonts: Iterable[Path] = ()) -> list[Path]:
    """The fonts that figures are lettered in."""
    import matplotlib  # here, as the site needs it not

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return [folder / "DejaVuSans.ttf", folder / "DejaVuSans-Bold.ttf", *fonts]


def version(drawing: str) -> str:
    return hashlib.sha256(drawing.encode()).hexdigest()[:16]


def about(encoded: str) -> dict[str, str]:
    """What a PNG, in base64, says of itself: its `Source` in img/, and the `Version` of that."""
    try:
        with Image.open(io.BytesIO(base64.b64decode(encoded))) as picture:
            return getattr(picture, "text", {})
    except (ValueError, UnidentifiedImageError):  # not base64, or not a picture
        return {}
