"""Images: drawings with text become part of the page, others get their size."""

from types import SimpleNamespace

from bs4 import BeautifulSoup
from docutils import nodes
from docutils.utils import new_document

from tools.site import drawings

DRAWING = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 40" width="90" height="40"
font-family="Verdana"><title>A box</title><pattern id="dots" width="2" height="2"/>
<rect fill="url(#dots)"/><use href="#dots"/><text font-family="Arial">Box</text></svg>"""


class Writer(SimpleNamespace):
    def visit_image(self, node):
        self.body.append(f'<img alt="x" src="{node["uri"]}" />')


def written(folder, uri):
    """Return the writer of a page on which an image stands twice, and the page."""
    builder = SimpleNamespace(srcdir=folder, images={uri: "x.svg"})
    writer = Writer(builder=builder, body=[], document=new_document("page"))
    for _ in range(2):
        writer.document.append(nodes.image(uri=uri, alt="A box & more"))
    for node in writer.document.children:
        drawings.visit_image(writer, node)
    return writer, BeautifulSoup("".join(writer.body), "html.parser")


def test_a_drawing_with_text_becomes_part_of_the_page(tmp_path, caplog):
    (tmp_path / "a.svg").write_text(DRAWING)
    writer, page = written(tmp_path, "a.svg")
    for drawing in page.find_all("svg"):
        assert drawing["role"] == "img"
        assert drawing["aria-label"] == "A box & more"
        assert (drawing["width"], drawing["height"]) == ("90", "40")
    # The fonts are those of the page.
    assert page.find_all(attrs={"font-family": True}) == []
    # Nothing asks for the file.
    assert writer.builder.images == {}
    assert caplog.messages == []


def test_drawings_on_a_page_have_their_own_ids(tmp_path):
    (tmp_path / "a.svg").write_text(DRAWING)
    _, page = written(tmp_path, "a.svg")
    first, second = page.find_all("svg")
    for drawing in (first, second):
        id = drawing.pattern["id"]
        assert drawing.rect["fill"] == f"url(#{id})"
        assert drawing.use["href"] == f"#{id}"
    assert first.pattern["id"] != second.pattern["id"]
