"""Directives that draw recorded facts as tables: nothing on those pages is typed.

`{status-chapters}` reads the provenance in outputs/, `{status-figures}` book/bench.json,
`{status-survey}` book/survey.json.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from docutils.statemachine import StringList
from nbformat import NotebookNode
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from tools.errors import BookError
from tools.page.merge import software
from tools.run.recordings import label, outputs_path, read_outputs, recorded_runners, waiting_cells
from tools.run.runners import runner_names
from tools.source.chapters import ROOT, chapter_names, code_cells, read_chapter, tags
from tools.survey import SURVEY

if TYPE_CHECKING:
    from sphinx.application import Sphinx

BENCH = "book/bench.json"  # what 'make bench' writes
NOT_COMPARED = "nbval-ignore-output"  # tag of a cell whose output differs by machine


def setup(app: "Sphinx") -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("status-chapters", StatusChapters)
    app.add_directive("status-figures", StatusFigures)
    app.add_directive("status-survey", StatusSurvey)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class Table(SphinxDirective):
    """A table of recorded facts; the page is read again when one of their files changes."""

    def files(self, root: Path) -> list[Path]:
        """The files that the table is drawn from."""
        raise NotImplementedError

    def lines(self, root: Path) -> list[str]:
        """The table as Markdown."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        """Draw the table. A fault in a file fails the build in one line."""
        root = Path(self.env.srcdir)
        try:
            for path in self.files(root):
                self.env.note_dependency(str(path))
            return parse(self, self.lines(root))
        except BookError as error:
            raise ExtensionError(str(error)) from None


class StatusChapters(Table):
    """Every chapter on every runner that has outputs of it."""

    def files(self, root: Path) -> list[Path]:
        """The outputs of all chapters."""
        names = chapter_names(root)
        return [outputs_path(name, run, root) for run in recorded_runners(root) for name in names]

    def lines(self, root: Path) -> list[str]:
        """One row for each chapter and runner."""
        return chapters_table(root)


class StatusFigures(Table):
    """The figures that were measured, or a line that says there are none."""

    def files(self, root: Path) -> list[Path]:
        """What `make bench` wrote."""
        return [root / BENCH]

    def lines(self, root: Path) -> list[str]:
        """One row for each figure."""
        return figures_table(root)


class StatusSurvey(Table):
    """The figures of the simulator's survey, and what did not pass, with the reasons."""

    def files(self, root: Path) -> list[Path]:
        """What `make survey` wrote."""
        return [root / SURVEY]

    def lines(self, root: Path) -> list[str]:
        """Two tables: the figures, and the exceptions."""
        return survey_tables(root)


def parse(directive: SphinxDirective, lines: list[str]) -> list[nodes.Node]:
    """What the Markdown in `lines` says, as nodes of the page."""
    container = nodes.container(classes=["status"])
    content = StringList(lines, source=directive.get_source_info()[0])
    directive.state.nested_parse(content, directive.content_offset, container)
    return [container]


def chapters_table(root: Path = ROOT) -> list[str]:
    """The lines of a Markdown table: one row for each chapter and runner."""
    rows = []
    for runner in recorded_runners(root):
        for name in chapter_names(root):
            outputs = read_outputs(name, runner, root)
            if outputs is None:
                continue
            facts = outputs.metadata.provenance
            rows.append(
                [
                    f"[](../notebooks/{name}.ipynb)",
                    label(runner, outputs, root),
                    facts["date"],
                    f"{facts['seconds']:.1f}",
                    str(len(compared_cells(outputs))),
                    ", ".join(waiting_cells(read_chapter(name, root), outputs)) or "none",
                    facts["hardware"],
                    facts["python"],
                    ", ".join(software(outputs)),
                ]
            )
    if not rows:
        return ["No outputs recorded yet: run `make book`."]
    head = ["Chapter", "Runner", "Date", "Seconds", "Cells compared", "Cells waiting"]
    lines = table([*head, "Hardware", "Python", "Software"], rows, numbers=(3, 4))
    if set(recorded_runners(root)) <= set(runner_names(root)):
        lines += ["", "No real GPU is recorded yet: `make record RUNNER=gpu` does it on one."]
    return lines


def compared_cells(outputs: NotebookNode) -> list[NotebookNode]:
    """The code cells whose outputs `make test` compares."""
    return [cell for cell in code_cells(outputs) if NOT_COMPARED not in tags(cell)]


def figures_table(root: Path = ROOT) -> list[str]:
    """The lines of a Markdown table of book/bench.json, and of where it was measured.

    Raises BookError if the file is there but is not what `make bench` writes.
    """
    path = root / BENCH
    if not path.is_file():
        return ["No figures recorded yet: run `make bench`."]
    try:
        bench = json.loads(path.read_text(encoding="utf-8"))
        rows = [
            [
                figure["what"],
                f"{figure['value']} {figure['unit']}",
                figure["aim"],
                f"`{figure['command']}`",
            ]
            for figure in bench["figures"]
        ]
        measured = f"Measured on {bench['date']}, on {bench['hardware']}."
    except (ValueError, KeyError, TypeError):
        raise BookError(f"{BENCH}: not what 'make bench' writes; run it again") from None
    return [*table(["What", "Measured", "Aim", "Command"], rows, numbers=(1,)), "", measured]


def survey_tables(root: Path = ROOT) -> list[str]:
    """The lines of two Markdown tables: the survey's figures, and its exceptions.

    Raises BookError if book/survey.json is there but is not what `make survey` writes.
    """
    path = root / SURVEY
    if not path.is_file():
        return ["No survey recorded yet: run `make survey`."]
    try:
        survey = json.loads(path.read_text(encoding="utf-8"))
        rows = [
            [
                f"{kind}s",
                counts["total"],
                counts["passed"],
                f"{counts['percent']} %",
                counts["skipped"],
            ]
            for kind, counts in survey["summary"].items()
        ]
        exceptions = [[f"`{each['name']}`", each["reason"]] for each in survey["exceptions"]]
        measured = (
            f"`make survey`, {survey['date']}, PyTorch {survey['torch']}, "
            f"Python {survey['python']}, on {survey['hardware']}."
        )
    except (ValueError, KeyError, TypeError):
        raise BookError(f"{SURVEY}: not what 'make survey' writes; run it again") from None
    heads = ["What", "Surveyed", "Pass", "Share", "Left out"]
    lines = [*table(heads, rows, numbers=(1, 2, 3, 4)), "", measured]
    if exceptions:
        lines += ["", "What does not pass:", "", *table(["Name", "Reason"], exceptions)]
    return lines


def table(head: list[str], rows: list[list[str]], numbers: tuple[int, ...] = ()) -> list[str]:
    """The lines of a Markdown table; the columns in `numbers` are set flush right."""
    rules = ["--:" if column in numbers else ":--" for column in range(len(head))]
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in [head, rules, *cells]]
