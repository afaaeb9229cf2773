"""Every page as text, without a browser: outputs, tabs, links, words for pictures, characters."""

import base64
import functools
import hashlib
import os
import re
import unicodedata
from pathlib import Path
from urllib.parse import unquote

import pytest
from bs4 import BeautifulSoup, Tag
from fontTools.ttLib import TTFont
from helpers import ROOT
from making import RECORDED
from markdown_it import MarkdownIt

from tools.book.book import Book
from tools.book.grammar import TIMELINE
from tools.book.repository import notebook_links
from tools.languages.language import read_languages
from tools.site.page import VERSIONS
from tools.site.timeline import timeline_html

BOOK = Book(ROOT)
PAGES = sorted(f"{name}.html" for name in (*BOOK.documents, "search"))
FOLDERS = ("", *(f"{language}/" for language in read_languages(ROOT)))


def read_html(text):
    return BeautifulSoup(text, "html.parser")


def page_of(site, name):
    return read_html((site / name).read_text(encoding="utf-8"))


# What a page says of itself, and of its pictures.

HEAD = ("title", "meta[name=description]", "meta[name=viewport]", "link[rel~=icon]")


def head_faults(page):
    """What a page does not say of itself, or says twice."""
    found = {part: page.select(f"head > {part}") for part in HEAD}

    def said(tag):
        return tag.get("content") or tag.get("href") or tag.get_text(strip=True)

    return [part for part, tags in found.items() if len(tags) != 1 or not said(tags[0])]


def image_faults(page):
    return [
        f"words or size: {image}"
        for image in page("img")
        if re.fullmatch(r"\s*|.*\.(svg|png|jpe?g)", image.get("alt", ""))
        or not (image.get("width") and image.get("height"))
    ]


# Nothing asks another host, and every link of the site leads somewhere.

OUTSIDE = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)
ADDRESS = re.compile(r"(?:https?:)?//[a-z0-9-]+\.[a-z]", re.IGNORECASE)
STYLE = re.compile(r"(?:url\(|@import)\s*[\"']?\s*([^\"');]+)", re.IGNORECASE)
ASKED = re.compile(r"url\(([\w./-]+\.(?:png|svg|woff2))\)")  # files of our own
LOADING = (
    "src",
    "srcset",
    "href",
    "xlink:href",
    "poster",
    "data",
)  # but of <a>, a click's


def outside(page):
    """The addresses of other hosts that a page, or a drawing, would ask when it is shown."""
    found, asked = [], []
    for tag in page.find_all(True):
        if tag.name != "a" and tag.get("rel") not in (["canonical"], ["alternate"]):
            asked += [tag.get(name, "") for name in LOADING]
        asked += STYLE.findall(tag.get("style", ""))
        if tag.name == "style":
            asked += STYLE.findall(tag.get_text())
        if tag.name == "script":
            found += ADDRESS.findall(tag.get_text())
    return found + [address for address in asked if OUTSIDE.match(address)]


@functools.cache
def ids(path):
    return set(re.findall(r'\sid="([^"]*)"', path.read_text(encoding="utf-8")))


def dead_ends(page, path):
    found = []
    for link in page.select("a[href], link[href]"):
        file, _, place = unquote(link["href"]).partition("#")
        if re.match(r"[a-z]+:", file) or (not file and "_" in place):
            continue  # another host's, or a case that the page's own script opens
        target = (path.parent / file.partition("?")[0]).resolve() if file else path
        in_page = place and target.suffix == ".html"
        if not target.is_file() or (in_page and place not in ids(target)):
            found.append(link["href"])
    return found


# Every character is in the site's own fonts.


@functools.cache
def drawn(kind):
    """The characters that all faces of a kind draw: "text" has two, upright and italic."""
    faces = {}
    for path in (ROOT / "book" / "static" / "fonts").glob(f"{kind}*.woff2"):
        face = re.sub("-(latin|latin-ext|vietnamese|symbols)$", "", path.stem)
        faces.setdefault(face, set()).update(map(chr, TTFont(path).getBestCmap()))
    return set.intersection(*faces.values())


def undrawn(page):
    """The characters in sight on a page that no font of the site draws."""
    code = {
        id(text) for tag in page(["pre", "code", "kbd", "samp"]) for text in tag.strings
    }
    shown = {
        "code": set(),
        "text": {*"".join(box.get("placeholder", "") for box in page("input"))},
    }
    for text in page.find_all(string=True):
        if type(text).__name__ == "NavigableString" and text.parent.name not in (
            "title",
            "desc",
        ):
            shown["code" if id(text) in code else "text"].update(text)
    return [
        f"{kind}: {sign} ({unicodedata.name(sign, hex(ord(sign)))})"
        for kind, signs in shown.items()
        for sign in sorted(signs - drawn(kind))
        if sign.isprintable()
    ]


# Outputs by runner.


def own(cell, selector):
    """What is of a cell itself, and not of one in the same cover."""
    return [
        tag for tag in cell.select(selector) if tag.find_parent(class_="cell") is cell
    ]


def cells_of(page, name):
    """The code cells of a chapter, each with its part of the page."""
    chapter = BOOK.chapters[name]
    block = (
        f".framework.{chapter.framework} "
        if len(BOOK.chapters_on(chapter.page)) > 1
        else ""
    )
    return zip(chapter.code_cells, page.select(f"{block}div.cell"), strict=True)


def tab_faults(page, name):
    """Tabs without their panel, and panels that are empty or do not say whose times they show."""
    faults, chapter = [], BOOK.chapters[name]
    fewest = min(2, len(runners_of(name)))
    recordings = {made.machine: made for made in BOOK.recordings_of(chapter.name)}
    for cell, part in cells_of(page, name):
        for tabs in own(part, "div.runner-outputs"):
            buttons, panels = tabs.select("[role=tab]"), tabs.select("[role=tabpanel]")
            if len(buttons) < fewest or len(buttons) != len(panels):
                faults.append(f"{cell.id}: {len(buttons)} tabs, {len(panels)} panels")
            for tab, panel in zip(buttons, panels, strict=False):
                label, *shown = panel.find_all(recursive=False)
                times = recordings[panel["data-runner"]].times
                expected = [f"Times {times}."] * (
                    "times" in cell.metadata.get("tags", [])
                )
                said = [
                    box.get_text()
                    for box in shown
                    if box.get("class") == ["runner-times"]
                ]
                if label.get_text() != tab.get_text() or not tab.get("title"):
                    faults.append(f"{tab}: another name or no facts")
                if said != expected or len(shown) == len(said):
                    faults.append(f"{tab}: nothing, or not '{expected}'")
    return faults


SHOWN = (TIMELINE, "text/html", "image/svg+xml", "image/png")
SHOWN += ("text/markdown", "text/latex", "text/plain")


def squeezed(text):
    """The text without white space, which pages set as they like, and without colours."""
    return "".join(re.sub(r"\x1b\[[0-9;]*m", "", text).split())


def missing_outputs(page, name, runner):
    printed = BOOK.recording(runner, name).cells
    return [
        (cell.id, what)
        for cell, part in cells_of(page, name)
        if cell.id in printed  # on a card it may not be, yet
        for what in missing_in_cell(
            printed[cell.id], part, BOOK.recording(runner, name).machine
        )
    ]


def missing_in_cell(cell, part, runner):
    """The outputs of a recorded cell that its part of the page does not show for this machine."""
    if own(part, "div.runner-output"):
        [part] = own(part, f"div.runner-output[data-runner='{runner}']") or [None]
    box = (part and part.select_one("div.cell_output")) or Tag(name="div")
    pictures, text = (
        {Path(img["src"]).stem for img in box("img")},
        squeezed(box.get_text()),
    )
    for output in (
        each for each in cell.outputs if VERSIONS not in each.get("data", {})
    ):
        kind, content = shown_content(output)
        if kind.startswith("image/"):
            found = file_stem(kind, content) in pictures
        elif kind == "text/latex":
            found = box.select("svg[role=img]")
        else:
            found = squeezed(content) in text
        if not found:
            yield content


def file_stem(kind, content):
    svg = kind == "image/svg+xml"
    data = (
        os.linesep.join(content.splitlines()).encode()
        if svg
        else base64.b64decode(content)
    )
    return hashlib.sha256(data).hexdigest()


def shown_content(output):
    if output.output_type == "stream":
        return "stream", output.text
    if output.output_type == "error":
        return "error", f"{output.ename}: {output.evalue}"
    kind = next(kind for kind in SHOWN if kind in output.data)
    text = output.data[kind]
    if kind == TIMELINE:
        kind, text = "text/html", timeline_html(text)
    if kind == "text/markdown":
        kind, text = "text/html", MarkdownIt().enable("table").render(text)
    return kind, in_sight(read_html(text)).get_text() if kind == "text/html" else text


def in_sight(page):
    for hidden in [*page.find_all(["style", "script"]), *page.select("[lang^=zh]")]:
        hidden.decompose()  # for Chinese the reader's system has letters
    return page


def runners_of(name):
    return [runner for runner, recorded in RECORDED if recorded == name]


# Each page once.


def test_these_are_all_pages(site):
    built = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    every = {f"{folder}{name}" for folder in FOLDERS for name in (*PAGES, "index.html")}
    assert built == every  # of which the last only leads to another page


@pytest.mark.parametrize("name", PAGES)
def test_a_page_as_text_has_no_fault(site, name):
    page, chapter = page_of(site, name), Path(name).stem
    found = {
        "head": head_faults(page),
        "images": image_faults(page),
        "other hosts": outside(page),
    }
    found["links"] = dead_ends(page, site / name)
    found["characters"] = undrawn(in_sight(page))
    for one in BOOK.chapters_on(chapter):
        found[one.name] = tab_faults(page, one.name)
        found |= {
            runner: missing_outputs(page, one.name, runner)
            for runner in runners_of(one.name)
        }
    assert {check: faults for check, faults in found.items() if faults} == {}


def test_no_two_pages_say_the_same_of_themselves(site):
    for words in (r"<title>.*?</title>", r'<meta name="description".*?>'):
        said = [
            re.findall(words, (site / name).read_text("utf-8"), re.DOTALL)
            for name in PAGES
        ]
        assert len({*map(tuple, said)}) == len(said)


def test_the_front_page_leads_to_every_chapter_and_once_to_colab(site):
    page = page_of(site, f"{BOOK.documents[0]}.html")
    links = {link["href"].partition("#")[0] for link in page.select("article a[href]")}
    assert {f"../notebooks/{name}.html" for name in BOOK.pages} - links == set()
    first = next(iter(BOOK.chapters))
    assert page.select_one(".front-go")["href"] == f"../notebooks/{first}.html"
    doors = [link["href"] for link in page.select(".doors a, .front-start a")]
    assert (
        doors.count(notebook_links(f"notebooks/{first}.ipynb", BOOK.repository)[0].url)
        == 1
    )


@pytest.mark.filterwarnings("ignore::bs4.XMLParsedAsHTMLWarning")
def test_no_drawing_or_style_sheet_asks_another_host_or_writes_what_is_not_drawn(site):
    sheets = {
        path: f"<style>{path.read_text('utf-8')}</style>"
        for path in site.rglob("*.css")
    }
    drawings = {path: path.read_text("utf-8") for path in site.rglob("*.svg")}
    assert sheets and drawings
    found = {
        path.name: outside(read_html(text))
        for path, text in (sheets | drawings).items()
    }
    assert {name: hosts for name, hosts in found.items() if hosts} == {}
    files = [
        path.parent / url
        for path, text in sheets.items()
        for url in ASKED.findall(text)
    ]
    assert files and [file for file in files if not file.is_file()] == []
    # The fonts of a page do not reach into an image.
    images = [path for path in drawings if path.parent.name == "_images"]
    assert [path.name for path in images if "<text" in drawings[path]] == []
    own = (ROOT / "book" / "static").rglob("*.css")
    written = "".join(sheet.read_text(encoding="utf-8") for sheet in own)
    assert set("".join(re.findall(r"content:\s*\"([^\"]+)\"", written))) <= drawn(
        "text"
    )


def test_a_card_has_its_tab_with_the_facts_on_hover(tiny_site):
    tabs = page_of(tiny_site, "notebooks/second.html").select("div.runner-outputs")[-1]
    *_, card = tabs.select("[role=tab]")
    assert (card.get_text(), card["data-runner"]) == ("NVIDIA H100", "h100")
    assert all(
        fact in card["title"] for fact in ("a processor", "2026-01-31", "driver 550.1")
    )
    assert (
        tabs.select("[role=tabpanel]")[-1].get_text().strip().endswith("on a real card")
    )
