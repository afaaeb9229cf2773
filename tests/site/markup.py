"""What may be wrong with a page as text: its head, pictures, links and characters."""

import functools
import re
import unicodedata
from urllib.parse import unquote

from bs4 import BeautifulSoup, NavigableString
from fontTools.ttLib import TTFont
from helpers import ROOT


def read_html(text):
    return BeautifulSoup(text, "html.parser")


def page_of(site, name):
    return read_html((site / name).read_text(encoding="utf-8"))


# What a page tells of itself, and of its pictures.

HEAD_PARTS = (
    "title",
    "meta[name=description]",
    "meta[name=viewport]",
    "link[rel~=icon]",
)
FILE_NAME = re.compile(r".*\.(svg|png|jpe?g)")


def head_faults(page):
    """Return the parts of the head that are missing, empty or there twice."""
    faults = []
    for part in HEAD_PARTS:
        tags = page.select(f"head > {part}")
        if len(tags) != 1 or not content_of(tags[0]):
            faults.append(part)
    return faults


def content_of(tag):
    return tag.get("content") or tag.get("href") or tag.get_text(strip=True)


def image_faults(page):
    """Return the images that nothing describes, or that have no size before they come."""
    faults = []
    for image in page("img"):
        description = image.get("alt", "").strip()
        if not description or FILE_NAME.fullmatch(description):
            faults.append(f"no description: {image}")
        if not image.get("width") or not image.get("height"):
            faults.append(f"no size: {image}")
    return faults


# No page asks another host, and every link of the site leads somewhere.

OTHER_HOST = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)
ADDRESS = re.compile(r"(?:https?:)?//[a-z0-9-]+\.[a-z]", re.IGNORECASE)
STYLE_URL = re.compile(r"(?:url\(|@import)\s*[\"']?\s*([^\"');]+)", re.IGNORECASE)
# The attributes that a browser loads by itself. Those of <a> wait for a click.
LOADED = ("src", "srcset", "href", "xlink:href", "poster", "data")
NOT_LOADED = (["canonical"], ["alternate"])


def other_hosts(page):
    """Return the addresses of other hosts that a page or a drawing would load."""
    in_scripts = []
    loaded = []
    for tag in page.find_all(True):
        if tag.name == "script":
            in_scripts += ADDRESS.findall(tag.get_text())
        if tag.name == "style":
            loaded += STYLE_URL.findall(tag.get_text())
        loaded += STYLE_URL.findall(tag.get("style", ""))
        if tag.name != "a" and tag.get("rel") not in NOT_LOADED:
            loaded += [tag.get(name, "") for name in LOADED]
    return in_scripts + [url for url in loaded if OTHER_HOST.match(url)]


@functools.cache
def anchors(path):
    return set(re.findall(r'\sid="([^"]*)"', path.read_text(encoding="utf-8")))


def dead_links(page, path):
    """Return the links of the page in `path` whose file, or place in it, is not there."""
    dead = []
    for link in page.select("a[href], link[href]"):
        file, _, anchor = unquote(link["href"]).partition("#")
        if re.match(r"[a-z]+:", file):
            continue  # to another host
        if not file and "_" in anchor:
            continue  # a case that the page's own script opens

        target = path
        if file:
            target = (path.parent / file.partition("?")[0]).resolve()
        if not target.is_file():
            dead.append(link["href"])
        elif anchor and target.suffix == ".html" and anchor not in anchors(target):
            dead.append(link["href"])
    return dead


# Every character is in the site's own fonts.

FONTS = ROOT / "book" / "static" / "fonts"


@functools.cache
def drawn_characters(kind):
    """Return the characters in all faces of a kind: "text" is upright and italic."""
    faces = {}
    for path in FONTS.glob(f"{kind}*.woff2"):
        face = re.sub("-(latin|latin-ext|vietnamese|symbols)$", "", path.stem)
        characters = map(chr, TTFont(path).getBestCmap())
        faces.setdefault(face, set()).update(characters)
    return set.intersection(*faces.values())


def in_sight(page):
    """Return the page without what is not shown, and without Chinese.

    For Chinese, a reader's system has letters.
    """
    for hidden in page.find_all(["style", "script"]):
        hidden.decompose()
    for chinese in page.select("[lang^=zh]"):
        chinese.decompose()
    return page


def characters_of(page):
    """Return the characters in sight on a page, by the kind of font that draws them."""
    shown = {"code": set(), "text": set()}
    for box in page("input"):
        shown["text"].update(box.get("placeholder", ""))
    for text in page.find_all(string=True):
        # A comment, for one, is of another type.
        if type(text) is not NavigableString or text.parent.name in ("title", "desc"):
            continue
        is_code = text.find_parent(["pre", "code", "kbd", "samp"]) is not None
        shown["code" if is_code else "text"].update(text)
    return shown


def undrawn_characters(page):
    """Return the characters in sight on a page that no font of the site draws."""
    undrawn = []
    for kind, characters in characters_of(page).items():
        for character in sorted(characters - drawn_characters(kind)):
            if character.isprintable():
                name = unicodedata.name(character, hex(ord(character)))
                undrawn.append(f"{kind}: {character} ({name})")
    return undrawn
