"""The first screen of the front page: the clinic, its script as found and after each mend.

What each version of the script takes and holds, and its timeline, are read from a recording
when the site is built. `book/front.yml` names the cell that recorded them, says what each
mend did and links to where it is taught; a cell that is gone, or that holds other versions,
ends the build. With `book/static/front.js` a reader steps through the versions; without it,
and on paper, they are a list with the first and the last timeline.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from tools.book.book import Book
from tools.book.grammar import VERSIONS
from tools.book.recordings import Recording
from tools.book.repository import notebook_links
from tools.errors import BookError
from tools.files import read_yaml
from tools.site.languages import read_book, tr
from tools.site.parts import add_part, load_where, render
from tools.site.timeline import timeline_html

RUNNER = "simulated"  # whose timelines are shown
STORY = "book/front.yml"
PASSES = 2  # that a timeline shows


@dataclass(frozen=True)
class Version:
    """The script after a number of mends: how it runs, or the error with which it fails."""

    number: int
    mend: str
    said: str
    taught: str  # the chapter and the section
    error: str = ""
    timeline: str = ""  # its payload, "" if the script fails
    milliseconds: float = 0  # of a pass
    mebibytes: float = 0  # at the peak

    @property
    def takes(self) -> str:
        """The milliseconds of a pass, with two digits."""
        digits = ".0f" if self.milliseconds >= 9.95 else ".2g"
        return format(self.milliseconds, digits)

    @property
    def holds(self) -> str:
        return f"{self.mebibytes:.0f}"


def setup(app: Sphinx) -> None:
    add_part(app, "first-screen", first_screen)
    load_where(app, 'class="front-steps"', "front.css", "front.js")


def first_screen(env: BuildEnvironment) -> str:
    """Draw where to begin, and every version. Raises BookError."""
    book = read_book(Path(env.srcdir))
    versions, recording = read_versions(book)
    runs = [version for version in versions if version.timeline]
    span = max(duration(version.timeline) for version in runs)

    start = next(iter(book.chapters.values()))
    colab, *_ = notebook_links(book.path(start), book.repository)
    titles = {name: chapter.title for name, chapter in book.pages.items()}

    def link(document: str) -> str:
        name, hash, section = document.partition("#")
        page = env.app.builder.get_relative_uri(env.docname, f"notebooks/{name}")
        return f"{page}{hash}{section}"

    return render(
        "front.html",
        versions=versions,
        first=runs[0],
        last=runs[-1],
        recording=recording,
        start=start.name,
        colab=colab.url,
        titles=titles,
        link=link,
        timeline=lambda payload: timeline_html(payload, span=span),
    )


def duration(timeline: str) -> int:
    """Return the nanoseconds that a timeline covers."""
    return json.loads(timeline)["total"]


def read_versions(book: Book) -> tuple[list[Version], Recording]:
    """Return all versions and their recording. Raises BookError, naming the cell."""
    try:
        story = read_yaml(book.root / STORY, book.root)
        chapter = story["chapter"]
        cell = story["cell"]
        texts = {}
        for name, text in story["versions"].items():
            texts[name] = (text["said"], text["taught"])
    except (KeyError, TypeError, AttributeError) as error:
        raise BookError(STORY, f"{error} is wrong or not there", "correct it") from None

    where = f"the cell '{cell}' of notebooks/{chapter}.ipynb"
    recording = book.recording(RUNNER, chapter)
    if recording is None or cell not in recording.current_cells:
        fault = f"{where} is gone or not recorded as it is"
        raise BookError(STORY, f"{fault}: make record RUNNER={RUNNER}")

    recorded = recorded_versions(recording, cell)
    names = [version["version"] for version in recorded]
    if names != list(texts):
        fault = f"{where} holds other versions than are told of"
        raise BookError(STORY, fault, "correct the list")
    versions = []
    for version in recorded:
        said, taught = texts[version["version"]]
        versions.append(make_version(version, said, taught))
    return versions, recording


def recorded_versions(recording: Recording, cell: str) -> list[dict[str, Any]]:
    for output in recording.current_cells[cell].outputs:
        payload = output.get("data", {}).get(VERSIONS)
        if payload:
            return json.loads(payload)
    return []


def make_version(recorded: dict[str, Any], said: str, taught: str) -> Version:
    number, _, mend = recorded["version"].partition(" ")
    version = Version(int(number), tr(mend), tr(said), taught)
    if "error" in recorded:
        first_line, _, _ = recorded["error"].partition("\n")
        return replace(version, error=first_line)
    timeline = recorded["timeline"]
    return replace(
        version,
        timeline=timeline,
        milliseconds=duration(timeline) / (PASSES * 1e6),
        mebibytes=recorded["peak"] / 2**20,
    )
