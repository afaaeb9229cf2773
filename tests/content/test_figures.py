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
DRAWINGS = {
    path.name: path for path in (ROOT / "img").glob("*.svg") if path.name not in SIGNS
}
SHOWN = "![One box that nothing has been put into yet](../img/box.svg)"


def svg_faults(text):
    """What keeps a drawing from being shown anywhere and read by anyone."""
    root = ElementTree.fromstring(text)
    said = [
        name for name in ("title", "desc") if (root.findtext(SVG + name) or "").strip()
    ]
    missing = {"title", "desc", "viewBox"} - {*said, *root.attrib}
    return sorted(missing) + ALIEN.findall(text)


def test_every_drawing_is_sound():
    assert svg_faults(SOUND) == []
    for alien in (
        "<script>",
        "<rect onclick=''/>",
        "<a href='b'/>",
        "@media",
        "url(b)",
    ):
        assert ALIEN.search(alien)
    texts = {name: path.read_text(encoding="utf-8") for name, path in DRAWINGS.items()}
    assert (
        texts
        and {name: found for name in texts if (found := svg_faults(texts[name]))} == {}
    )


def test_figures_are_told_in_words_and_every_drawing_is_shown():
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "book").glob("*.md")]
    for name in CHAPTERS:
        cells = read(ROOT / "notebooks" / f"{name}.ipynb").cells
        texts += [part.source for part in cells if part.cell_type == "markdown"]
    shown = set()
    for text in texts:
        figures = list(FIGURE.finditer(text))
        assert all(len(figure["alt"].strip()) > 20 for figure in figures)
        shown |= {
            figure["svg"] or png_facts(figure["png"])["Source"] for figure in figures
        }
        # A picture that FIGURE does not match would escape all of this.
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
        assert len(re.findall(r"!\[|<img|```{(?:image|figure)}", prose)) == len(
            figures
        ), text
    assert shown == {*DRAWINGS}


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


def test_a_chapter_carries_the_figure_as_a_picture_and_the_page_shows_the_drawing(
    drawn_book,
):
    assert "data:image/png;base64," in title(drawn_book)
    assert link_figures(title(drawn_book), "first", drawn_book) == f"# First\n\n{SHOWN}"
    assert drawn(drawn_book) == []
    (drawn_book / "img" / "box.svg").write_text(SOUND + "<!-- touched -->")
    with refused("first: ", "img/box.svg", "figures"):
        link_figures(title(drawn_book), "first", drawn_book)
    assert drawn(drawn_book) == ["notebooks/first.ipynb"]
    assert link_figures(title(drawn_book), "first", drawn_book) == f"# First\n\n{SHOWN}"


def test_a_figure_that_cannot_be_drawn_or_was_drawn_from_nothing_is_one_line(
    drawn_book,
):
    (drawn_book / "img" / "box.svg").write_text("<svg")
    run = run_tool(drawn_book, "figures")
    assert run.returncode == 1
    assert_one_line(run.stderr, "error: img/box.svg: ")
    edit(drawn_book, "first", "title", "![A dot](data:image/png;base64,AAAA)")
    with refused("notebooks/first.ipynb: ", "A dot"):
        drawn(drawn_book)
