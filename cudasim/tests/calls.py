"""Small helpers for tests: the text of an error, a call in a thread, memory on a GPU."""

from concurrent.futures import ThreadPoolExecutor

import torch

MIB = 2**20


def raised(call, kind=RuntimeError):
    """Return the message of the error that `call` raises, which must be exactly of this kind."""
    try:
        call()
    except kind as error:  # pytest.raises would keep what is in its frames
        assert type(error) is kind
        return str(error)
    raise AssertionError(f"no {kind.__name__} was raised")


def in_thread(call):
    """Return what `call` returns in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def block(mib, device="cuda"):
    """Return a tensor that takes this many MiB."""
    return torch.empty(int(mib * MIB), dtype=torch.uint8, device=device)
