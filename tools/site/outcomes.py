"""The table of *What raises, what copies, what moves silently*: operations by framework.

`tools.book.outcomes` says what the page is made of. Every word is one that a program printed.
"""

from pathlib import Path

from docutils.nodes import make_id
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from tools.book.chapters import FRAMEWORKS
from tools.book.grammar import OUTCOMES_CELL
from tools.book.outcomes import VERBS, operations_of, verb, words
from tools.site.assets import add_part, load_where
from tools.site.extension import read_pages
from tools.site.templates import render


def setup(app: Sphinx) -> None:
    add_part(app, OUTCOMES_CELL, table)
    load_where(app, '<table class="outcomes', "outcomes.css")


def table(env: BuildEnvironment) -> str:
    book, _ = read_pages(Path(env.srcdir))
    editions = book.editions(Path(env.docname).name)
    made = {chapter.framework: book.recordings_of(chapter)[0] for chapter in editions}
    groups, seen = {}, set()
    for operation in operations_of(editions[0]):
        said = {
            name: words(recording.cells[operation.id])
            for name, recording in made.items()
        }
        entries = {name: (text, verb(text)) for name, text in said.items()}
        seen |= {verb for _, verb in entries.values()}
        row = operation.title, make_id(operation.title), entries
        groups.setdefault((operation.group, make_id(operation.group)), []).append(row)
    names = {name: FRAMEWORKS[name] for name in made}
    verbs = {name: label for name, label in VERBS.items() if name in seen}
    facts = [(", ".join(each.software), each.provenance.date) for each in made.values()]
    return render("outcomes.html", groups=groups, names=names, verbs=verbs, facts=facts)
