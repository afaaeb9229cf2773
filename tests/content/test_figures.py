"""Figures are sound SVG, described in words, and carried by the chapters in their last version."""

import re
from xml.etree import ElementTree

import pytest
from helpers import CHAPTERS, ROOT, assert_one_line, cell, edit, read, refused, run_tool

from tools.book.book import Book
from tools.book.figures import FIGURE, embed_figures, link_figures, png_facts

SVG = "{http://www.w3.org/2000/svg}"
SOUND = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 40">
<title>A box</title><desc>One box, empty.</desc><rect width="80" height="30"/></svg>"""
# Scripts, links that lead away, and styles that depend on where the drawing is shown.
ALIEN = re.compile(r"<script|\son\w+=|href=['\"](?!#)|@media|@import|url\((?!['\"]?#)")
# The book's logo and its like say nothing in a text: the theme gives them their words.
SIGNS = set(re.findall(r"img/(\S+\.svg)", (ROOT / "_config.yml").read_text()))
PATHS = {path.name: path for path in (ROOT / "img").glob("*.svg")}
DRAWINGS = PATHS.keys() - SIGNS
SHOWN = "![One box that nothing has been put into yet](../img/box.svg)"


def svg_faults(text):
    """Return what keeps a drawing from being shown anywhere and read by anyone."""
    root = ElementTree.fromstring(text)
    missing = []
    for name in ("title", "desc"):
        words = root.findtext(SVG + name) or ""
        if not words.strip():
            missing.append(name)
    if "viewBox" not in root.attrib:
        missing.append("viewBox")
    return missing + ALIEN.findall(text)


@pytest.mark.parametrize(
    "alien", ["<script>", "<rect onclick=''/>", "<a href='b'/>", "@media", "url(b)"]
)
def test_what_leads_out_of_a_drawing_is_found(alien):
    assert svg_faults(SOUND) == []
    assert ALIEN.search(alien)


@pytest.mark.parametrize("name", sorted(DRAWINGS))
def test_a_drawing_is_sound(name):
    assert svg_faults(PATHS[name].read_text(encoding="utf-8")) == []


def all_texts():
    for path in (ROOT / "book").glob("*.md"):
        yield path.read_text(encoding="utf-8")
    for name in CHAPTERS:
        for part in read(ROOT / "notebooks" / f"{name}.ipynb").cells:
            if part.cell_type == "markdown":
                yield part.source


def test_figures_are_described_and_every_drawing_is_shown():
    shown = set()
    for text in all_texts():
        figures = list(FIGURE.finditer(text))
        for figure in figures:
            assert len(figure["alt"].strip()) > 20
            shown.add(figure["svg"] or png_facts(figure["png"])["Source"])
        # A picture that FIGURE does not match would escape all of this.
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
        pictures = re.findall(r"!\[|<img|```{(?:image|figure)}", prose)
        assert len(pictures) == len(figures), text
    assert shown == DRAWINGS


@pytest.fixture
def drawn_book(small_book):
    (small_book / "img").mkdir()
    (small_book / "img" / "box.svg").write_text(SOUND)
    edit(small_book, "first", "title", f"# First\n\n{SHOWN}")
    assert drawn(small_book) == ["notebooks/first.ipynb"]
    return small_book


def drawn(root):
    return embed_figures(Book(root).chapters.values(), root)


def title(root):
    return cell(read(root / "notebooks" / "first.ipynb"), "title").source


def test_a_chapter_carries_a_picture_and_its_page_a_drawing(drawn_book):
    assert "data:image/png;base64," in title(drawn_book)
    assert link_figures(title(drawn_book), "first", drawn_book) == f"# First\n\n{SHOWN}"
    assert drawn(drawn_book) == []
    (drawn_book / "img" / "box.svg").write_text(SOUND + "<!-- touched -->")
    with refused("first: ", "img/box.svg", "figures"):
        link_figures(title(drawn_book), "first", drawn_book)
    assert drawn(drawn_book) == ["notebooks/first.ipynb"]
    assert link_figures(title(drawn_book), "first", drawn_book) == f"# First\n\n{SHOWN}"


def test_a_figure_that_cannot_be_drawn_is_one_line(drawn_book):
    (drawn_book / "img" / "box.svg").write_text("<svg")
    run = run_tool(drawn_book, "figures")
    assert run.returncode == 1
    assert_one_line(run.stderr, "error: img/box.svg: ")


def test_a_picture_that_no_drawing_made_is_one_line(drawn_book):
    edit(drawn_book, "first", "title", "![A dot](data:image/png;base64,AAAA)")
    with refused("notebooks/first.ipynb: ", "A dot"):
        drawn(drawn_book)
