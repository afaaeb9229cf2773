"""What becomes of a call: the words in which it is refused, its result in a thread."""

from concurrent.futures import ThreadPoolExecutor


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
