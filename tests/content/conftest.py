"""The recorded outputs, read once."""

import pytest
from helpers import outputs_path, read
from making import RECORDED


@pytest.fixture(scope="session")
def recordings():
    """Every recorded notebook, by (runner or card, chapter)."""
    notebooks = {}
    for runner, name in RECORDED:
        notebooks[runner, name] = read(outputs_path(name, runner))
    return notebooks
