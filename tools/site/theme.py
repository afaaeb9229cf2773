"""What the site's theme leaves undone: labels, and fonts of few icons.

What templates can correct lies in `book/templates/`, what a style sheet can in
`book/static/book.css`. Only the icons are cut from files already written, for only those
tell which icons the pages show.
"""

import re
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from fontTools import subset
from fontTools.ttLib import TTFont
from markupsafe import escape
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.errors import ExtensionError

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

# How the theme's style sheet says which character an icon is: .fa-sun:before{content:"\f185"}
ICON_RULE = re.compile(r'((?:\.fa-[\w-]+:before,?)+)\{content:"([^"]+)"\}')
ICON_NAME = re.compile(r"\bfa-[a-z0-9-]+")
# The characters that fonts of icons use, as themselves or as CSS writes them.
ICON_CHARACTER = re.compile(r"[\ue000-\uf8ff]|\\[ef][0-9a-f]{3}(?![0-9a-f])")
# What a page must hold to need these files, which extensions give to every page.
NEEDED = {
    "copybutton.css": '<div class="highlight',
    "copybutton.js": '<div class="highlight',
    "clipboard.min.js": '<div class="highlight',
    "mystnb.": 'class="cell ',
}
TRUETYPE = re.compile(r',url\([^)]*\.ttf\) format\("truetype"\)')  # for browsers of 2014


def setup(app: "Sphinx") -> dict[str, bool]:
    """Connect the extension to Sphinx; to be set up after the extensions it corrects."""
    app.add_node(HideCodeCellNode, override=True, html=(visit_hidden, depart_hidden))
    app.connect("html-page-context", drop_viewport)
    app.connect("html-page-context", drop_unneeded)
    app.connect("build-finished", lighten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def visit_hidden(writer: "HTML5Translator", node: HideCodeCellNode) -> None:
    """Open a folded cell; its label is the text in sight, which MyST-NB labels otherwise."""
    show, hide = escape(node["prompt_show"]), escape(node["prompt_hide"])
    writer.body.append(
        f'<details class="admonition hide {" ".join(node["classes"])}">\n<summary>'
        f'<p class="collapsed admonition-title">{show}</p>'
        f'<p class="expanded admonition-title">{hide}</p></summary>\n'
    )


def depart_hidden(writer: "HTML5Translator", node: HideCodeCellNode) -> None:
    """Close a folded cell."""
    writer.body.append("</details>\n")


def drop_viewport(app: "Sphinx", page: str, template: str, context: dict, *_: object) -> None:
    """Take out the viewport tag that docutils writes; Sphinx's template has the same."""
    context["metatags"] = re.sub(r'<meta name="viewport"[^>]*>', "", context.get("metatags", ""))


def drop_unneeded(app: "Sphinx", page: str, template: str, context: dict, *_: object) -> None:
    """Take out the styles and scripts for code from a page that holds none."""
    body = context.get("body", "")
    for kind in ("css_files", "script_files"):
        files = context.get(kind, [])
        files[:] = [  # in place: Sphinx adds to this list what a later extension asks for
            file
            for file in files
            if all(
                sign in body or not Path(str(file.filename)).name.startswith(name)
                for name, sign in NEEDED.items()
            )
        ]


def lighten(app: "Sphinx", exception: Exception | None) -> None:
    """Keep, of the icons, those that the pages show."""
    if exception is None and app.builder.format == "html":
        keep_used_icons(Path(app.outdir))


def keep_used_icons(site: Path) -> None:
    """Cut the icons that no page shows from the fonts and style sheets of `site`.

    A page shows the icons that it, a script it loads or a style sheet names. Raises
    ExtensionError if one of these is in no style sheet or in no font.
    """
    used, sheets = icon_names(site), {path: read(path) for path in site.rglob("*.css")}
    unknown = used - set(ICON_NAME.findall(" ".join(sheets.values())))
    if unknown:
        raise ExtensionError(f"icons that the theme does not have: {', '.join(sorted(unknown))}")
    characters = set()
    for path, text in sheets.items():
        slim = ICON_RULE.sub(
            lambda rule: rule[0] if used & set(ICON_NAME.findall(rule[1])) else "", text
        )
        slim = TRUETYPE.sub("", slim)
        path.write_text(slim, encoding="utf-8")
        characters |= {
            int(found[-4:], 16) if found[0] == "\\" else ord(found)
            for found in ICON_CHARACTER.findall(slim)
        }
    missing = characters.copy()
    for path in site.rglob("webfonts/*.woff2"):
        missing -= cut_font(path, characters)
        path.with_suffix(".ttf").unlink(missing_ok=True)
    if missing:
        codes = ", ".join(f"{code:x}" for code in sorted(missing))
        raise ExtensionError(f"icons that no font of the theme has: {codes}")


def icon_names(site: Path) -> set[str]:
    """The icons that the pages of `site`, and the scripts they load, name."""
    names, scripts = set(), set()
    for page in set(site.rglob("*.html")) - set(site.rglob("_static/**/*.html")):
        text = read(page)
        for classes in re.findall(r'class="([^"]*)"', text):
            names.update(ICON_NAME.findall(classes))
        sources = re.findall(r'<script[^>]* src="([^"?:]*)["?]', text)
        scripts.update((page.parent / source).resolve() for source in sources)
    for script in scripts:
        names.update(ICON_NAME.findall(read(script)))
    return names


def cut_font(path: Path, characters: set[int]) -> set[int]:
    """Cut the font in `path` to the `characters` it has of those given, which it returns."""
    options = subset.Options(flavor="woff2", layout_features=[], notdef_outline=True)
    font = TTFont(BytesIO(path.read_bytes()), recalcTimestamp=False)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=characters)
    cutter.subset(font)
    subset.save_font(font, path, options)
    return characters & set(font.getBestCmap())


def read(path: Path) -> str:
    """The text of a file of the site."""
    return path.read_text(encoding="utf-8")
