"""The browser that opens the pages, and the site of a tiny book with all that reacts to a reader."""

import os
import sys
from contextlib import ExitStack
from pathlib import Path

import matplotlib
import pytest
from browsing import missing
from helpers import (
    H100,
    build_site,
    code,
    copy_code,
    copy_kernel,
    display,
    dress,
    keep,
    make_book,
    prose,
    text,
    write,
)
from nbformat.v4 import new_output

from cudasim.clock.clock import Span
from cudasim.clock.timeline import Timeline
from tools.browsing import chromium

DEJAVU = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
RUNNING = {}  # the browser, while tests of this folder run


def pytest_configure(config):
    """On Linux's CI, where a browser belongs, one line says what it lacks, and no test runs."""
    worker = hasattr(config, "workerinput")  # the process that started it has looked
    if os.environ.get("CI") and sys.platform == "linux" and not worker and missing():
        raise pytest.UsageError(missing())


def pytest_runtest_setup(item):
    """Skip what needs a browser that cannot run: skipped here, the reason is said once for all."""
    if "browser" in item.fixturenames and missing():
        pytest.skip(missing())


def finds_only(fonts, folder):
    """The environment of a browser that finds these fonts alone, by fontconfig (on Linux)."""
    settings = folder / "fonts.conf"
    cache = f"<cachedir>{folder}/cache</cachedir>"
    settings.write_text(f"<fontconfig><dir>{fonts}</dir>{cache}</fontconfig>")
    return os.environ | {"FONTCONFIG_FILE": str(settings)}


@pytest.fixture
def browser(request, tmp_path_factory):
    """One Chromium for all tests of this folder, with the same few fonts on every machine.

    It ends with the folder: while Playwright runs, nothing else can use asyncio.
    """
    if not RUNNING:
        here = Path(__file__).parent
        (folder,) = (node for node in request.node.iter_parents() if node.path == here)
        stack = ExitStack()
        stack.callback(RUNNING.clear)
        environment = finds_only(DEJAVU, tmp_path_factory.mktemp("dejavu"))
        RUNNING["browser"] = stack.enter_context(chromium(env=environment))
        folder.addfinalizer(stack.close)
    return RUNNING["browser"]


ASKING = [
    prose("title", "# First\n\nA chapter that asks."),
    code("make", "X = 1"),
    prose(
        "predict-place",
        "**Predict.** Where is `X`?\n\n- on the `cpu`\n- on the first GPU\n- nowhere yet",
    ),
    code("place", "X.device", ["predicted"]),
    code("place-held", "assert X.device\nX"),
    prose("more", "## More\n\nNow without choices."),
    prose("predict-sum", "**Predict.** What is 2 + 2?"),
    code("sum", "print('so:')\n2 + 2", ["predicted"]),
    code("sum-held", "assert 2 + 2 == 4\n4"),
]
SHOWING = [
    prose("title", "# Second\n\nTimelines, and a card."),
    code("show", "clock"),
    code("where", "X.device"),
]
STEPS = 30


def timeline(source):
    """A timeline of a few steps, each with a wait."""
    spans = []
    for at in range(0, STEPS * 100_000, 100_000):
        spans += [
            Span("Python", "mm", at, at + 9_000, "operation"),
            Span("Python", "item", at + 9_000, at + 80_000, "wait"),
            Span("cuda:0 stream 0", "mm", at + 9_000, at + 70_000, "kernel"),
            Span("cuda:0 copies out", "copy", at + 70_000, at + 71_000, "copy", 4),
        ]
    spans.append(Span("cuda:1 stream 0", "addmm", 0, 2_000_000, "kernel"))
    drawn = Timeline()
    drawn.fill(spans, source, ["the first 3 spans were dropped: there are too many"])
    return new_output("display_data", data=drawn._repr_mimebundle_())


@pytest.fixture(scope="session")
def tiny_book(once):
    """The root of a book whose first chapter asks, and whose second shows timelines and a card."""

    def make(root):
        make_book(root)
        copy_code(root, "cudasim/src")
        for runner in ("simulated", "gpu"):
            copy_kernel(root, runner)
        write(root, "first", *ASKING)
        write(root, "second", *SHOWING)
        dress(root)
        for runner, place, source in (
            ("cpu", "here: cpu", "measured on a processor"),
            ("simulated", "there: cuda", "modelled for a T4"),
        ):
            printed = {"place": [display(text_plain=place)]}
            printed["sum"] = [text("so:\n"), display(text_plain="4")]
            keep(root, "first", runner, printed)
            printed = {"show": [timeline(source)], "where": [display(text_plain=place)]}
            keep(root, "second", runner, printed)
        printed = {"show": [text("none\n")], "where": [display(text_plain="on a real card")]}
        keep(root, "second", "h100", printed, **H100)
        build_site(root)

    return once("tiny-book", make)


@pytest.fixture(scope="session")
def tiny_site(tiny_book):
    return tiny_book / "_build" / "html"
