"""Tabs: outputs that differ between runners, side by side under one cell.

`tools.site.merge` has put one cell for each runner after the cell that printed. Here they
become one set of tabs. Without JavaScript, and on paper, all of them are shown, one below
the other, each under its runner's name; `book/static/tabs.js` makes tabs of them.
"""

from itertools import takewhile

from docutils import nodes
from markupsafe import escape
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


class tab_set(nodes.General, nodes.Element):
    """What one cell printed: a `tab_panel` for each runner."""


class tab_panel(nodes.General, nodes.Element):
    """What one cell printed on one runner: `runner`, `label` and `facts` say which.

    Where times are shown, `times` says whether they are modelled or measured.
    """


def setup(app: Sphinx) -> None:
    app.add_node(tab_set, html=(visit_tab_set, depart_tab_set))
    app.add_node(tab_panel, html=(visit_tab_panel, depart_tab_panel))
    app.connect("doctree-read", gather)
    app.add_css_file("tabs.css")
    app.add_js_file("tabs.js")


def gather(app: Sphinx, doctree: nodes.document) -> None:
    """Put the outputs of all runners of a cell into one set of tabs, within that cell."""
    for cell in [node for node in doctree.findall(is_cell) if not runner_of(node)]:
        following = cell.parent.children[cell.parent.index(cell) + 1 :]
        tabs = tab_set("")
        for output in takewhile(runner_of, following):
            output.parent.remove(output)
            about = runner_of(output)
            tabs += tab_panel(
                "",
                *(output.children or [nodes.paragraph("", "Prints nothing.")]),
                runner=about["name"],
                label=about["label"],
                facts=about["facts"],
                times=about.get("times", ""),
                name=f"{about['cell']}-{about['name']}",
            )
        if tabs.children:
            cell += tabs


def is_cell(node: nodes.Node) -> bool:
    """True for a code cell of a notebook."""
    return isinstance(node, nodes.container) and node.get("nb_element") == "cell_code"


def runner_of(node: nodes.Node) -> dict | None:
    """What is known of the runner whose outputs a cell holds; None for an ordinary cell."""
    return node["cell_metadata"].get("runner") if is_cell(node) else None


def visit_tab_set(writer: HTML5Translator, node: tab_set) -> None:
    """The row of tabs. The first is chosen until the script finds another choice."""
    writer.body.append('<div class="runner-outputs">\n')
    writer.body.append('<div class="runner-tabs" role="tablist" aria-label="Outputs by runner">\n')
    for number, panel in enumerate(node):
        chosen = number == 0
        writer.body.append(
            f'<button type="button" role="tab" id="tab-{panel["name"]}"'
            f' aria-controls="outputs-{panel["name"]}" aria-selected="{str(chosen).lower()}"'
            f' tabindex="{0 if chosen else -1}" data-runner="{panel["runner"]}"'
            f' title="{escape(panel["facts"])}">{escape(panel["label"])}</button>\n'
        )
    writer.body.append("</div>\n")


def visit_tab_panel(writer: HTML5Translator, node: tab_panel) -> None:
    """The outputs of one runner, under its name."""
    shown = " shown" if node.parent.index(node) == 0 else ""
    writer.body.append(
        f'<div class="runner-output{shown}" role="tabpanel" id="outputs-{node["name"]}"'
        f' aria-labelledby="tab-{node["name"]}" data-runner="{node["runner"]}">\n'
        f'<p class="runner-name">{escape(node["label"])}</p>\n'
    )


def depart_tab_panel(writer: HTML5Translator, node: tab_panel) -> None:
    if node["times"]:
        writer.body.append(f'<p class="runner-times">{escape(node["times"])}</p>\n')
    writer.body.append("</div>\n")


def depart_tab_set(writer: HTML5Translator, node: tab_set) -> None:
    writer.body.append("</div>\n")
