"""Measure what the status page reports, group by group, and write it to `book/bench.json`.

Builds are timed as whole processes in a fresh clone of the last commit, so that what is
not committed is not measured.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tools.book.book import Book
from tools.book.notebooks import write_notebook
from tools.book.runners import SIMULATOR
from tools.browsing import chromium, chromium_program, served, weights
from tools.errors import BookError
from tools.files import read_text, write_json, written_by
from tools.record.provenance import made_here
from tools.site.status import BENCH, COMMAND, read_bench
from tools.stages import TIMES

RUNS = 3  # the median is kept
LIMIT = 250  # KiB that a page may weigh with all that it asks for, compressed
LIMITS = {"preface": 150}  # of the front page
COLUMNS = ("what", "value", "unit", "aim", "command")
Figures = Iterator[tuple[str, float, str, str, str]]


def measure(names: list[str], root: Path) -> None:
    """Measure the groups of figures that are named, or all; show them, and write each when done.

    Raises BookError for a name that is no group.
    """
    for name in names:
        if name not in GROUPS:
            raise BookError(f"GROUP: no figures '{name}'; choose from: {', '.join(GROUPS)}")
    with written_by(COMMAND, BENCH, "remove it and run it again"):
        groups = dict(read_bench(root))
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", root, clone], check=True)
        for name in names or GROUPS:
            print(f"measuring: {name}", file=sys.stderr, flush=True)
            figures = [dict(zip(COLUMNS, row, strict=True)) for row in GROUPS[name](clone, root)]
            groups[name] = made_here() | {"figures": figures}
            write_json(root / BENCH, {key: groups[key] for key in GROUPS if key in groups}, root)
            for row in figures:
                print("{what}: {value} {unit} (aim: {aim})".format(**row), flush=True)


def run(clone: Path, *command: str) -> str:
    """What `python -m COMMAND` prints in the clone. Raises BookError if it fails."""
    environment = os.environ | {"PYTHONPATH": str(clone / SIMULATOR)}
    ask = [sys.executable, "-m", *command]
    done = subprocess.run(ask, cwd=clone, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise BookError(f"{' '.join(command)}: failed in a fresh clone: {done.stderr.strip()}")
    return done.stdout


def seconds(clone: Path, *command: str, before: Callable[[], None] = lambda: None) -> float:
    """Wall time of `python -m tools COMMAND` in the clone, after `before`."""
    times = []
    for _ in range(RUNS):
        before()
        start = time.perf_counter()
        run(clone, "tools", *command)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def builds(clone: Path, root: Path) -> Figures:
    """A cold build, one with nothing stale, and one after an edit of each chapter."""
    clean = partial(shutil.rmtree, clone / "_build", ignore_errors=True)
    what = "Cold build from a fresh clone, without the installs"
    yield what, round(seconds(clone, "book", before=clean), 1), "s", "", "make book"
    yield "Build with nothing stale", round(seconds(clone, "book"), 2), "s", "0.3 s", "make book"
    for name in Book(clone).chapters:
        book = Book(clone)
        on = [one.name for one in book.local_runners if one.executes(book.chapters[name])]
        alone = seconds(clone, "record", *on, "--chapters", name)
        after = seconds(clone, "book", before=partial(edit, clone, name))
        what = f"Rebuild after one edited cell of {name}, as a ratio to executing it alone on its "
        unit = f"({after:.1f} s to {alone:.1f} s)"
        how = f"make book, to make record RUNNER='{' '.join(on)}' CHAPTERS={name}"
        yield f"{what}{len(on)} runners", round(after / alone, 2), unit, "at most 1.3", how


def edit(clone: Path, name: str) -> None:
    """Change the first cell of a chapter that its outputs depend on."""
    chapter = Book(clone).chapters[name]
    chapter.keyed_cells[0].source += "\n# edited"
    write_notebook(chapter.notebook, clone / chapter.where, clone)


def page_limit(name: str) -> int:
    return LIMITS.get(Path(name).stem, LIMIT)


def pages(clone: Path, root: Path) -> Figures:
    """What a browser loads to show the heaviest chapter, and each page with its own limit."""
    if chromium_program() is None:
        raise BookError("chromium: not found, the page's weight needs it; install it, run again")
    run(clone, "tools", "book")
    site, book = clone / "_build" / "html", Book(clone)
    paths = {Path(name).name: f"{name}.html" for name in book.documents}
    loaded = {}
    with served(site) as host, chromium() as browser:
        for name in {*book.chapters, *LIMITS} & {*paths}:
            asked = []
            tab = browser.new_page()
            tab.on("request", lambda request, asked=asked: asked.append(request.url))
            tab.goto(host + paths[name], wait_until="networkidle")
            loaded[name] = weights(site, asked)
    heaviest = max(book.chapters, key=lambda name: sum(loaded[name].values()))
    for name in dict.fromkeys([heaviest, *LIMITS]):
        whole, alone = sum(loaded[name].values()), loaded[name][paths[name]]
        aim = f"under {page_limit(name)} KiB"
        what = f"Page of {name} with its assets, compressed"
        yield what, round(whole / 1024), "KiB", aim, f"{COMMAND} pages"
        yield "That page alone", round(alone / 1024), "KiB", "", f"{COMMAND} pages"


def chapters(clone: Path, root: Path) -> Figures:
    """The longest time that a chapter took when it was recorded."""
    recordings = Book(clone).recordings["cpu"].values()
    time, name = max((one.provenance.seconds, one.chapter.name) for one in recordings)
    yield f"Slowest chapter: {name}", time, "s", "30 s on two cores", "make record RUNNER=cpu"


def simulation(clone: Path, root: Path) -> Figures:
    """What the simulated GPUs cost, measured by their own package."""
    for row in json.loads(run(clone, "cudasim.bench", "--json").splitlines()[-1]):
        yield *row.values(), "python -m cudasim.bench"


def tests(clone: Path, root: Path) -> Figures:
    """How long each stage of the last `make test` in this folder took."""
    if not (root / TIMES).is_file():
        raise BookError(f"{TIMES}: no such file; 'make test' writes it")
    with written_by("make test", TIMES):
        stages = json.loads(read_text(root / TIMES, root))["seconds"]
        total = round(sum(stages.values()) / 60, 1)
    yield "make test, all stages", total, "min", "12 min on two cores", "make test"
    for name, taken in stages.items():
        yield f"make test, stage {name}", round(taken), "s", "", "make test"


def grading(clone: Path, root: Path) -> Figures:
    """What grading costs beside the exercises themselves."""
    from tools.grade.bench import figures

    for what, value, unit, aim in figures():
        yield what, value, unit, aim, f"{COMMAND} grading"


GROUPS: dict[str, Callable[[Path, Path], Figures]] = {
    group.__name__: group for group in (builds, pages, chapters, simulation, tests, grading)
}
