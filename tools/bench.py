"""Measure what the status page reports, group by group, and write it to `book/bench.json`.

Builds are timed as whole processes in a fresh clone of the last commit, so that what is
not committed is not measured. Each of their figures is the median of several runs.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tools.book.book import Book
from tools.book.notebooks import write_notebook
from tools.book.runners import SIMULATOR
from tools.browsing import chromium, chromium_program, served, weights
from tools.errors import BookError
from tools.files import read_text, write_json
from tools.record.provenance import made_here
from tools.site.status import BENCH, read_bench
from tools.stages import TIMES

RUNS = 3
LIMIT = 250  # KiB of a page with all that it asks for, compressed
LIMITS = {"preface": 150}  # of the front page


def measure(names: list[str], root: Path) -> None:
    """Measure the groups of figures that are named, or all; show them, and write each when done.

    Raises BookError for a name that is no group.
    """
    for name in names:
        if name not in GROUPS:
            raise BookError(f"GROUP: no figures '{name}'; choose from: {', '.join(GROUPS)}")
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        _git("clone", "--quiet", str(root), str(clone), folder=root)
        for name in names or GROUPS:
            figures = GROUPS[name](clone, root)
            groups = read_bench(root) | {name: made_here() | {"figures": figures}}
            write_json(
                root / BENCH, {each: groups[each] for each in GROUPS if each in groups}, root
            )
            for row in figures:
                aim = f" (aim: {row['aim']})" if row["aim"] else ""
                print(f"{row['what']}: {row['value']} {row['unit']}{aim}", flush=True)


def _figure(what: str, value: float, unit: str, command: str, aim: str = "") -> dict:
    return {"what": what, "value": value, "unit": unit, "aim": aim, "command": command}


def _git(*arguments: str, folder: Path) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True)


def _run(what: str, *command: str, folder: Path, **variables: str) -> str:
    """What `python -m ...` prints in a clone. Raises BookError, naming `what`, if it fails."""
    environment = os.environ | variables
    ask = [sys.executable, "-m", *command]
    run = subprocess.run(ask, cwd=folder, env=environment, capture_output=True, text=True)
    if run.returncode:
        raise BookError(f"{what}: failed in a fresh clone: {run.stderr.strip()}")
    return run.stdout


def _seconds(*command: str, folder: Path) -> float:
    """Wall time of `python -m tools ...` in a clone."""
    start = time.perf_counter()
    _run(" ".join(command), "tools", *command, folder=folder)
    return time.perf_counter() - start


def _median(once: Callable[[], float], what: str) -> float:
    runs = []
    for number in range(RUNS):
        print(f"measuring: {what}, run {number + 1} of {RUNS}", file=sys.stderr, flush=True)
        runs.append(once())
    return statistics.median(runs)


def _builds(clone: Path, root: Path) -> list[dict]:
    """Seconds of a cold build, of one with nothing stale, and of one after an edit."""

    def cold() -> float:
        shutil.rmtree(clone / "_build", ignore_errors=True)
        return _seconds("book", folder=clone)

    seconds = round(_median(cold, "cold build"), 1)
    what = "Cold build from a fresh clone, without the installs"
    rows = [_figure(what, seconds, "s", "make book")]
    seconds = round(_median(partial(_seconds, "book", folder=clone), "nothing stale"), 2)
    rows.append(_figure("Build with nothing stale", seconds, "s", "make book", "0.3 s"))
    for name, chapter in Book(clone).chapters.items():
        on = [each.name for each in Book(clone).local_runners if each.executes(chapter)]
        command = ("record", *on, "--chapters", name)
        alone = _median(partial(_seconds, *command, folder=clone), name)
        after = _median(partial(_after_edit, clone, name), f"{name} edited")
        what = f"Rebuild after one edited cell of {name}, as a ratio to executing it alone on "
        what += f"its {len(on)} runners"
        unit = f"({after:.1f} s to {alone:.1f} s)"
        how = f"make book, to make record RUNNER='{' '.join(on)}' CHAPTERS={name}"
        rows.append(_figure(what, round(after / alone, 2), unit, how, "at most 1.3"))
    return rows


def _after_edit(clone: Path, name: str) -> float:
    """Seconds of `make book` after the first cell that has a key was changed."""
    chapter = Book(clone).chapters[name]
    first = next(cell for cell in chapter.code_cells if cell not in chapter.setup_cells)
    first.source += "\n# edited"
    write_notebook(chapter.notebook, clone / chapter.where, clone)
    return _seconds("book", folder=clone)


def _stages(clone: Path, root: Path) -> list[dict]:
    """How long each stage of the last `make test` in this folder took."""
    path = root / TIMES
    if not path.is_file():
        raise BookError(f"{TIMES}: no such file; run 'make test' first, which writes it")
    try:
        seconds = json.loads(read_text(path, root))["seconds"]
        total = round(sum(seconds.values()) / 60, 1)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BookError(f"{TIMES}: not what 'make test' writes; run it again") from None
    rows = [_figure("make test, all stages", total, "min", "make test", "8 min on two idle cores")]
    return rows + [
        _figure(f"make test, stage {name}", round(each), "s", "make test")
        for name, each in seconds.items()
    ]


def _slowest(clone: Path, root: Path) -> list[dict]:
    """The longest time that a chapter took when it was recorded."""
    recordings = Book(clone).recordings["cpu"].values()
    seconds, name = max((each.provenance.seconds, each.chapter.name) for each in recordings)
    what, how = f"Slowest chapter: {name}", "make record RUNNER=cpu"
    return [_figure(what, seconds, "s", how, "30 s on two cores")]


def _simulation(clone: Path, root: Path) -> list[dict]:
    """What the simulated GPUs cost, measured by their own package."""
    print("measuring: cudasim", file=sys.stderr, flush=True)
    command = ("cudasim.bench", "--json")
    printed = _run(command[0], *command, folder=clone, PYTHONPATH=str(clone / SIMULATOR))
    rows = json.loads(printed.splitlines()[-1])
    return [row | {"command": "python -m cudasim.bench"} for row in rows]


def _page_weight(clone: Path, root: Path) -> list[dict]:
    """KiB that a browser loads to show a page, compressed with gzip.

    Of the heaviest chapter, and of those pages with a limit of their own.
    """
    site = clone / "_build" / "html"
    if chromium_program() is None:
        raise BookError("chromium: not found, the page's weight needs it; install it, run again")
    if not site.is_dir():
        _run("book", "tools", "book", folder=clone)
    book = Book(clone)
    pages = {Path(name).name: f"{name}.html" for name in book.documents}
    pages = {name: page for name, page in pages.items() if name in {*book.chapters, *LIMITS}}
    loaded = {name: _loaded(site, page) for name, page in pages.items()}
    heaviest = max(book.chapters, key=lambda name: sum(loaded[name].values()))
    rows = []
    for name in [heaviest, *(name for name in LIMITS if name in loaded and name != heaviest)]:
        whole, page = sum(loaded[name].values()), loaded[name][pages[name]]
        what, aim = f"Page of {name} with its assets, compressed", f"under {page_limit(name)} KiB"
        rows.append(_figure(what, round(whole / 1024), "KiB", "make bench", aim))
        rows.append(_figure("That page alone", round(page / 1024), "KiB", "make bench"))
    return rows


def page_limit(name: str) -> int:
    """KiB that the page called `name` may weigh with all that it asks for, compressed."""
    return LIMITS.get(Path(name).stem, LIMIT)


def _loaded(site: Path, page: str) -> dict[str, int]:
    """Compressed bytes of every file of the site that a browser asks for, by path."""
    asked = []
    with served(site) as host, chromium() as browser:
        tab = browser.new_page()
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(host + page, wait_until="networkidle")
    return weights(site, asked)


def _grading(clone: Path, root: Path) -> list[dict]:
    """What grading costs beside the exercises themselves."""
    from tools.grade.bench import figures

    print("measuring: grading, some four minutes", file=sys.stderr, flush=True)
    how = "make bench GROUP=grading"
    return [_figure(what, value, unit, how, aim) for what, value, unit, aim in figures()]


GROUPS: dict[str, Callable[[Path, Path], list[dict]]] = {  # of a clone, and of the root
    "builds": _builds,
    "pages": _page_weight,
    "chapters": _slowest,
    "simulation": _simulation,
    "tests": _stages,
    "grading": _grading,
}
