"""Drawings on pages: figures, photographs and formulas.

A figure that is lettered becomes part of the page. A page's fonts do not reach into an
image, so it would be lettered in whatever font the reader's system has. Formulas are drawn
as SVG when the site is built: pages need no script, no font and no network for them.
"""

import re
from pathlib import Path
from xml.etree import ElementTree

import ziamath
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.images import get_image_size
from sphinx.writers.html5 import HTML5Translator

from tools.site.languages import spoken
from tools.site.parts import load_where

logger = logging.getLogger(__name__)

SVG = "http://www.w3.org/2000/svg"
# Where the id begins in "url(#id)" and "#id".
REFERENCE = re.compile(r"(?<=url\(#)|(?<=^#)")
ElementTree.register_namespace("", SVG)

FORMULA_SIZE = 20  # units of the drawing per em
FORMULA_SCALE = 1.1  # the letters of formulas are small beside those of the text
ziamath.config.precision = 1
ziamath.config.svg2 = False  # with SVG 2, formulas would share ids on a page


def setup(app: Sphinx) -> None:
    app.add_node(nodes.image, override=True, html=(visit_image, None))
    app.add_html_math_renderer("drawn", (visit_formula, None), (visit_formula, None))
    load_where(app, '<img|class="figure"', "enlarge.js", defer=True)


# Images.


def visit_image(writer: HTML5Translator, node: nodes.image) -> None:
    uri = node["uri"]
    path = Path(writer.builder.srcdir, uri)
    size = None if "://" in uri else get_image_size(path)
    if size is None:
        logger.warning("image whose size cannot be read: %s", uri, location=node)
        type(writer).visit_image(writer, node)
        return

    if path.suffix == ".svg":
        drawing = path.read_text(encoding="utf-8")
        if "<text" in drawing:
            write_drawing(writer, node, drawing, size)
            return
    write_image(writer, node, size)


def write_drawing(
    writer: HTML5Translator, node: nodes.image, drawing: str, size: tuple[int, int]
) -> None:
    uri = node["uri"]
    if "<style" in drawing:
        logger.warning("style in a drawing would be the page's: %s", uri, location=node)
    language = spoken()
    if not language.is_english:
        from tools.languages.messages import translate_drawing

        drawing = translate_drawing(drawing, uri, language.say)
    number = list(writer.document.findall(nodes.image)).index(node)
    writer.body.append(inline(drawing, node["alt"], size, f"figure{number}-"))
    writer.builder.images.pop(uri, None)  # no page asks for the file


def write_image(
    writer: HTML5Translator, node: nodes.image, size: tuple[int, int]
) -> None:
    """Write an image with its size, so that the text does not move when it is loaded."""
    type(writer).visit_image(writer, node)
    tag = writer.body.pop()
    width, height = size
    sized = f'<img loading="lazy" width="{width}" height="{height}" '
    writer.body.append(tag.replace("<img ", sized, 1))


def inline(drawing: str, alt: str, size: tuple[int, int], prefix: str) -> str:
    """Return a drawing as part of a page: in its font, with ids that it has alone."""
    svg = ElementTree.fromstring(drawing)
    for element in svg.iter():
        element.attrib.pop("font-family", None)
        for name, value in element.items():
            if name == "id":
                element.set(name, prefix + value)
            elif name.endswith("href") or value.startswith("url("):
                element.set(name, REFERENCE.sub(prefix, value))

    width, height = size
    svg.set("class", "figure")
    svg.set("role", "img")
    svg.set("aria-label", alt)
    svg.set("width", str(width))
    svg.set("height", str(height))
    return ElementTree.tostring(svg, encoding="unicode")


# Formulas.


def visit_formula(writer: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    if isinstance(node, nodes.math):
        formula = draw_formula(node, inline=True)
        writer.body += ['<span class="formula">', formula, "</span>"]
    else:
        start = writer.starttag(node, "div", CLASS="formula")
        writer.body += [start, draw_formula(node, inline=False), "</div>\n"]
    raise nodes.SkipNode


def draw_formula(node: nodes.Element, inline: bool) -> str:
    """Return the SVG of a formula, as large and of the colour of the text around it.

    Its TeX is its text alternative. A command that cannot be drawn is a warning.
    """
    tex = node.astext().strip()
    try:
        formula = ziamath.Latex(
            tex, size=FORMULA_SIZE, color="currentColor", inline=inline
        )
        svg = formula.svgxml()
    except Exception as error:  # the parser has many, and some are bare assertions
        logger.warning("formula cannot be drawn: %s (%r)", tex, error, location=node)
        return ""
    if "\\" in formula.mathmlstr():  # unknown commands are passed through as text
        fault = "formula has a command that cannot be drawn: %s"
        logger.warning(fault, tex, location=node)

    em = FORMULA_SCALE / FORMULA_SIZE
    width = float(svg.attrib.pop("width")) * em
    height = float(svg.attrib.pop("height")) * em
    shift = (formula.getyofst() - formula.margin) * em
    style = f"width:{width:.3f}em;height:{height:.3f}em;vertical-align:{shift:.3f}em"
    svg.set("style", style)
    svg.set("role", "img")
    svg.set("aria-label", tex)
    return ElementTree.tostring(svg, encoding="unicode")
