"""Lecture slides: the page of each chapter, cut into slides, in one file that needs no network.

A slide is some text with the cell below it, one more cell, a prediction, the cell that answers
it, a question, or an exercise. Left out are the set-up, all that is folded, and of exercises the
checks and solutions. `book/slides/deck.js` steps through them, and sets smaller what does not fit.
"""

import base64
import re
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from bs4 import BeautifulSoup, NavigableString, Tag

from tools.book.book import Book
from tools.book.chapters import Chapter
from tools.book.grammar import EXERCISE_PART
from tools.files import read_beside, read_text, write_text
from tools.site.templates import render

PARTS = itemgetter("styles", "of_frameworks", "not_shown")
STYLES, OF_FRAMEWORKS, NOT_SHOWN = PARTS(read_beside(__file__, "slides.yml"))
EXERCISE = re.compile(r"\d+\. ")
ASKS = re.compile(rf"Check yourself|{EXERCISE.pattern}")
ENDS = {"cell", "prediction", "choice"}
SENTENCE = re.compile(r"[.?!]\s")
SHORT, LONG = (
    80,
    600,
)  # letters of a paragraph that are shown at least; of a slide's text, at most


class Slide(NamedTuple):
    head: str
    body: str
    kind: str


def write_decks(book: Book, site: Path, folder: Path) -> Path:
    """Write the deck of each chapter of `site` and an index of them, which is returned."""
    parts = book.root / "book" / "slides"
    css, js = (read_text(parts / name, book.root) for name in ("deck.css", "deck.js"))
    tabs = (site / "_static" / "tabs.js").read_text(encoding="utf-8")
    given = {"css": _styles(site) + css, "js": js, "tabs_js": tabs}
    for path in folder.glob("*.html"):  # some may be of chapters that are gone
        path.unlink()
    for name, chapter in book.pages.items():
        deck = render(
            "deck.html", **given, chapter=chapter, slides=[*slides_of(chapter, site)]
        )
        write_text(folder / f"{name}.html", deck, book.root)
    index = render("index.html", **given, chapters=book.pages.values())
    write_text(folder / "index.html", index, book.root)
    return folder / "index.html"


def slides_of(chapter: Chapter, site: Path) -> Iterator[Slide]:
    path = site / "notebooks" / f"{chapter.name}.html"
    page = BeautifulSoup(path.read_bytes(), "html.parser").select_one(
        "article.bd-article"
    )
    for other in page.select(f".framework:not(.{chapter.framework}), {OF_FRAMEWORKS}"):
        other.decompose()
    for block in page.select("div.framework"):
        block.unwrap()
    for drawn, cell in zip(page.select("div.cell"), chapter.code_cells, strict=True):
        if (part := EXERCISE_PART.fullmatch(cell.id)) and part[1] == "holds":
            drawn.decompose()
    head = page.select_one("details.machinery")
    others = head.find_next_siblings(lambda tag: tag.name != "section")
    for tag in [*others, *page.select(NOT_SHOWN)]:
        tag.decompose()
    # No script of a deck draws what stands without one, and beside a deck there is no other page.
    for tag in page.select("noscript, a:not([href^=http])"):
        tag.unwrap()
    for image in page.select("img"):
        kind = (
            "svg+xml"
            if image["src"].endswith(".svg")
            else Path(image["src"]).suffix[1:]
        )
        image["src"] = (
            f"data:image/{kind};base64,{_encoded(path.parent / image['src'])}"
        )
    for section in page.select("section"):
        heading, *rest = section.find_all(
            lambda tag: tag.name != "section", recursive=False
        )
        head, kind = (
            heading.decode_contents(),
            "title" if heading.name == "h1" else "section",
        )
        puzzle = bool(EXERCISE.match(heading.text))
        for group in _groups(rest, puzzle) or [[]]:
            if (
                kind != "title"
                and not puzzle
                and not ASKS.match(group[0].text if group else "")
            ):
                for tag in group:
                    _shorten(tag)
            yield Slide(head, "\n".join(map(str, group)), kind)
            kind = ""


def _groups(tags: list[Tag], whole: bool) -> list[list[Tag]]:
    """What stands on one slide: all of an exercise, else at most some text and a cell."""
    groups = []
    for tag in tags:
        asks = tag.name == "p" and ASKS.match(tag.text)
        if not groups or asks or (not whole and _ends(groups[-1], tag)):
            groups.append([])
        groups[-1].append(tag)
        whole = bool(EXERCISE.match(tag.text)) if asks else whole
    return groups


def _ends(group: list[Tag], tag: Tag) -> bool:
    """Whether a slide that holds a group has no room for tag."""
    before, now = ({*one.get("class", [])} for one in (group[-1], tag))
    if "choice" in now:
        return False
    if _is_figure(group[0]):
        is_caption = tag.name == "p" and tag.em is tag.contents[0]
        return len(group) > 1 or not is_caption
    if "cell" in now:
        return bool(before & ENDS)
    letters = sum(len(member.text) for member in [*group, tag])
    return (
        bool(before & ENDS or now & {"prediction"} or _is_figure(tag)) or letters > LONG
    )


def _is_figure(tag: Tag) -> bool:
    return tag.name == "p" and tag.find("svg", class_="figure") is not None


def _shorten(paragraph: Tag) -> None:
    """Leave what follows its first sentences to the speaker, who sees it with the key N."""
    letters = 0
    for node in paragraph.contents if paragraph.name == "p" else []:
        ends = SENTENCE.finditer(node) if isinstance(node, NavigableString) else ()
        for end in (each.end() for each in ends):
            if letters + end >= SHORT:
                more = Tag(name="span", attrs={"class": "more"})
                more.extend([node[end:], *node.next_siblings])
                node.replace_with(node[:end], more)
                return
        letters += len(node.text)


def _styles(site: Path) -> str:
    files = (site / "_static" / f"{name}.css" for name in STYLES)
    css = "\n".join(file.read_text(encoding="utf-8") for file in files)

    def embedded(found: re.Match) -> str:
        return f"url(data:font/woff2;base64,{_encoded(site / '_static' / 'fonts' / found[1])})"

    return re.sub(r"url\(\.\./fonts/([\w-]+\.woff2)\)", embedded, css)


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
