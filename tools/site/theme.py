"""What the site's theme leaves undone.

What templates can correct is in `book/templates/`, what a style sheet can in
`book/static/book.css`. The theme's icon fonts are replaced by those in
`book/static/vendor/`, which hold the icons that pages show and no others.
"""

import re
from typing import Any

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

from tools.site.parts import render
from tools.site.speech import tr

# Code has a span for each name, sign and word. One without a colour, in which no line
# breaks, is not needed.
PLAIN_SPAN = re.compile(
    r'<span></span>|<span class="(?:n|nn|o|p|w|pre(?=">[^|?/<-]*<))">([^<]*)</span>'
)
# A number with the sign of a time and with its unit, or with a unit alone.
TIME = re.compile(
    r"≈ \d[\d.,]*(?: (?=[a-zµGKMT%]))?|\b\d[\d.,]* (?=(?:[nµm]?s|[KMGT]i?B)\b)"
)
# A space after a Chinese mark, which has room of its own.
SPACE_AFTER_MARK = re.compile(r"([\u3002\uff01-\uff1f](?:</[a-z]+>)*) ")
VIEWPORT = re.compile(r'<meta name="viewport"[^>]*>')
HEADING_LINK = "Link to this heading"


def setup(app: Sphinx) -> None:
    app.add_node(HideCodeCellNode, override=True, html=(visit_hidden, depart_hidden))
    app.add_js_file("scripts/pydata-sphinx-theme.js", loading_method="defer")
    app.add_js_file("contents.js", loading_method="defer")
    app.connect("html-page-context", correct_page)


def visit_hidden(writer: HTML5Translator, node: HideCodeCellNode) -> None:
    """Begin a folded cell. The text in sight is its label, which MyST-NB has twice."""
    classes = " ".join(node["classes"])
    hide = tr("Hide the code")
    html = render("hidden.html", show=node["prompt_show"], hide=hide, classes=classes)
    writer.body.append(f"{html}\n")


def depart_hidden(writer: HTML5Translator, node: HideCodeCellNode) -> None:
    writer.body.append("</details>\n")


def correct_page(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    # The theme's layout has a viewport tag of its own.
    context["metatags"] = VIEWPORT.sub("", context.get("metatags", ""))
    for part in ("body", "toc"):
        context[part] = correct_text(context.get(part, ""))


def correct_text(html: str) -> str:
    """Keep a time on one line, code to few elements, and no space after a Chinese mark."""
    html = TIME.sub(lambda time: time[0].replace(" ", "\N{NO-BREAK SPACE}"), html)
    html = PLAIN_SPAN.sub(r"\1", html)
    html = SPACE_AFTER_MARK.sub(r"\1", html)
    # Sphinx says it in few languages.
    return html.replace(HEADING_LINK, tr("Link to this heading"))
