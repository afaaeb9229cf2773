"""Images: drawings with text become part of the page, others get their size."""

from types import SimpleNamespace

import pytest
from bs4 import BeautifulSoup
from docutils import nodes
from docutils.utils import new_document

from tools.page import images

DRAWING = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 40" width="90" height="40"
font-family="Verdana"><title>A box</title><pattern id="dots" width="2" height="2"/>
<rect fill="url(#dots)"/><use href="#dots"/><text font-family="Arial">Box</text></svg>"""


class Writer:
    """As much of Sphinx's writer as an image needs, with a document of two images."""

    def __init__(self, folder, uri):
        self.builder, self.body = SimpleNamespace(srcdir=folder, images={uri: "x.svg"}), []
        self.document = new_document("page")
        self.document += [nodes.image(uri=uri, alt="A box & more") for _ in range(2)]

    def visit_image(self, node):
        self.body.append(f'<img alt="x" src="{node["uri"]}" />')


def written(folder, uri):
    writer = Writer(folder, uri)
    for node in writer.document.children:
        images.visit_image(writer, node)
    return writer


@pytest.fixture
def said(monkeypatch):
    """The warnings of the extension."""
    texts = []
    tell = images.logger
    monkeypatch.setattr(tell, "warning", lambda text, *words, **_: texts.append(text % words))
    return texts


def test_an_image_gets_its_size(tmp_path):
    (tmp_path / "a.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="72pt" height="9"/>'
    )
    writer = written(tmp_path, "a.svg")
    assert writer.body[0] == '<img width="96" height="9" alt="x" src="a.svg" />'
    assert writer.builder.images


@pytest.mark.parametrize("uri", ["torn.png", "https://example.org/a.png"])
def test_an_image_without_a_size_is_reported(tmp_path, said, uri):
    (tmp_path / "torn.png").write_bytes(b"no image")
    written(tmp_path, uri)
    assert said[0] == f"image whose size cannot be read: {uri}"


def test_a_drawing_with_text_becomes_part_of_the_page(tmp_path, said):
    (tmp_path / "a.svg").write_text(DRAWING)
    writer = written(tmp_path, "a.svg")
    page = BeautifulSoup("".join(writer.body), "html.parser")
    first, second = page.find_all("svg")
    assert first["role"] == "img" and first["aria-label"] == "A box & more"
    assert (first["width"], first["height"]) == ("90", "40")
    assert page.find_all(attrs={"font-family": True}) == [] and said == []
    for drawing in (first, second):
        own = drawing.pattern["id"]
        assert drawing.rect["fill"] == f"url(#{own})" and drawing.use["href"] == f"#{own}"
    assert first.pattern["id"] != second.pattern["id"]
    assert writer.builder.images == {}  # nothing asks for the file


def test_a_drawing_with_style_of_its_own_is_reported(tmp_path, said):
    (tmp_path / "a.svg").write_text(DRAWING.replace("<rect", "<style>* { fill: red }</style><rect"))
    written(tmp_path, "a.svg")
    assert said[0] == "style in a drawing would be the page's: a.svg"
