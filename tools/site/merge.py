"""Pages: each chapter put together with what its code printed, by runner.

Where all runners print the same, a cell has its outputs as in any notebook. Where they
differ, or are times, one cell for each runner follows, which holds nothing but outputs and says
in its metadata whose they are; `tools.site.tabs` draws these.
"""

from copy import deepcopy
from html import escape

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from tools.book.book import Book
from tools.book.chapters import Chapter
from tools.book.figures import link_figures, named_figures
from tools.book.grammar import (
    ANSWER,
    MOVE,
    OUTCOMES_CELL,
    PREDICTED,
    TIMELINE,
    TIMES,
    VERSIONS,
)
from tools.book.notebooks import tags
from tools.book.recordings import Recording
from tools.errors import BookError
from tools.site import speech
from tools.site.overview import overview
from tools.site.speech import tr
from tools.site.templates import render
from tools.site.timeline import said_of, timeline_html

# What a page can draw.
DRAWN = {
    *("text/html", "text/markdown", "text/latex", "text/plain"),
    *("image/svg+xml", "image/png", "image/jpeg", TIMELINE),
}


def chapter_page(chapter: Chapter, book: Book) -> NotebookNode:
    """A chapter with its figures as drawn, and with the outputs of every runner."""
    recordings = page_recordings(chapter, book)
    page, cells = deepcopy(chapter.notebook), []
    for cell in page.cells:
        cells.append(cell)
        if PREDICTED in tags(cell):
            cell.metadata[PREDICTED] = cell.id  # tools.site.covers covers it
        if cell.cell_type == "code":
            cells += add_outputs(cell, recordings)
        else:
            if speech.spoken():  # the figures were looked at with the English text
                cell.source = named_figures(cell.source)
            else:
                cell.source = link_figures(cell.source, chapter.where, book.root)
            if cell.id.startswith(ANSWER):  # tools.site.covers covers it
                cell.source = f"::::::{{container}} answer\n{cell.source}\n::::::"
            elif cell.id.startswith(MOVE) or cell.id == OUTCOMES_CELL:
                cell.source += f"\n\n```{{{cell.id}}}\n```"
    page.cells = cells
    if any("runner" in cell.metadata for cell in cells):
        first = next(i for i, cell in enumerate(cells) if cell.cell_type == "code")
        cells.insert(first, legend(recordings))
    if chapter.kind == "symptoms":
        page.cells.insert(1, overview(chapter))
    return page


def page_recordings(chapter: Chapter, book: Book) -> list[Recording]:
    found = book.recordings_of(chapter)
    needed = [runner for runner in book.local_runners if runner.executes(chapter)]
    if not needed:
        mend = "add it to the 'chapters' of one in kernels/"
        raise BookError(f"{chapter.where}: no runner executes it; {mend}")
    for made in (
        each for each in found if each.runner.is_local and each.runner not in needed
    ):
        fault = f"{made.runner.where} does not list this chapter"
        raise BookError(f"{made.where}: {fault}; list it there, or remove the file")
    return found


def add_outputs(cell: NotebookNode, recordings: list[Recording]) -> list[NotebookNode]:
    """Give `cell` its outputs if all runners agree; else return one cell for each runner. Times are
    never all runners': what they are, modelled or measured, differs though they agree."""
    picture = cell.metadata.setdefault("mystnb", {}).setdefault("image", {})
    alt = picture.get("alt", "")
    made = [recording for recording in recordings if cell.id in recording.cells]
    shown = [(each, page_safe(each.cells[cell.id].outputs, alt)) for each in made]
    # Without a text of its own, a plot's would be the name of its file.
    picture.setdefault("alt", tr("Plot drawn by the code above"))
    (_, first), *others = shown
    if TIMES not in tags(cell) and all(other == first for _, other in others):
        cell.outputs = first
        return []
    return [output_cell(cell, recording, printed) for recording, printed in shown]


def output_cell(
    cell: NotebookNode, recording: Recording, printed: list
) -> NotebookNode:
    """A cell that holds what `cell` printed on one runner; its code is not shown."""
    about = {"cell": cell.id, "name": recording.folder, "machine": recording.machine}
    about |= {"label": tr(recording.label), "facts": facts(recording)}
    if TIMES in tags(cell):
        about["times"] = tr("Times {0}.").format(said_of(recording.times))
    metadata = {
        "tags": ["remove-input"],
        "runner": about,
        "mystnb": deepcopy(cell.metadata.mystnb),
    }
    source = f"# what {cell.id} printed"  # MyST-NB leaves out cells that hold no text
    id = f"{cell.id[:40]}__{recording.folder}"
    return new_code_cell(source, id=id, outputs=printed, metadata=metadata)


def page_safe(printed: list[NotebookNode], alt: str = "") -> list[NotebookNode]:
    """Outputs as a page shows them: streams whole, no counts, and of a timeline what `alt` says."""
    safe: list[NotebookNode] = []
    for output in deepcopy(printed):
        if (
            output.output_type == "stream"
            and safe
            and safe[-1].get("name") == output.name
        ):
            safe[-1].text += output.text
            continue
        if VERSIONS in output.get("data", {}):
            continue
        if "execution_count" in output:
            output.execution_count = None
        if "data" in output:
            kinds = ", ".join(sorted(output.data))
            drawn = {kind: output.data[kind] for kind in output.data if kind in DRAWN}
            output.data = drawn or {"text/plain": f"[an output of the type {kinds}]"}
            if TIMELINE in drawn:
                output.data = {"text/html": timeline_html(drawn[TIMELINE], alt)}
        safe.append(output)
    return safe


def facts(recording: Recording, hardware_is_told: bool = False) -> str:
    made = recording.provenance
    told = [made.hardware, *recording.software, made.date]
    return speech.facts(", ".join(told[hardware_is_told:]))


def legend(recordings: list[Recording]) -> NotebookNode:
    """A note for the top of a page that says what each tab stands for."""
    labels = escape(
        speech.punctuated("; ").join(tr(recording.label) for recording in recordings)
    )
    simulates = any(recording.runner.simulates for recording in recordings)
    told = [
        (each, facts(each, each.provenance.hardware in each.times))
        for each in recordings
    ]
    text = render(
        "legend.md", labels=labels, said_of=said_of, runners=told, simulates=simulates
    )
    return new_markdown_cell(text, id="legend")
