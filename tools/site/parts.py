"""HTML that this book adds to its pages, with the styles and scripts that it needs.

The templates are in `book/templates/`, those of the slides in `book/slides/`.
"""

import json
import re
from collections.abc import Callable
from html import escape
from typing import Any

from docutils import nodes
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective
from sphinx.writers.html5 import HTML5Translator

from tools.files import ROOT
from tools.site.languages import punctuated, tr


def script_json(value: object) -> str:
    """Return `value` as JSON that can stand within a <script> element."""
    return json.dumps(value).replace("<", "\\u003c")


TEMPLATES = Environment(
    loader=FileSystemLoader([ROOT / "book" / "templates", ROOT / "book" / "slides"]),
    undefined=StrictUndefined,
)
TEMPLATES.globals["tr"] = tr
TEMPLATES.filters["e"] = escape
TEMPLATES.filters["punctuated"] = punctuated
TEMPLATES.filters["script"] = script_json

# Where a template leaves room for the nodes that it frames.
INSIDE = "\0"


class Part(nodes.General, nodes.Element):
    """HTML around nodes of a page: its `start`, its children, its `end`.

    Unlike docutils' own raw node it is left out of the search index.
    """


def setup(app: Sphinx) -> None:
    app.add_node(Part, html=(write_start, write_end))


def write_start(writer: HTML5Translator, node: Part) -> None:
    writer.body.append(node["start"])


def write_end(writer: HTML5Translator, node: Part) -> None:
    writer.body.append(node["end"])


def render(template: str, **context: Any) -> str:
    return TEMPLATES.get_template(template).render(context)


def html_part(start: str, end: str = "") -> Part:
    return Part("", start=start, end=end)


def frame(template: str, *children: nodes.Node, **context: Any) -> Part:
    """Fill in a template and move `children` to where it says `{{ inside }}`."""
    for child in children:
        if child.parent is not None:
            child.parent.remove(child)
    start, end = render(template, inside=INSIDE, **context).split(INSIDE)
    return Part("", *children, start=start, end=f"{end}\n")


def add_part(app: Sphinx, name: str, draw: Callable[[BuildEnvironment], str]) -> None:
    """Add a directive that puts the HTML which `draw` returns into a page."""

    class PartDirective(SphinxDirective):
        def run(self) -> list[nodes.Node]:
            return [html_part(draw(self.env))]

    app.add_directive(name, PartDirective)


def load_where(app: Sphinx, sign: str, *files: str, defer: bool = False) -> None:
    """Load `files` of `book/static` on every page whose body matches `sign`.

    Scripts may be deferred, unless they change what is seen first: it would jump.
    """
    options = {"loading_method": "defer"} if defer else {}

    def add_files(
        app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
    ) -> None:
        if not re.search(sign, context.get("body", "")):
            return
        for name in files:
            if name.endswith(".css"):
                app.add_css_file(name)
            else:
                app.add_js_file(name, **options)

    app.connect("html-page-context", add_files)
