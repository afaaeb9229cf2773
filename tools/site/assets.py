"""What only some pages have: HTML of this book's own, and the styles and scripts for it."""

from collections.abc import Callable
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective
from sphinx.writers.html5 import HTML5Translator

from tools.errors import BookError


class part(nodes.General, nodes.Element):
    """A part of a page, as its `html` says; unlike a raw node, none of it is searched."""


def setup(app: Sphinx) -> None:
    app.add_node(part, html=(visit_part, None))


def visit_part(writer: HTML5Translator, node: part) -> None:
    writer.body.append(node["html"])
    raise nodes.SkipNode


def add_part(app: Sphinx, name: str, draw: Callable[[BuildEnvironment], str]) -> None:
    """Let the directive `name` put the HTML that `draw` returns into a page.

    A BookError ends the build in one line.
    """

    class Part(SphinxDirective):
        def run(self) -> list[nodes.Node]:
            try:
                return [part("", html=draw(self.env))]
            except BookError as error:
                raise ExtensionError(str(error)) from None

    app.setup_extension("tools.site.assets")
    app.add_directive(name, Part)


def load_where(app: Sphinx, sign: str, *files: str, defer: bool = False) -> None:
    """Let each page in whose body `sign` stands load `files` of `book/static`.

    A script that changes what is seen first must not wait: what is drawn before it would jump.
    The others may `defer`.
    """
    waits = {"loading_method": "defer"} if defer else {}

    def add(app: Sphinx, page: str, template: str, context: dict[str, Any], _: Any) -> None:
        if sign in context.get("body", ""):
            for name in files:
                if name.endswith(".css"):
                    app.add_css_file(name)
                else:
                    app.add_js_file(name, **waits)

    app.connect("html-page-context", add)
