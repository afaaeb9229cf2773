"""The form of the library that is tested."""

import importlib
import os

import pytest


@pytest.fixture
def kit():
    """`trainkit.after`, or what TRAINKIT names: `before`."""
    return importlib.import_module(f"trainkit.{os.environ.get('TRAINKIT', 'after')}")
