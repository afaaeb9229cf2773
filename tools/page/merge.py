"""Pages: each chapter put together with what its code printed, by runner.

Where all runners print the same, a cell has its outputs as in any notebook. Where they
differ, one cell for each runner follows, which holds nothing but outputs and says in its
metadata whose they are; `tools.page.tabs` draws these.
"""

from collections.abc import Iterator
from copy import deepcopy
from html import escape
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from tools.errors import BookError
from tools.run.recordings import (
    label,
    outputs_path,
    printed_cells,
    read_outputs,
    record_command,
    recorded_runners,
    waiting_cells,
)
from tools.run.runners import local_runners, runner_chapters, runner_legend, simulates
from tools.source.chapters import ROOT, code_cells, read_chapter
from tools.source.figures import link_figures

# What a page can draw.
RICH = {
    "text/html",
    "text/markdown",
    "text/latex",
    "image/svg+xml",
    "image/png",
    "image/jpeg",
}
DRAWN = RICH | {"text/plain"}


def chapter_page(name: str, root: Path = ROOT) -> NotebookNode:
    """The chapter `name` with its figures as drawn, and with the outputs of every runner.

    Raises BookError if outputs that this machine could record are missing, or are those of
    other code.
    """
    chapter = read_chapter(name, root)
    outputs = page_outputs(name, chapter, root)
    printed = {runner: printed_cells(chapter, recorded) for runner, recorded in outputs.items()}
    page = deepcopy(chapter)
    page.cells = []
    for cell in chapter.cells:
        page.cells.append(deepcopy(cell))
        if cell.cell_type == "code":
            page.cells += add_outputs(page.cells[-1], printed, outputs, root)
        else:
            page.cells[-1].source = link_figures(cell.source, f"notebooks/{name}.ipynb", root)
    if any("runner" in cell.metadata for cell in page.cells):
        first = next(i for i, cell in enumerate(page.cells) if cell.cell_type == "code")
        page.cells.insert(first, legend(outputs, root))
    return page


def page_outputs(name: str, chapter: NotebookNode, root: Path = ROOT) -> dict[str, NotebookNode]:
    """The outputs that the page of a chapter shows, by runner, in the order of the tabs."""
    found = {
        runner: outputs
        for runner in recorded_runners(root)
        if (outputs := read_outputs(name, runner, root)) is not None
    }
    needed = [runner for runner in local_runners(root) if name in runner_chapters(runner, root)]
    if not needed:
        raise BookError(
            f"notebooks/{name}.ipynb: no runner executes it; add it to the 'chapters' of one in "
            "kernels/"
        )
    for runner in local_runners(root):
        where = outputs_path(name, runner, root).relative_to(root).as_posix()
        if runner not in needed:
            if runner in found:
                raise BookError(
                    f"{where}: kernels/{runner}/kernel.json does not list this chapter; "
                    "list it there, or remove the file"
                )
        elif runner not in found:
            raise BookError(f"{where}: no such file; execute the chapter with 'make book'")
        elif waiting := waiting_cells(chapter, found[runner]):
            raise BookError(
                f"{where}: recorded from other code than that of {', '.join(waiting)}; "
                "execute the chapter again with 'make book'"
            )
    return found


def add_outputs(
    cell: NotebookNode,
    printed: dict[str, dict[str, NotebookNode]],
    outputs: dict[str, NotebookNode],
    root: Path,
) -> list[NotebookNode]:
    """Give `cell` its outputs if all runners agree; else return one cell for each runner.

    `printed` holds, by runner and cell id, the recorded cells that are still the chapter's.
    """
    shown = {
        runner: page_safe(cells[cell.id].outputs)
        for runner, cells in printed.items()
        if cell.id in cells
    }
    # Without a text of its own, a plot's would be the name of its file.
    picture = cell.metadata.setdefault("mystnb", {}).setdefault("image", {})
    picture.setdefault("alt", "Plot drawn by the code above")
    first, *others = shown.values()
    if all(other == first for other in others):
        cell.outputs = first
        return []
    return [
        output_cell(cell, runner, each, outputs[runner], root) for runner, each in shown.items()
    ]


def output_cell(
    cell: NotebookNode,
    runner: str,
    printed: list[NotebookNode],
    outputs: NotebookNode,
    root: Path,
) -> NotebookNode:
    """A cell that holds what `cell` printed on one runner; its code is not shown."""
    about = {
        "cell": cell.id,
        "name": runner,
        "label": label(runner, outputs, root),
        "facts": facts(outputs),
    }
    metadata = {"tags": ["remove-input"], "runner": about, "mystnb": deepcopy(cell.metadata.mystnb)}
    source = f"# what {cell.id} printed"  # MyST-NB leaves out cells that hold no text
    id = f"{cell.id[:40]}__{runner}"
    return new_code_cell(source, id=id, outputs=printed, metadata=metadata)


def page_safe(printed: list[NotebookNode]) -> list[NotebookNode]:
    """Outputs as a page shows them: streams whole, no counts, plain text for what it can't draw."""
    safe: list[NotebookNode] = []
    for output in deepcopy(printed):
        if output.output_type == "stream" and safe and safe[-1].get("name") == output.name:
            safe[-1].text += output.text
            continue
        if "execution_count" in output:
            output.execution_count = None
        if "data" in output:
            kinds = ", ".join(sorted(output.data))
            drawn = {kind: output.data[kind] for kind in output.data if kind in DRAWN}
            output.data = drawn or {"text/plain": f"[an output of the type {kinds}]"}
        safe.append(output)
    return safe


def facts(outputs: NotebookNode) -> str:
    """Where, with what and when outputs were made, in a line."""
    made = outputs.metadata.provenance
    return ", ".join([made.hardware, *software(outputs), made.date])


def software(outputs: NotebookNode) -> list[str]:
    """The versions of PyTorch and, on a card, of CUDA and the driver."""
    made = outputs.metadata.provenance
    versions = [f"PyTorch {made.versions.torch}"]
    if "card" in made:
        versions += [f"CUDA {made.cuda}", f"driver {made.driver}"]
    return versions


def legend(outputs: dict[str, NotebookNode], root: Path = ROOT) -> NotebookNode:
    """A note for the top of a page that says what each tab stands for."""
    kinds = {runner: recorded.metadata.provenance.runner for runner, recorded in outputs.items()}
    lines = [
        f"**{label(runner, recorded, root)}**\n: {runner_legend(kinds[runner], root)} "
        f"({facts(recorded)})\n"
        for runner, recorded in outputs.items()
    ]
    labels = "; ".join(label(runner, recorded, root) for runner, recorded in outputs.items())
    text = [
        '<details class="legend">',
        f"<summary>What the tabs show: {escape(labels)}</summary>",
        "",
        "Under a cell whose outputs differ there is a tab for each [runner](../book/glossary.md"
        "#runner). One click switches all of them, here and on the other pages. Where there are "
        "no tabs, all runners print the same.",
        "",
        *lines,
        "",
    ]
    if any(simulates(kind, root) for kind in kinds.values()):
        text += ["Simulated is simulated: [how, and where it differs](../book/simulation.md)."]
    text += ["", "</details>"]
    return new_markdown_cell("\n".join(text), id="legend")


def page_notes(name: str, root: Path = ROOT) -> Iterator[str]:
    """What whoever builds the site should know of a page, though it can be shown."""
    chapter = read_chapter(name, root)
    for runner, outputs in page_outputs(name, chapter, root).items():
        where = outputs_path(name, runner, root).relative_to(root).as_posix()
        if waiting := waiting_cells(chapter, outputs):
            yield (
                f"{where}: no tab for {', '.join(waiting)}, changed since the recording; "
                f"record them with '{record_command(runner, name, root)}'"
            )
        for cell in code_cells(outputs):
            kinds = unknown_kinds(cell.outputs)
            if kinds:
                yield f"{where}: '{cell.id}' shows {', '.join(kinds)}: the page shows plain text"


def unknown_kinds(printed: list[NotebookNode]) -> list[str]:
    """The types of those outputs that a page cannot draw."""
    shown = [set(output.get("data", {})) for output in printed]
    return sorted(kind for kinds in shown if not kinds & RICH for kind in kinds - DRAWN)
