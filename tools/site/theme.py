"""What the site's theme leaves undone.

What templates can correct lies in `book/templates/`, what a style sheet can in
`book/static/book.css`. The theme's fonts of icons are replaced by those in
`book/static/vendor/`, which hold the icons that the pages show and no others.
"""

import re
from pathlib import Path

from fontTools.ttLib import TTFont
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

from tools.site.templates import render

# How the theme's style sheet says which character an icon is: .fa-sun:before{content:"\f185"}
ICON_RULE = re.compile(r'(?:\.fa-[\w-]+:before,?)+\{content:"\\?([^"]+)"\}')
# Code is drawn with a span for each name and sign, which need no colour of their own.
PLAIN = re.compile(r'<span class="(?:n|nn|o|p|w)">([^<]*)</span>')
# A number with the sign of a time and with its unit, or with a unit alone.
TIME = re.compile(r"≈ \d[\d.,]*(?: (?=[a-zµGKMT%]))?|\b\d[\d.,]* (?=(?:[nµm]?s|[KMGT]i?B)\b)")
TRUETYPE = re.compile(r',url\([^)]*\.ttf\) format\("truetype"\)')  # for browsers of 2014


def setup(app: Sphinx) -> None:
    app.add_node(HideCodeCellNode, override=True, html=(visit_hidden, depart_hidden))
    app.connect("html-page-context", set_text)
    app.connect("build-finished", lighten)


def visit_hidden(writer: HTML5Translator, node: HideCodeCellNode) -> None:
    """Open a folded cell; its label is the text in sight, which MyST-NB labels otherwise."""
    given = {"show": node["prompt_show"], "hide": node["prompt_hide"]}
    writer.body.append(render("hidden.html", **given, classes=" ".join(node["classes"])) + "\n")


def depart_hidden(writer: HTML5Translator, node: HideCodeCellNode) -> None:
    writer.body.append("</details>\n")


def set_text(app: Sphinx, page: str, template: str, context: dict, *_: object) -> None:
    """Keep a time on one line, and code to few parts; drop a second word on the viewport."""
    context["metatags"] = re.sub(r'<meta name="viewport"[^>]*>', "", context.get("metatags", ""))
    text = PLAIN.sub(r"\1", context.get("body", ""))
    context["body"] = TIME.sub(lambda time: time[0].replace(" ", "\N{NO-BREAK SPACE}"), text)


def lighten(app: Sphinx, exception: Exception | None) -> None:
    """Take icons that the site's fonts lack, a third of it, out of the theme's style sheet."""
    if exception or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    fonts = [TTFont(path) for path in static.glob("vendor/fontawesome/webfonts/*.woff2")]
    held = {code for font in fonts for code in font.getBestCmap()}
    sheet = static / "styles" / "pydata-sphinx-theme.css"

    def kept(rule: re.Match) -> str:
        icon = rule[1]
        return rule[0] if (int(icon, 16) if len(icon) > 1 else ord(icon)) in held else ""

    slim = ICON_RULE.sub(kept, sheet.read_text(encoding="utf-8"))
    sheet.write_text(TRUETYPE.sub("", slim), encoding="utf-8")
