"""The first screen of the front page: the clinic, its script as found and after each mend.

What each version of the script takes and holds, and its timeline, are read from a recording when
the site is built; a cell that is gone, or holds other versions, ends the build.
`book/front.yml` names the cell, says what each mend did and links to where it is taught. With
`book/static/front.js` a reader steps through them; without it, and on paper, they are a list with
the first and the last timeline.
"""

import json
from pathlib import Path
from typing import NamedTuple

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from tools.book.book import Book
from tools.book.grammar import VERSIONS
from tools.book.links import notebook_links
from tools.book.recordings import Recording
from tools.errors import BookError
from tools.files import read_yaml
from tools.site.assets import add_part, load_where
from tools.site.extension import read_pages
from tools.site.speech import tr
from tools.site.templates import render
from tools.site.timeline import timeline_html

RUNNER = "simulated"  # whose timelines are shown
STORY = "book/front.yml"


class Version(NamedTuple):
    """The script after so many mends: a pass in ms and MiB at the peak, or why it does not run."""

    number: int
    mend: str
    said: str
    taught: str  # the chapter and the section
    error: str = ""
    pass_: float = 0
    peak: float = 0
    timeline: str = ""  # its payload
    takes: str = ""  # the two in words
    holds: str = ""


def setup(app: Sphinx) -> None:
    add_part(app, "first-screen", first_screen)
    load_where(app, 'class="front-steps"', "front.css", "front.js")


def first_screen(env: BuildEnvironment) -> str:
    """Where to begin, and every version. Raises BookError."""
    book, _ = read_pages(Path(env.srcdir))
    builder, start = env.app.builder, next(iter(book.chapters))
    services = notebook_links(book.path(book.chapters[start]), book.repository)
    links = {link.label: link.url for link in services}
    found, recording = versions(book)
    runs = [version for version in found if version.timeline]
    span = max(json.loads(version.timeline)["total"] for version in runs)

    def link(document: str) -> str:
        name, _, section = f"notebooks/{document}".partition("#")
        return builder.get_relative_uri(env.docname, name) + f"#{section}" * bool(
            section
        )

    return render(
        "front.html",
        versions=found,
        first=runs[0],
        last=runs[-1],
        recording=recording,
        start=start,
        colab=links["Google Colab"],
        titles={name: chapter.title for name, chapter in book.pages.items()},
        link=link,
        timeline=lambda payload: timeline_html(payload, span=span),
    )


def versions(book: Book) -> tuple[list[Version], Recording]:
    """All, and the recording that they come from. Raises BookError, naming the cell."""
    try:
        story = read_yaml(book.root / STORY, book.root)
        chapter, cell, told = story["chapter"], story["cell"], story["versions"]
        texts = {name: (text["said"], text["taught"]) for name, text in told.items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise BookError(f"{STORY}: {error} is wrong or not there; correct it") from None
    where = f"{STORY}: the cell '{cell}' of notebooks/{chapter}.ipynb"
    recording = book.recording(RUNNER, chapter) if chapter in book.chapters else None
    if recording is None or cell not in recording.cells:
        raise BookError(
            f"{where} is gone or not recorded as it is: make record RUNNER={RUNNER}"
        )
    shown = [
        output.get("data", {}).get(VERSIONS) for output in recording.cells[cell].outputs
    ]
    found = json.loads(next(filter(None, shown), "[]"))
    if [version["version"] for version in found] != list(texts):
        raise BookError(
            f"{where} holds other versions than are told of; correct the list"
        )
    return [_version(each, *texts[each["version"]]) for each in found], recording


def _version(shown: dict, said: str, taught: str) -> Version:
    number, _, mend = shown["version"].partition(" ")
    place = int(number), tr(mend), tr(said), taught
    if "error" in shown:
        return Version(*place, error=shown["error"].split("\n")[0])
    drawn, peak = shown["timeline"], shown["peak"] / 2**20
    one = json.loads(drawn)["total"] / 2e6  # it has two passes
    takes = f"{one:.0f}" if one >= 9.95 else f"{one:.2g}"  # two digits
    return Version(*place, "", one, peak, drawn, takes, f"{peak:.0f}")
