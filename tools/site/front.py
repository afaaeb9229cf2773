"""The first screen of the front page: the clinic's script as found and after each repair.

The versions are the files in `book/clinic`; `python -m tools clinic` has measured what each
of them takes, with its timeline. `book/front.yml` names each version, says what its repair
did and links to where that is taught. A list that does not fit the files ends the build.
With `book/static/front.js` a reader steps through the versions; without it, and on paper,
they are a list with the first and the last timeline.
"""

import json
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from textwrap import dedent
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from tools.book.book import Book
from tools.book.repository import notebook_links
from tools.errors import BookError
from tools.files import read_yaml
from tools.record.clinic import CARDS, FOLDER, key, read_measured, script_paths
from tools.site.languages import read_book, tr
from tools.site.parts import add_part, load_where, render
from tools.site.timeline import timeline_html

STORY = "book/front.yml"
BARS = 110  # of a timeline: the page holds one for each version


@dataclass(frozen=True)
class Version:
    """The script after a number of repairs: what it takes, or the error with which it fails."""

    number: int
    file: str
    title: str
    said: str
    taught: str  # the chapter and the section
    # Lines of the script, each after its sign; the first version has none.
    changes: list[str]
    error: str = ""
    timeline: str = ""  # its payload, "" if the script fails
    milliseconds: float = 0  # of the training run
    mebibytes: float = 0  # at the peak
    busy: float = 0  # the share of the time in which the GPU works

    @property
    def takes(self) -> str:
        """The milliseconds of the training run, with two digits."""
        return f"{float(f'{self.milliseconds:.2g}'):,.0f}"

    @property
    def holds(self) -> str:
        return f"{self.mebibytes:,.0f}"

    @property
    def works(self) -> str:
        return f"{self.busy:.0%}"


def setup(app: Sphinx) -> None:
    add_part(app, "first-screen", first_screen)
    load_where(app, 'class="front-steps"', "front.css", "front.js")


def first_screen(env: BuildEnvironment) -> str:
    """Draw where to begin, and every version. Raises BookError."""
    book = read_book(Path(env.srcdir))
    versions = read_versions(book)
    runs = [version for version in versions if version.timeline]
    span = max(duration(version.timeline) for version in runs)

    start = next(iter(book.chapters.values()))
    colab, *_ = notebook_links(book.path(start), book.repository)
    titles = {name: chapter.title for name, chapter in book.pages.items()}

    def file_url(version: Version) -> str:
        repository = book.repository
        return f"{repository.url}/blob/{repository.branch}/{FOLDER}/{version.file}"

    def link(document: str) -> str:
        name, hash, section = document.partition("#")
        page = env.app.builder.get_relative_uri(env.docname, f"notebooks/{name}")
        return f"{page}{hash}{section}"

    return render(
        "front.html",
        versions=versions,
        first=runs[0],
        last=runs[-1],
        file_url=file_url,
        start=start.name,
        colab=colab.url,
        titles=titles,
        link=link,
        timeline=lambda payload: timeline_html(payload, span=span),
    )


def duration(timeline: str) -> int:
    """Return the nanoseconds that a timeline covers."""
    return json.loads(timeline)["total"]


def read_versions(book: Book) -> list[Version]:
    """Return all versions of the script. Raises BookError if they do not fit their list."""
    measured = read_measured(book.root)
    if measured["key"] != key(book.root):
        advice = "python -m tools clinic"
        raise BookError(str(FOLDER), "measured before its scripts were changed", advice)
    try:
        story = read_yaml(book.root / STORY, book.root)["versions"]
        names = list(story)
        texts = [
            (said["title"], said["said"], said["taught"]) for said in story.values()
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise BookError(STORY, f"{error} is wrong or not there", "correct it") from None

    paths = script_paths(book.root)
    if names != [path.stem for path in paths]:
        fault = f"it tells of other versions than {FOLDER} holds"
        raise BookError(STORY, fault, "correct the list")

    versions = []
    before = None
    for number, (path, text) in enumerate(zip(paths, texts, strict=True)):
        source = path.read_text("utf-8").splitlines()
        changes = [] if before is None else changed_lines(before, source)
        before = source
        title, said, taught = text
        numbers = figures(measured["versions"][path.stem][CARDS[0]])
        versions.append(
            Version(number, path.name, tr(title), tr(said), taught, changes, **numbers)
        )
    return versions


def changed_lines(before: list[str], after: list[str]) -> list[str]:
    """Return the lines that a repair removed and added, each with its sign.

    They begin at the left: what they have in common of their indentation is left out.
    """
    diff = list(unified_diff(before, after, n=0, lineterm=""))[2:]
    changed = [line for line in diff if not line.startswith("@@") and line.strip("+-")]
    code = dedent("\n".join(line[1:] for line in changed)).split("\n")
    return [f"{line[0]} {text}" for line, text in zip(changed, code, strict=True)]


def figures(measured: dict[str, Any]) -> dict[str, Any]:
    """Return what was measured of a version, as fields of `Version`."""
    if "error" in measured:
        return {"error": measured["error"]}
    return {
        "timeline": coarser(measured["timeline"]),
        "milliseconds": measured["seconds"] * 1e3,
        "mebibytes": measured["peak"] / 2**20,
        "busy": measured["busy"],
    }


def coarser(payload: str, limit: int = BARS) -> str:
    """Return a timeline with at most `limit` bars: neighbours in a lane become one bar."""
    timeline = json.loads(payload)
    distance = timeline["total"] // 1000
    bars = sorted(timeline["bars"])
    while len(bars) > limit and distance < timeline["total"]:
        bars = merge_neighbours(bars, distance)
        distance *= 2
    timeline["bars"] = bars
    timeline["notes"] = []  # they count the bars that were measured
    return json.dumps(timeline)


def merge_neighbours(bars: list[list[int]], distance: int) -> list[list[int]]:
    """Join bars of one lane and kind that are less than `distance` apart."""
    bars = sorted(bars, key=lambda bar: (bar[0], bar[2]))
    merged = [list(bars[0])]
    for lane, name, start, length, kind, count in bars[1:]:
        last = merged[-1]
        end = last[2] + last[3]
        if lane == last[0] and kind == last[4] and start - end < distance:
            last[3] = max(end, start + length) - last[2]
            last[5] += count
        else:
            merged.append([lane, name, start, length, kind, count])
    return merged
