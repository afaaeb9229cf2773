"""Pages: a chapter together with what its cells printed on every runner.

Where all runners print the same, a page shows it once, as any notebook does. Where they
differ, or print times, it shows the outputs of each. In the notebook that MyST-NB reads,
these are a single output of the type RUNNERS, which `tools.site.outputs` draws as tabs.
"""

from copy import deepcopy
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_output

from tools.book.book import Book
from tools.book.chapters import Chapter
from tools.book.figures import link_figures, named_figures
from tools.book.grammar import (
    ANSWER,
    MOVE,
    OUTCOMES_CELL,
    PREDICTED,
    RUNNERS,
    SETUP,
    TIMELINE,
    TIMES,
    TITLE,
    Kind,
    answer_text,
)
from tools.book.notebooks import tags
from tools.book.recordings import Recording
from tools.errors import BookError
from tools.site.languages import (
    punctuated,
    spoken,
    tr,
    translate_facts,
    translate_times_source,
)
from tools.site.parts import render
from tools.site.timeline import timeline_html

# What pages can draw, the best form first.
DRAWN = (
    TIMELINE,
    "text/html",
    "image/svg+xml",
    "image/png",
    "image/jpeg",
    "text/markdown",
    "text/latex",
    "text/plain",
)


@dataclass(frozen=True)
class RunnerOutputs:
    """What a cell printed on one runner, and what its tab says of that runner."""

    cell: str  # the cell's id
    folder: str  # of the recording: the runner's name, or that of the card
    machine: str  # tabs with the same one switch together
    label: str
    facts: str  # hardware, software and date
    times_note: str  # a sentence on their source, "" where they hold no times or say it
    outputs: list[NotebookNode]


@dataclass(frozen=True)
class Page:
    """A chapter and its outputs, by cell id: every code cell is in one of the two."""

    chapter: Chapter
    recordings: list[Recording]
    shared_outputs: dict[str, list[NotebookNode]] = field(default_factory=dict)
    outputs_by_runner: dict[str, list[RunnerOutputs]] = field(default_factory=dict)


def chapter_page(chapter: Chapter, book: Book) -> Page:
    page = Page(chapter, page_recordings(chapter, book))
    for cell in chapter.code_cells:
        if SETUP in tags(cell):
            # It names the machine, which the legend does for all.
            page.shared_outputs[cell.id] = []
            continue
        by_runner = outputs_of(cell, page)
        if can_share(cell, by_runner):
            page.shared_outputs[cell.id] = by_runner[0].outputs
        else:
            page.outputs_by_runner[cell.id] = by_runner
    return page


def page_recordings(chapter: Chapter, book: Book) -> list[Recording]:
    """Return the chapter's recordings, if the runners in `kernels/` allow for them."""
    runners = [runner for runner in book.portable_runners if runner.executes(chapter)]
    if not runners:
        raise BookError(
            chapter.where,
            "no runner executes it",
            "add it to the 'chapters' of one in kernels/",
        )

    recordings = book.recordings_of(chapter.name)
    for recording in recordings:
        runner = recording.runner
        if not runner.is_real_gpu and runner not in runners:
            raise BookError(
                recording.where,
                f"{runner.where} does not list this chapter",
                "list it there, or remove the file",
            )
    return recordings


def outputs_of(cell: NotebookNode, page: Page) -> list[RunnerOutputs]:
    """Return what a cell printed on each runner that has recorded it as it is."""
    alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
    shows_times = TIMES in tags(cell)
    by_runner = []
    for recording in page.recordings:
        if cell.id not in recording.current_cells:
            continue
        outputs = recording.current_cells[cell.id].outputs
        times_note = ""
        if shows_times and not _say(outputs, recording.times_source):
            source = translate_times_source(recording.times_source)
            times_note = tr("Times {0}.").format(source)
        by_runner.append(
            RunnerOutputs(
                cell=cell.id,
                folder=recording.folder,
                machine=recording.machine,
                label=tr(recording.label),
                facts=recording_facts(recording),
                times_note=times_note,
                outputs=page_safe(outputs, alt),
            )
        )
    if not by_runner:
        raise BookError(
            page.chapter.where,
            f"no runner has recorded the cell '{cell.id}' as it is",
            "execute it: make book",
        )
    return by_runner


def _say(outputs: list[NotebookNode], words: str) -> bool:
    """Return whether some output has `words` in its text."""
    texts = [output.get("text", "") for output in outputs]
    texts += [output.get("data", {}).get("text/plain", "") for output in outputs]
    return any(words in text for text in texts)


def can_share(cell: NotebookNode, by_runner: list[RunnerOutputs]) -> bool:
    """Return whether the page can show one output for all runners.

    Times are never shared: those of one runner are modelled, those of another measured,
    even where the figures agree.
    """
    if TIMES in tags(cell):
        return False
    first, *others = by_runner
    return all(runner.outputs == first.outputs for runner in others)


def page_safe(printed: list[NotebookNode], alt: str = "") -> list[NotebookNode]:
    """Return outputs as pages show them: streams whole, no counts, timelines drawn.

    `alt` says in words what a timeline shows.
    """
    outputs: list[NotebookNode] = []
    for output in deepcopy(printed):
        if output.output_type == "stream" and continues(output, outputs):
            outputs[-1].text += output.text
            continue
        if "execution_count" in output:
            output.execution_count = None
        if "data" in output:
            output.data = drawable(output.data, alt)
        outputs.append(output)
    return outputs


def continues(stream: NotebookNode, outputs: list[NotebookNode]) -> bool:
    """Return whether `stream` continues the last output, which a runner printed in pieces."""
    return bool(outputs) and outputs[-1].get("name") == stream.name


def drawable(data: NotebookNode, alt: str) -> dict[str, str]:
    """Return the forms of an output that a page can draw."""
    if TIMELINE in data:
        return {"text/html": timeline_html(data[TIMELINE], alt)}
    forms = {kind: content for kind, content in data.items() if kind in DRAWN}
    if not forms:
        kinds = ", ".join(sorted(data))
        return {"text/plain": f"[an output of the type {kinds}]"}
    return forms


def page_notebook(page: Page, root: Path) -> NotebookNode:
    """Return the notebook that MyST-NB makes the page of."""
    notebook = deepcopy(page.chapter.notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            add_outputs(cell, page)
        else:
            cell.source = page_text(cell, page.chapter, root)

    if page.outputs_by_runner:
        kinds = [cell.cell_type for cell in notebook.cells]
        notebook.cells.insert(kinds.index("code"), legend(page.recordings))
    if page.chapter.kind == Kind.SYMPTOMS:
        from tools.site.reference import symptom_list

        overview = new_markdown_cell(symptom_list(page.chapter), id="overview")
        notebook.cells.insert(1, overview)
    return notebook


def add_outputs(cell: NotebookNode, page: Page) -> None:
    # Nodes know a cell's metadata only: `tools.site.folds_and_covers` names its cover by the id.
    if PREDICTED in tags(cell):
        cell.metadata[PREDICTED] = cell.id
    title, _, code = cell.source.partition("\n")
    if title.startswith(TITLE):
        # Colab shows it in place of the cell, and the page says it on the fold.
        cell.source = code
        display = cell.metadata.setdefault("mystnb", {})
        display.setdefault("code_prompt_show", tr(title.removeprefix(TITLE)))
    # Without a text of its own, a plot's would be the name of its file.
    image = cell.metadata.setdefault("mystnb", {}).setdefault("image", {})
    image.setdefault("alt", tr("Plot drawn by the code above"))

    if cell.id in page.shared_outputs:
        cell.outputs = page.shared_outputs[cell.id]
    else:
        by_runner = [asdict(runner) for runner in page.outputs_by_runner[cell.id]]
        cell.outputs = [new_output("display_data", {RUNNERS: by_runner})]


def page_text(cell: NotebookNode, chapter: Chapter, root: Path) -> str:
    """Return a text cell with figures from `img/` and what the site adds to it."""
    if spoken().is_english:
        text = link_figures(cell.source, chapter.where, root)
    else:  # whether they are current was checked with the English text
        text = named_figures(cell.source)

    if cell.id.startswith(ANSWER):
        # The page has a cover of its own in place of the notebook's `<details>`.
        answer = answer_text(text)
        if answer is not None:
            text = answer
        return f"::::::{{container}} answer\n{text}\n::::::"
    if cell.id.startswith(MOVE) or cell.id == OUTCOMES_CELL:
        return f"{text}\n\n```{{{cell.id}}}\n```"
    return text


def recording_facts(recording: Recording, with_hardware: bool = True) -> str:
    provenance = recording.provenance
    facts = [*recording.software, provenance.date]
    if with_hardware:
        facts.insert(0, provenance.hardware)
    return translate_facts(", ".join(facts))


def legend(recordings: list[Recording]) -> NotebookNode:
    """Return a note for the top of a page that says what each tab stands for."""
    labels = punctuated("; ").join(tr(made.label) for made in recordings)
    facts = []
    for recording in recordings:
        names_hardware = recording.provenance.hardware in recording.times_source
        facts.append(recording_facts(recording, with_hardware=not names_hardware))
    text = render(
        "legend.md",
        labels=escape(labels),
        runners=list(zip(recordings, facts, strict=True)),
        simulates=any(recording.runner.simulates for recording in recordings),
        translate_times_source=translate_times_source,
    )
    return new_markdown_cell(text, id="legend")
