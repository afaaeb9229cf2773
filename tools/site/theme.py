"""What the site's theme leaves undone.

What templates can correct lies in `book/templates/`, what a style sheet can in
`book/static/book.css`. The theme's fonts of icons are replaced by those in
`book/static/vendor/`, which hold the icons that the pages show and no others.
"""

import hashlib
import re
from pathlib import Path

from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

from tools.site.speech import tr
from tools.site.templates import render

WORD = re.compile(r"[\w-]+")
RULE = re.compile(
    r"([^{}]+)\{[^{}]*\}"
)  # of a style sheet: selectors and what holds of them
CLASS = re.compile(
    r"\.(?!bs-)(-?[a-zA-Z_][\w-]*)"
)  # Bootstrap makes names that begin so
BESIDE = re.compile(r"/\*.*?\*/|:not\([^)]*\)", re.S)  # no class in these must be there
# Code has a span for each name, sign and word; what has no colour and does not break needs none.
PLAIN = re.compile(
    r'<span></span>|<span class="(?:n|nn|o|p|w|pre(?=">[^|?/<-]*<))">([^<]*)</span>'
)
# A number with the sign of a time and with its unit, or with a unit alone.
TIME = re.compile(
    r"≈ \d[\d.,]*(?: (?=[a-zµGKMT%]))?|\b\d[\d.,]* (?=(?:[nµm]?s|[KMGT]i?B)\b)"
)
WIDE_MARK = re.compile(
    r"([\u3002\uff01-\uff1f](?:</[a-z]+>)*) "
)  # Chinese: its space is within
HEADING = "Link to this heading"  # which Sphinx says in few languages
SHEET = re.compile(r'\s*<link[^>]* href="((?:\.\./)*_static/)([^"?]+\.css)[^>]*>')
IMPORT = re.compile(r'@import "../basic.css";|@charset "UTF-8";')
BESIDE_SHEET = re.compile(
    r"(?<=url\()(?=[\w-]+\.\w+\))"
)  # a file that lies where its sheet does
SCROLLS = re.compile(
    r"e\.tabIndex=e\.scrollWidth[^}]*"
)  # lays out a part that is not drawn yet


def setup(app: Sphinx) -> None:
    app.add_node(HideCodeCellNode, override=True, html=(visit_hidden, depart_hidden))
    app.add_js_file("scripts/pydata-sphinx-theme.js", loading_method="defer")
    app.add_js_file("contents.js", loading_method="defer")
    app.connect("html-page-context", set_text)
    app.connect(
        "build-finished", lighten, priority=900
    )  # when the theme has drawn its colours


def visit_hidden(writer: HTML5Translator, node: HideCodeCellNode) -> None:
    """Open a folded cell; its label is the text in sight, which MyST-NB labels otherwise."""
    given = {"show": node["prompt_show"], "hide": tr("Hide the code")}
    writer.body.append(
        render("hidden.html", **given, classes=" ".join(node["classes"])) + "\n"
    )


def depart_hidden(writer: HTML5Translator, node: HideCodeCellNode) -> None:
    writer.body.append("</details>\n")


def set_text(app: Sphinx, page: str, template: str, context: dict, *_: object) -> None:
    """Keep a time on one line, code to few parts, and no space after a Chinese mark; drop a second
    word on the viewport."""
    context["metatags"] = re.sub(
        r'<meta name="viewport"[^>]*>', "", context.get("metatags", "")
    )
    for part in ("body", "toc"):
        text = TIME.sub(
            lambda t: t[0].replace(" ", "\N{NO-BREAK SPACE}"), context.get(part, "")
        )
        text = WIDE_MARK.sub(r"\1", PLAIN.sub(r"\1", text))
        context[part] = text.replace(HEADING, tr("Link to this heading"))


def lighten(app: Sphinx, exception: Exception | None) -> None:
    """Take from the theme the styles of what no page has, and a long step when a page opens; join
    the style sheets that are left."""
    if exception or app.builder.format != "html":
        return
    site = Path(app.outdir)
    script = site / "_static" / "scripts" / "pydata-sphinx-theme.js"
    script.write_text(
        SCROLLS.sub(r"setTimeout(()=>\g<0>)", script.read_text("utf-8")), "utf-8"
    )
    pages = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    texts = [
        *pages.values(),
        *(file.read_text(encoding="utf-8") for file in site.rglob("*.js")),
    ]
    named = {word for text in texts for word in WORD.findall(text)}

    def kept(rule: re.Match) -> str:
        selectors = BESIDE.sub("", rule[1]).split(",")
        return (
            rule[0]
            if any(named.issuperset(CLASS.findall(each)) for each in selectors)
            else ""
        )

    theirs = "_static/styles/*.css", "_static/mystnb.*", "_static/basic.css"
    for sheet in [sheet for name in theirs for sheet in site.glob(name)]:
        sheet.write_text(
            RULE.sub(kept, sheet.read_text(encoding="utf-8")), encoding="utf-8"
        )
    join_sheets(site, pages)


def join_sheets(site: Path, pages: dict[Path, str]) -> None:
    """Let pages ask for one style sheet in place of those that they share, in the same order. What
    these name lies beside `_static/styles/`, where the one is, or in `_static/` itself."""
    linked = [
        *filter(
            None, ([name for _, name in SHEET.findall(pages[page])] for page in pages)
        )
    ]
    shared = [name for name in linked[0] if all(name in names for names in linked)]
    parts = (
        site / "_static" / name for name in ["basic.css", *shared]
    )  # the first imports it
    texts = (IMPORT.sub("", part.read_text(encoding="utf-8")) for part in parts)
    joined = BESIDE_SHEET.sub("../", "\n".join(texts))
    version = hashlib.sha256(joined.encode()).hexdigest()[:8]
    (site / "_static" / "styles" / "site.css").write_text(joined, encoding="utf-8")

    def link(found: re.Match) -> str:
        if found[2] == shared[0]:
            return f'\n<link rel="stylesheet" href="{found[1]}styles/site.css?v={version}">'
        return "" if found[2] in shared else found[0]

    for page, text in pages.items():
        page.write_text(SHEET.sub(link, text), encoding="utf-8")
