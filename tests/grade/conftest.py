"""What tests of grading share."""

import os
import secrets

import pytest

from tools.grade.grade import NoSandbox, strongest
from tools.grade.sandbox import close

# Something in the judge's environment, before its first sandbox starts, that no session may have.
os.environ["HOSTILE_SECRET"] = secrets.token_hex(16)


@pytest.fixture(scope="session")
def sandbox():
    """The strongest sandbox of this machine, or a skip that says why there is none.

    It imports PyTorch once; every session of a process of these tests is forked from it.
    """
    try:
        yield strongest()
    except NoSandbox as reason:
        pytest.skip(str(reason))
    close()
