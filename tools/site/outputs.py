"""Tabs: what a cell printed on each runner, side by side below its code.

`RunnerTabs` is a plugin of MyST-NB, which finds it by the entry point in `plugins/`.
Without JavaScript and on paper all outputs are shown, one below the other, each under the
name of its runner; `book/static/tabs.js` makes tabs of them.
"""

from typing import ClassVar

from docutils import nodes
from myst_nb.core.render import MimeData, NbElementRenderer
from nbformat import NotebookNode
from sphinx.application import Sphinx

from tools.book.grammar import RUNNERS
from tools.site.languages import tr
from tools.site.page import DRAWN, RunnerOutputs
from tools.site.parts import Part, frame

# What MyST-NB calls the box around the outputs of a cell.
OUTPUT_BOX = "cell_code_output"


class RunnerTabs:
    """Draws the outputs of a cell's runners, which are one output of the type RUNNERS."""

    mime_priority_overrides: ClassVar = [("html", RUNNERS, 1)]

    @staticmethod
    def handle_mime(
        renderer: NbElementRenderer, data: MimeData, inline: bool
    ) -> list[nodes.Element] | None:
        if data.mime_type != RUNNERS:
            return None
        runners = [RunnerOutputs(**runner) for runner in data.content]
        return [draw_tabs(renderer, data, runners)]


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", unbox_tabs)
    app.add_css_file("tabs.css")
    app.add_js_file("tabs.js")


def draw_tabs(
    renderer: NbElementRenderer, data: MimeData, runners: list[RunnerOutputs]
) -> Part:
    panels = []
    for runner in runners:
        if runner.outputs:
            box = nodes.container(nb_element=OUTPUT_BOX, classes=["cell_output"])
            for output in runner.outputs:
                box += draw_output(renderer, data, output)
        else:
            box = nodes.paragraph("", tr("Prints nothing."))
        panels.append(frame("tab.html", box, runner=runner, first=not panels))
    return frame("tabs.html", *panels, runners=runners)


def draw_output(
    renderer: NbElementRenderer, data: MimeData, output: NotebookNode
) -> list[nodes.Element]:
    about_cell = data.cell_metadata, data.cell_index, data.line
    if output.output_type == "error":
        return renderer.render_error(output, *about_cell)
    if output.output_type == "stream" and output.name == "stderr":
        return renderer.render_stderr(output, *about_cell)
    if output.output_type == "stream":
        return renderer.render_stdout(output, *about_cell)

    best = next(kind for kind in DRAWN if kind in output.data)
    form = MimeData(
        best,
        output.data[best],
        cell_metadata=data.cell_metadata,
        output_metadata=output.metadata,
        cell_index=data.cell_index,
        line=data.line,
    )
    return renderer.render_mime_type(form)


def unbox_tabs(app: Sphinx, doctree: nodes.document) -> None:
    """Move tabs out of the box around their cell's outputs: each panel has its own."""
    for form in [*doctree.findall(holds_tabs)]:
        bundle = form.parent  # of all forms of an output; this one has no other
        box = bundle.parent
        box.parent.replace(box, form.children)


def holds_tabs(node: nodes.Node) -> bool:
    return isinstance(node, nodes.container) and node.get("mime_type") == RUNNERS
