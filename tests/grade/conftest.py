"""What tests of grading share."""

import pytest

from tools.grade.grade import NoSandbox, strongest


@pytest.fixture(scope="session")
def sandbox():
    """The strongest sandbox of this machine, or a skip that says why there is none."""
    try:
        return strongest()
    except NoSandbox as reason:
        pytest.skip(str(reason))
