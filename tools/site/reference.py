"""The two pages that are looked up by words, each with a search box at its top.

*Symptoms, causes and fixes* has a list of its symptoms there; *What raises, what copies, what
moves silently* has a table of operations by framework, in which every word is one that a
program printed. `tools.book.reference` says what the two are made of,
`book/static/symptoms.js` filters them.
"""

import re
from pathlib import Path
from typing import NamedTuple

from docutils.nodes import make_id
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from tools.book.chapters import FRAMEWORKS, Chapter
from tools.book.grammar import OUTCOMES_CELL
from tools.book.recordings import Recording
from tools.book.reference import (
    VERBS,
    groups_of,
    operations_of,
    outcome_of,
    verb_of,
)
from tools.site.languages import read_book
from tools.site.parts import add_part, load_where, render

SEARCH = "symptom-search"


class Row(NamedTuple):
    """An operation of the table: what happened, and the verb of that, by framework."""

    title: str
    anchor: str
    outcomes: dict[str, tuple[str, str]]


def setup(app: Sphinx) -> None:
    add_part(app, SEARCH, lambda env: render("symptom-search.html"))
    add_part(app, OUTCOMES_CELL, outcomes_table)
    files = ("symptoms.css", "symptoms.js")
    load_where(app, '<form class="symptom-search"', *files, defer=True)
    load_where(app, '<table class="outcomes', "outcomes.css")


def symptom_list(chapter: Chapter) -> str:
    """Return the search box and the list of a chapter's symptoms, in Markdown."""
    lines = [f"```{{{SEARCH}}}", "```", "", ":::{container} symptom-list", ""]
    for group, symptoms in groups_of(chapter).items():
        lines.append(f"- {section_link(group)}")
        for symptom in symptoms:
            quoted = " *quoted*" if symptom.quoted else ""
            lines.append(f"  - {section_link(symptom.title)}{quoted}")
    lines += ["", ":::"]
    return "\n".join(lines)


def section_link(title: str) -> str:
    anchor = re.sub(r"[^\w-]", "", title.lower().replace(" ", "-"))
    return f"[{title}](#{anchor})"


def outcomes_table(env: BuildEnvironment) -> str:
    book = read_book(Path(env.srcdir))
    chapters = book.chapters_on(Path(env.docname).name)
    recordings = {}
    facts = []
    for chapter in chapters:
        recording = book.recordings_of(chapter.name)[0]
        recordings[chapter.framework] = recording
        facts.append((", ".join(recording.software), recording.provenance.date))

    groups = outcomes_by_group(chapters[0], recordings)
    verbs = printed_verbs(groups)
    return render(
        "outcomes.html",
        groups=groups,
        names={name: FRAMEWORKS[name] for name in recordings},
        verbs={name: label for name, label in VERBS.items() if name in verbs},
        facts=facts,
    )


def printed_verbs(groups: dict[tuple[str, str], list[Row]]) -> set[str]:
    verbs = set()
    for rows in groups.values():
        for row in rows:
            for _, name in row.outcomes.values():
                verbs.add(name)
    return verbs


def outcomes_by_group(
    chapter: Chapter, recordings: dict[str, Recording]
) -> dict[tuple[str, str], list[Row]]:
    """Return the rows of the table, by the title and the anchor of their group."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for operation in operations_of(chapter):
        outcomes = {}
        for framework, recording in recordings.items():
            outcome = outcome_of(recording.current_cells[operation.id])
            outcomes[framework] = (outcome, verb_of(outcome))
        row = Row(operation.title, make_id(operation.title), outcomes)
        group = (operation.group, make_id(operation.group))
        groups.setdefault(group, []).append(row)
    return groups
