"""What the site's theme leaves undone.

What templates can correct is in `book/templates/`, what a style sheet can in
`book/static/book.css`. The theme's icon fonts are replaced by those in
`book/static/vendor/`, which hold the icons that pages show and no others.
"""

import re
from html import unescape
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.writers.html5 import HTML5Translator

from tools.errors import BookError
from tools.site.languages import tr
from tools.site.parts import render

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
CODE = re.compile(r'(?<=<div class="highlight"><pre>).*?(?=</pre>)', re.DOTALL)
TAG = re.compile(r"<[^>]*>")
# A line of this many letters fits on a telephone.
NARROW_LINE = 36
VIEWPORT = re.compile(r'<meta name="viewport"[^>]*>')
HEADING_LINK = "Link to this heading"

# The style sheets of the theme and of what it builds on, below the folder of the site.
THEIR_SHEETS = ("_static/styles/*.css", "_static/mystnb.*.css", "_static/basic.css")
# A rule of a style sheet. Its group is the list of its selectors.
RULE = re.compile(r"([^{}]+)\{[^{}]*\}")
# Comments, and what a selector excludes: no class in them has to be on a page.
NO_SELECTOR = re.compile(r"/\*.*?\*/|:not\([^)]*\)", re.DOTALL)
# Bootstrap's scripts make names that begin with `bs-`.
CLASS = re.compile(r"\.(?!bs-)(-?[a-zA-Z_][\w-]*)")
WORD = re.compile(r"[\w-]+")


def setup(app: Sphinx) -> None:
    app.add_node(HideCodeCellNode, override=True, html=(visit_hidden, depart_hidden))
    app.add_js_file("scripts/pydata-sphinx-theme.js", loading_method="defer")
    app.connect("config-inited", set_options)
    app.connect("html-page-context", correct_page)
    # Late, so that the theme has written its colours into its sheets.
    app.connect("build-finished", prune_sheets, priority=900)


def set_options(app: Sphinx, config: Config) -> None:
    """Leave out what the theme has and this book does not want."""
    options = config.html_theme_options
    options["back_to_top_button"] = False  # it would lie on the text
    options["primary_sidebar_end"] = []  # a place for advertisements


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
    """Correct the HTML of a page, of its contents and of its head."""
    # Sphinx's layout has a viewport tag of its own.
    context["metatags"] = VIEWPORT.sub("", context.get("metatags", ""))
    for part in ("body", "toc"):
        context[part] = correct_text(context.get(part, ""))


def correct_text(html: str) -> str:
    """Return the HTML with what readers would stumble over set right.

    A time stays on one line, code consists of few elements and keeps its indentation where
    its lines are broken, and no space follows a Chinese mark.
    """
    html = TIME.sub(lambda time: time[0].replace(" ", "\N{NO-BREAK SPACE}"), html)
    html = PLAIN_SPAN.sub(r"\1", html)
    html = CODE.sub(lambda code: hang_long_lines(code[0]), html)
    html = SPACE_AFTER_MARK.sub(r"\1", html)
    # Sphinx says it in few languages.
    return html.replace(HEADING_LINK, tr("Link to this heading"))


def hang_long_lines(code: str) -> str:
    """Return code whose long lines say how far they are indented.

    A style sheet cannot know it: on a narrow screen it lets what is broken off a line begin
    to the right of where the line begins.
    """
    lines = code.split("\n")
    for place, line in enumerate(lines):
        text = unescape(TAG.sub("", line))
        # What begins on this line and ends on another cannot have a span around it.
        is_whole = line.count("<span") == line.count("</span>")
        if len(text) > NARROW_LINE and is_whole:
            indent = len(text) - len(text.lstrip(" "))
            lines[place] = f'<span class="hang" style="--indent:{indent}">{line}</span>'
    return "\n".join(lines)


def prune_sheets(app: Sphinx, exception: Exception | None) -> None:
    """Take rules for classes that no page and no script names out of the theme's sheets.

    Without this the heaviest chapters weigh more than 200 KiB with all that they ask for.
    Raises BookError if it takes nothing away, because the theme has changed then.
    """
    if exception or app.builder.format != "html":
        return
    site = Path(app.outdir)
    words = words_of(site)
    for pattern in THEIR_SHEETS:
        letters_saved = 0
        for sheet in site.glob(pattern):
            letters_saved += prune_sheet(sheet, words)
        if letters_saved == 0:
            fault = f"{pattern}: no rule of the theme's style sheets is left out"
            raise BookError(f"{fault}; correct THEIR_SHEETS in tools/site/theme.py")


def words_of(site: Path) -> set[str]:
    """Return all words of the pages and scripts, which may be names of classes."""
    words = set()
    for pattern in ("*.html", "*.js"):
        for path in site.rglob(pattern):
            words.update(WORD.findall(path.read_text(encoding="utf-8")))
    return words


def prune_sheet(sheet: Path, words: set[str]) -> int:
    """Take out the rules whose classes are not among `words`; return the letters saved."""

    def prune_rule(rule: re.Match) -> str:
        selectors = NO_SELECTOR.sub("", rule[1]).split(",")
        for selector in selectors:
            if words.issuperset(CLASS.findall(selector)):
                return rule[0]
        return ""

    text = sheet.read_text(encoding="utf-8")
    pruned = RULE.sub(prune_rule, text)
    sheet.write_text(pruned, encoding="utf-8")
    return len(text) - len(pruned)
