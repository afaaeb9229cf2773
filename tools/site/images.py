"""Images of pages: drawings with text become part of the page, others get their size.

A page's fonts do not reach into an image, so a drawing would be lettered in whatever font
the reader's system has. Within the page it has the page's fonts.
"""

import re
from pathlib import Path
from xml.etree import ElementTree

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.images import get_image_size
from sphinx.writers.html5 import HTML5Translator

from tools.languages.messages import translate_drawing
from tools.site import speech
from tools.site.assets import load_where

logger = logging.getLogger(__name__)

SVG = "http://www.w3.org/2000/svg"
REFERENCE = re.compile(
    r"(?<=url\(#)|(?<=^#)"
)  # where the id begins in "url(#id)" and "#id"
ElementTree.register_namespace("", SVG)


def setup(app: Sphinx) -> None:
    app.add_node(nodes.image, override=True, html=(visit_image, None))
    load_where(app, '<img|class="figure"', "enlarge.js", defer=True)


def visit_image(writer: HTML5Translator, node: nodes.image) -> None:
    """Write an image with its size, so that text does not move when it comes near and is loaded."""
    uri = node["uri"]
    path = None if "://" in uri else Path(writer.builder.srcdir, uri)
    size = path and get_image_size(path)
    if size is None:
        logger.warning("image whose size cannot be read: %s", uri, location=node)
        type(writer).visit_image(writer, node)
    elif path.suffix == ".svg" and "<text" in (
        drawing := path.read_text(encoding="utf-8")
    ):
        if "<style" in drawing:
            logger.warning(
                "style in a drawing would be the page's: %s", uri, location=node
            )
        number = list(writer.document.findall(nodes.image)).index(node)
        if language := speech.spoken():
            drawing = translate_drawing(drawing, uri, language.say)
        writer.body.append(inline(drawing, node["alt"], size, f"figure{number}-"))
        writer.builder.images.pop(uri, None)  # no page asks for the file
    else:
        type(writer).visit_image(writer, node)
        tag = writer.body.pop()
        sized = f'<img loading="lazy" width="{size[0]}" height="{size[1]}" '
        writer.body.append(tag.replace("<img ", sized, 1))


def inline(drawing: str, alt: str, size: tuple[int, int], prefix: str) -> str:
    """A drawing as part of a page: in the page's font, labelled `alt`, with ids of its own."""
    svg = ElementTree.fromstring(drawing)
    for element in svg.iter():
        element.attrib.pop("font-family", None)
        for name, value in element.items():
            if name == "id":
                element.set(name, prefix + value)
            elif name.endswith("href") or value.startswith("url("):
                element.set(name, REFERENCE.sub(prefix, value))
    svg.attrib |= {"class": "figure", "role": "img", "aria-label": alt}
    svg.attrib |= {"width": str(size[0]), "height": str(size[1])}
    return ElementTree.tostring(svg, encoding="unicode")
