"""What only some pages have: HTML of this book's own, and the styles and scripts for it."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective
from sphinx.writers.html5 import HTML5Translator

from tools.site.templates import render


class part(nodes.General, nodes.Element):
    """A part of a page: its `html`, its children, its `end`. It is not searched, unlike raw."""


def setup(app: Sphinx) -> None:
    app.add_node(part, html=(partial(write, "html"), partial(write, "end")))


def write(name: str, writer: HTML5Translator, node: part) -> None:
    writer.body.append(node[name])


def framed(template: str, *children: nodes.Node, **context: Any) -> part:
    """A template, filled in, with `children`, taken from the page, where it says `{{ inside }}`."""
    for child in children:
        if child.parent is not None:
            child.parent.remove(child)
    html, end = render(template, inside="\0", **context).split("\0")
    return part("", *children, html=html, end=f"{end}\n")


def add_part(app: Sphinx, name: str, draw: Callable[[BuildEnvironment], str]) -> None:
    """Let the directive `name` put the HTML that `draw` returns into a page."""

    class Part(SphinxDirective):
        def run(self) -> list[nodes.Node]:
            return [part("", html=draw(self.env), end="")]

    app.add_directive(name, Part)


def load_where(app: Sphinx, sign: str, *files: str, defer: bool = False) -> None:
    """Let each page in whose body `sign`, an expression, stands load `files` of `book/static`.
    Scripts may `defer`, unless they change what is seen first, which would jump."""
    waits = {"loading_method": "defer"} if defer else {}

    def add(
        app: Sphinx, page: str, template: str, context: dict[str, Any], _: Any
    ) -> None:
        for name in files if re.search(sign, context.get("body", "")) else ():
            if name.endswith(".css"):
                app.add_css_file(name)
            else:
                app.add_js_file(name, **waits)

    app.connect("html-page-context", add)
