"""Figures are sound SVG, described in words, and carried by the chapters in their last version."""

import base64
import io
import re
from xml.etree import ElementTree

import pytest
from helpers import CHAPTERS, ROOT, assert_one_line, cell, edit, read, run_tool
from PIL import Image

from tools.book import figures
from tools.book.book import Book
from tools.book.figures import FIGURE, draw, link_figures, svg_version
from tools.errors import BookError

SVG = "{http://www.w3.org/2000/svg}"
SOUND = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 40">
<title>A box</title><desc>One box, empty.</desc><rect width="80" height="30"/></svg>"""
SHOWN = "![One box that nothing has been put into yet](../img/box.svg)"


# The prose of every chapter and page, by its place in the repository.
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "book").glob("*.md")}
for name in CHAPTERS:
    cells = read(ROOT / "notebooks" / f"{name}.ipynb").cells
    TEXTS[name] = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
# The book's logo and its like say nothing in a text: the theme gives them their words.
SIGNS = set(re.findall(r"img/(\S+\.svg)", (ROOT / "_config.yml").read_text()))
FIGURES = sorted({path.name for path in (ROOT / "img").glob("*.svg")} - SIGNS)


def shown(text):
    """The figures that a text names or carries: [(svg, version it was drawn from, alt)]."""
    return [
        (m["svg"], None, m["alt"])
        if m["svg"]
        else (figures.figure_name(m["png"]), figures.figure_version(m["png"]), m["alt"])
        for m in FIGURE.finditer(text)
    ]


def svg_faults(text):
    """What keeps a drawing from being shown anywhere and read by anyone."""
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        return [f"not well-formed: {error}"]
    faults = [
        f"no {name}" for name in ("title", "desc") if not (root.findtext(SVG + name) or "").strip()
    ]
    if root.tag != f"{SVG}svg" or "viewBox" not in root.attrib:
        faults.append("no svg with a viewBox")
    for node in root.iter():
        if node.tag == f"{SVG}script" or any(name.startswith("on") for name in node.attrib):
            faults.append("script")
        links = [value for name, value in node.attrib.items() if name.endswith("href")]
        faults += [f"link to {link}" for link in links if not link.startswith("#")]
    if "@media" in text or "@import" in text or re.search(r"url\((?!['\"]?#)", text):
        faults.append("media query, or style from elsewhere")
    return faults


@pytest.mark.parametrize("svg", FIGURES)
def test_figure_is_sound(svg):
    assert svg_faults((ROOT / "img" / svg).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("</svg>", ""),
        ("<title>A box</title>", ""),
        ("One box, empty.", " "),
        ("<rect", "<style>@media (prefers-color-scheme: dark) {}</style><rect"),
        ("<rect", "<style>@import 'a.css';</style><rect"),
        ("<rect", "<script>1</script><rect"),
        ("<rect", "<rect onclick='go()'"),
        ("<rect", "<image href='https://example.org/a.png'/><rect"),
        ("<rect", "<rect fill='url(https://example.org/a.svg#b)'"),
        ("viewBox", "data-box"),
    ],
)
def test_unsound_figure_is_found(old, new):
    assert svg_faults(SOUND) == []
    assert svg_faults(SOUND.replace(old, new, 1)) != []


@pytest.mark.parametrize("place", TEXTS)
def test_figures_of_text_exist_in_the_version_it_carries_and_are_told_in_words(place):
    for svg, version, alt in shown(TEXTS[place]):
        assert svg in FIGURES and len(alt.strip()) > 20
        # A page names the drawing, a chapter carries it.
        assert version == (svg_version(svg, ROOT) if place in CHAPTERS else None)
    # A picture that FIGURE does not match would escape all of this.
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", TEXTS[place], flags=re.S)
    assert len(re.findall(r"!\[|<img|```{(?:image|figure)}", prose)) == len(shown(prose))


def test_every_drawing_is_a_sign_of_the_book_or_shown_in_a_text():
    assert {svg for text in TEXTS.values() for svg, *_ in shown(text)} == {*FIGURES}


def embed_figures(root):
    return figures.embed_figures(Book(root).chapters.values(), root)


@pytest.fixture
def drawn_book(small_book):
    """A book whose first chapter carries one figure."""
    (small_book / "img").mkdir()
    (small_book / "img" / "box.svg").write_text(SOUND)
    edit(small_book, "first", "title", f"# First\n\n{SHOWN}")
    assert embed_figures(small_book) == ["notebooks/first.ipynb"]
    return small_book


def title(root):
    return cell(read(root / "notebooks" / "first.ipynb"), "title").source


def test_chapter_gets_the_figure_as_picture_and_page_gets_it_back(drawn_book):
    assert "data:image/png;base64," in title(drawn_book)
    assert shown(title(drawn_book))[0][:2] == ("box.svg", svg_version("box.svg", drawn_book))
    assert link_figures(title(drawn_book), "first", drawn_book) == f"# First\n\n{SHOWN}"
    assert draw("box.svg", drawn_book) == draw("box.svg", drawn_book)
    assert embed_figures(drawn_book) == []


def test_changed_figure_is_refused_until_drawn_again(drawn_book):
    (drawn_book / "img" / "box.svg").write_text(SOUND + "<!-- touched -->")
    with pytest.raises(BookError) as error:
        link_figures(title(drawn_book), "first", drawn_book)
    assert_one_line(str(error.value), "first: ", "img/box.svg", "python -m tools figures")
    assert embed_figures(drawn_book) == ["notebooks/first.ipynb"]
    assert link_figures(title(drawn_book), "first", drawn_book) == f"# First\n\n{SHOWN}"


@pytest.mark.parametrize("fault", ["broken", "missing", "foreign"])
def test_faulty_figure_is_one_line(drawn_book, fault):
    drawing, file = drawn_book / "img" / "box.svg", "notebooks/first.ipynb"
    if fault == "broken":
        drawing.write_text("<svg")
        file = "img/box.svg"
    elif fault == "missing":
        drawing.unlink()
    else:  # a picture pasted into the chapter: it was drawn from no figure
        dot = io.BytesIO()
        Image.new("L", (1, 1)).save(dot, "PNG")
        encoded = base64.b64encode(dot.getvalue()).decode()
        edit(drawn_book, "first", "title", f"![A dot](data:image/png;base64,{encoded})")
    run = run_tool(drawn_book, "figures")
    assert run.returncode == 1
    assert_one_line(run.stderr, f"error: {file}: ")
