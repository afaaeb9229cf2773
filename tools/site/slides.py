"""Lecture slides: the page of each chapter, cut into slides, in one file that needs no network.

A slide is some text with the cell below it, one more cell, a prediction, the cell that
answers it, a question, or an exercise. Left out are the setup, all that is folded, and of
exercises the checks and solutions. `book/slides/deck.js` steps through the slides, and sets
smaller what does not fit.
"""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bs4 import BeautifulSoup, NavigableString, Tag

from tools.book.book import Book
from tools.book.chapters import Chapter
from tools.book.grammar import EXERCISE_PART
from tools.files import read_text, write_text
from tools.site.folds_and_covers import COVERED
from tools.site.parts import render

# Of the site's style sheets, those of the slides.
STYLES = (
    "pygments",
    "fonts/fonts",
    "book",
    "tabs",
    "questions",
    "predictions",
    "timeline",
)
# What a page shows and no slide does.
NOT_SHOWN = (
    ".frameworks, .frameworks-fault, .framework-name, .machinery,"
    " section:has(> .deeper), .tag_hide-input, .solution, .wrong:not(.choice),"
    " .headerlink, .switches, .moved, form, .symptom-list,"
    " .timeline-tools, .timeline-said, .timeline > details"
)
EXERCISE = re.compile(r"\d+\. ")
# What a slide begins with that asks something.
ASKS = re.compile(rf"Check yourself|{EXERCISE.pattern}")
SENTENCE = re.compile(r"[.?!]\s")
FONT = re.compile(r"url\(\.\./fonts/([\w-]+\.woff2)\)")
# Classes of what is the last on its slide.
LAST = {"cell", "prediction", "choice"}
SHORT = 80  # letters of a paragraph that are shown, at least
LONG = 600  # letters of a slide's text, at most
LINES_OF_CODE = 19  # that a slide shows at once, by deck.css


class Slide(NamedTuple):
    head: str
    body: str
    kind: str  # "title", "section" for the first slide of one, or ""


def write_decks(book: Book, site: Path, folder: Path) -> Path:
    """Write the deck of each chapter of `site` and an index of them; return the index."""
    sources = book.root / "book" / "slides"
    assets = {
        "css": deck_styles(site) + read_text(sources / "deck.css", book.root),
        "js": read_text(sources / "deck.js", book.root),
        "tabs_js": (site / "_static" / "tabs.js").read_text(encoding="utf-8"),
    }
    for path in folder.glob("*.html"):  # some may be of chapters that are gone
        path.unlink()
    for name, chapter in book.pages.items():
        slides = [*slides_of(chapter, site)]
        deck = render("deck.html", **assets, chapter=chapter, slides=slides)
        write_text(folder / f"{name}.html", deck, book.root)

    index = folder / "index.html"
    chapters = book.pages.values()
    write_text(index, render("index.html", **assets, chapters=chapters), book.root)
    return index


def slides_of(chapter: Chapter, site: Path) -> Iterator[Slide]:
    path = site / "notebooks" / f"{chapter.name}.html"
    html = BeautifulSoup(path.read_bytes(), "html.parser")
    article = html.select_one("article.bd-article")
    keep_framework(article, chapter.framework)
    for cover in article.select("details.covered"):
        narrow_cover(cover)
    drop_unshown(article, chapter)
    embed_images(article, path.parent)
    let_code_scroll(article)
    for section in article.select("section"):
        yield from section_slides(section)


# What of a page is shown.


def keep_framework(article: Tag, framework: str) -> None:
    """Keep the blocks of one framework, without the frame of each."""
    for tag in article.select(f".framework:not(.{framework})"):
        tag.decompose()
    for block in article.select("div.framework"):
        block.unwrap()


def narrow_cover(cover: Tag) -> None:
    """Move a cover into the cell that it answers, and take out of it what follows the answer.

    On a page it reaches to the next heading, but on a slide that would leave no step.
    """
    chosen = cover.find_previous_sibling("p", class_="chosen")
    cell = chosen.find_previous_sibling("div", class_="cell")
    outputs = cover.find("div", class_=COVERED, recursive=False)
    answer = outputs.find_next_sibling(True)
    if answer is not None and "answer" not in answer["class"]:
        answer = None
    for tag in reversed((answer or outputs).find_next_siblings(True)):
        cover.insert_after(tag.extract())

    outputs.unwrap()
    cell.extend([chosen.extract(), cover.extract()])


def let_code_scroll(article: Tag) -> None:
    """Let the keyboard reach code that is longer than its box, which then scrolls."""
    for code in article.select(".cell_input pre"):
        if code.text.count("\n") > LINES_OF_CODE:
            code["tabindex"] = "0"


def drop_unshown(article: Tag, chapter: Chapter) -> None:
    cells = article.select("div.cell")
    for tag, cell in zip(cells, chapter.code_cells, strict=True):
        part = EXERCISE_PART.fullmatch(cell.id)
        if part and part[1] == "holds":
            tag.decompose()

    machinery = article.select_one("details.machinery")
    introduction = machinery.find_next_siblings(is_no_section)
    for tag in [*introduction, *article.select(NOT_SHOWN)]:
        tag.decompose()
    # No script of a deck draws what <noscript> stands for, and beside a deck there is no
    # other page to link to.
    for tag in article.select("noscript, a:not([href^=http])"):
        tag.unwrap()


def is_no_section(tag: Tag) -> bool:
    return tag.name != "section"


def embed_images(article: Tag, folder: Path) -> None:
    for image in article.select("img"):
        path = folder / image["src"]
        kind = "svg+xml" if path.suffix == ".svg" else path.suffix[1:]
        image["src"] = f"data:image/{kind};base64,{encoded(path)}"


# Cutting.


def section_slides(section: Tag) -> Iterator[Slide]:
    heading, *tags = section.find_all(is_no_section, recursive=False)
    kind = "title" if heading.name == "h1" else "section"
    is_puzzle = bool(EXERCISE.match(heading.text))
    for group in cut(tags, is_puzzle) or [[]]:
        asks = bool(group) and ASKS.match(group[0].text)
        if kind != "title" and not is_puzzle and not asks:
            for tag in group:
                shorten(tag)
        yield Slide(heading.decode_contents(), "\n".join(map(str, group)), kind)
        kind = ""


def cut(tags: list[Tag], whole: bool) -> list[list[Tag]]:
    """Group what stands on one slide: all of an exercise, else some text and a cell.

    `whole` is True if the tags are those of an exercise.
    """
    groups: list[list[Tag]] = []
    for tag in tags:
        if tag.name == "p" and ASKS.match(tag.text):
            whole = bool(EXERCISE.match(tag.text))
            begins = True
        elif groups:
            begins = not whole and is_full(groups[-1], tag)
        else:
            begins = True
        if begins:
            groups.append([])
        groups[-1].append(tag)
    return groups


def is_full(group: list[Tag], tag: Tag) -> bool:
    """Return whether a slide that holds `group` has no room for `tag`."""
    last_classes = group[-1].get("class", [])
    classes = tag.get("class", [])
    if "choice" in classes:
        return False
    if is_figure(group[0]):
        is_caption = tag.name == "p" and tag.em is tag.contents[0]
        return len(group) > 1 or not is_caption
    if LAST.intersection(last_classes):
        return True
    if "cell" in classes:
        return False
    if "prediction" in classes or is_figure(tag):
        return True
    letters = sum(len(member.text) for member in group)
    return letters + len(tag.text) > LONG


def is_figure(tag: Tag) -> bool:
    return tag.name == "p" and tag.find("svg", class_="figure") is not None


def shorten(paragraph: Tag) -> None:
    """Leave what follows its first sentences to the speaker, who sees it with the key N."""
    if paragraph.name != "p":
        return
    letters = 0
    for node in paragraph.contents:
        if isinstance(node, NavigableString):
            for sentence in SENTENCE.finditer(node):
                if letters + sentence.end() >= SHORT:
                    hide_rest(node, sentence.end())
                    return
        letters += len(node.text)


def hide_rest(node: NavigableString, end: int) -> None:
    """Wrap what follows the letter `end` of a text, and all of its later siblings."""
    more = Tag(name="span", attrs={"class": "more"})
    more.extend([node[end:], *node.next_siblings])
    node.replace_with(node[:end], more)


# Files within the deck.


def deck_styles(site: Path) -> str:
    """Return the site's style sheets that slides need, with their fonts in them."""
    static = site / "_static"

    def embed_font(match: re.Match) -> str:
        font = encoded(static / "fonts" / match[1])
        return f"url(data:font/woff2;base64,{font})"

    sheets = []
    for name in STYLES:
        sheets.append((static / f"{name}.css").read_text(encoding="utf-8"))
    return FONT.sub(embed_font, "\n".join(sheets))


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
