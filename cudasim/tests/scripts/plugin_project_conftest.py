"""The `conftest.py` of a project: it has options of its own, one of a value no rank can have."""

from pathlib import Path

import pytest


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true")
    parser.addoption("--data", type=Path)
    parser.addoption("--odd", type=lambda text: lambda: text)
    parser.addini("greeting", "")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--slow"):
        return
    skip = pytest.mark.skip(reason="without --slow")
    for item in items:
        item.add_marker(skip)
