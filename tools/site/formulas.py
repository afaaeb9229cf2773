r"""Formulas, drawn as SVG when the site is built.

Pages so need no script, no font and no network to show mathematics. A formula's TeX is
its text alternative; its colour and size are those of the text around it.
"""

from xml.etree import ElementTree

import ziamath
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)

SIZE = 20  # units of the drawing per em
SCALE = 1.1  # the letters of formulas are small beside those of the text
ziamath.config.precision = 1
ziamath.config.svg2 = False  # with SVG 2, formulas would share ids on a page


def setup(app: Sphinx) -> None:
    app.add_html_math_renderer("drawn", (visit, None), (visit, None))


def visit(writer: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    inline = isinstance(node, nodes.math)
    begin = (
        '<span class="formula">'
        if inline
        else writer.starttag(node, "div", CLASS="formula")
    )
    writer.body += [begin, draw(node, inline), "</span>" if inline else "</div>\n"]
    raise nodes.SkipNode


def draw(node: nodes.Element, inline: bool) -> str:
    """The SVG of a formula. A command that cannot be drawn is a warning."""
    tex = node.astext().strip()
    try:
        formula = ziamath.Latex(tex, size=SIZE, color="currentColor", inline=inline)
        svg = formula.svgxml()
    except Exception as error:  # the parser has many, and some are bare assertions
        logger.warning("formula cannot be drawn: %s (%r)", tex, error, location=node)
        return ""
    if "\\" in formula.mathmlstr():  # unknown commands are passed through as text
        logger.warning(
            "formula has a command that cannot be drawn: %s", tex, location=node
        )
    em = SCALE / SIZE
    width, height = (float(svg.attrib.pop(side)) * em for side in ("width", "height"))
    shift = (formula.getyofst() - formula.margin) * em
    svg.set(
        "style",
        f"width:{width:.3f}em;height:{height:.3f}em;vertical-align:{shift:.3f}em",
    )
    svg.set("role", "img")
    svg.set("aria-label", tex)
    return ElementTree.tostring(svg, encoding="unicode")
