"""What becomes of a call: the words in which it is refused, its result in a thread."""

from concurrent.futures import ThreadPoolExecutor

import pytest


def raised(call, kind=RuntimeError):
    """What the error says that `call` raises, which is of this kind and of none below it."""
    with pytest.raises(kind) as error:
        call()
    assert type(error.value) is kind
    return str(error.value)


def in_thread(call):
    """What `call` returns in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()
