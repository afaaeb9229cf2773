"""What tests call: errors as words, a thread of its own, memory on a card."""

from concurrent.futures import ThreadPoolExecutor

import torch

MIB = 2**20


def raised(call, kind=RuntimeError):
    """What the error says that `call` raises, which is of this kind and of none below it."""
    try:
        call()
    except kind as error:  # pytest.raises would keep what is in its frames
        assert type(error) is kind
        return str(error)
    raise AssertionError(f"no {kind.__name__} was raised")


def in_thread(call):
    """What `call` returns in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def block(mib, device="cuda"):
    return torch.empty(int(mib * MIB), dtype=torch.uint8, device=device)
