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
    builder = SimpleNamespace(srcdir=folder, images={uri: "x.svg"})
    writer = Writer(builder=builder, body=[], document=new_document("page"))
    writer.document += [nodes.image(uri=uri, alt="A box & more") for _ in range(2)]
    for node in writer.document.children:
        drawings.visit_image(writer, node)
    return writer


def test_a_drawing_with_text_becomes_part_of_the_page(tmp_path, caplog):
    (tmp_path / "a.svg").write_text(DRAWING)
    writer = written(tmp_path, "a.svg")
    page = BeautifulSoup("".join(writer.body), "html.parser")
    first, second = page.find_all("svg")
    assert first["role"] == "img" and first["aria-label"] == "A box & more"
    assert (first["width"], first["height"]) == ("90", "40")
    assert page.find_all(attrs={"font-family": True}) == caplog.messages == []
    for drawing in (first, second):
        own = drawing.pattern["id"]
        assert (
            drawing.rect["fill"] == f"url(#{own})" and drawing.use["href"] == f"#{own}"
        )
    assert first.pattern["id"] != second.pattern["id"]
    assert writer.builder.images == {}  # nothing asks for the file
