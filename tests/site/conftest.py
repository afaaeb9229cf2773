"""The browser that opens the pages, and the site of a tiny book."""

import os
import sys
from contextlib import ExitStack
from pathlib import Path

import matplotlib
import pytest
from browsing import chromium, finds_only, missing
from tiny import make_tiny_book

DEJAVU = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
# The browser, while tests of this folder run.
RUNNING = {}


def pytest_configure(config):
    """On Linux's CI, where a browser belongs, run no test without one."""
    is_worker = hasattr(config, "workerinput")
    if is_worker:
        return  # the process that started it has looked
    if os.environ.get("CI") and sys.platform == "linux" and missing():
        raise pytest.UsageError(missing())


def pytest_runtest_setup(item):
    """Skip what needs a browser that cannot run: here, one reason is printed for all."""
    if "browser" in item.fixturenames and missing():
        pytest.skip(missing())


@pytest.fixture
def browser(request, tmp_path_factory):
    """One Chromium for all tests of this folder, with the same few fonts on every machine.

    It ends with the folder: while Playwright runs, nothing else can use asyncio.
    """
    if "browser" not in RUNNING:
        here = Path(__file__).parent
        [folder] = [node for node in request.node.iter_parents() if node.path == here]
        stack = ExitStack()
        stack.callback(RUNNING.clear)
        environment = finds_only(DEJAVU, tmp_path_factory.mktemp("dejavu"))
        RUNNING["browser"] = stack.enter_context(chromium(env=environment))
        folder.addfinalizer(stack.close)
    return RUNNING["browser"]


@pytest.fixture(scope="session")
def tiny_book(once):
    """The root of a tiny book with predictions, tabs and timelines, and its site."""
    return once("tiny-book", make_tiny_book)


@pytest.fixture(scope="session")
def tiny_site(tiny_book):
    return tiny_book / "_build" / "html"
