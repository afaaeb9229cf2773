"""The browser that opens the pages, if the system has what it needs."""

import os
import shutil
import sys

import pytest
from browsing import missing

from tools.browsing import chromium


def pytest_configure(config):
    """On Linux's CI, where a browser belongs, one line says what it lacks, and no test runs."""
    worker = hasattr(config, "workerinput")  # the process that started it has looked
    if os.environ.get("CI") and sys.platform == "linux" and not worker and missing():
        raise pytest.UsageError(missing())


def pytest_runtest_setup(item):
    """Skip what needs a browser that cannot run: skipped here, the reason is said once for all."""
    if "browser" in item.fixturenames and missing():
        pytest.skip(missing())


@pytest.fixture(scope="module")  # while it runs, nothing else can use asyncio
def browser():
    """One Chromium for a file of tests."""
    with chromium() as program:
        yield program


@pytest.fixture
def doctored(site, tmp_path):
    """A copy of the site, to be changed at will."""
    return shutil.copytree(site, tmp_path / "site")
