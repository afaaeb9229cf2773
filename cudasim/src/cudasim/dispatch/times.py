"""What the clock shows, and when a stream is done: by the virtual clock if there is one."""

import time

from cudasim.session import session


def now() -> int:
    """Return the nanoseconds of the virtual clock, or of the machine's."""
    if session.clock is None:
        return time.perf_counter_ns()
    return session.clock.now


def end_of(index: int, stream_id: int) -> int:
    """Return when a stream will have done what it was given."""
    if session.clock is None:
        return session.asleep.get((index, stream_id), 0)
    return session.clock.cards[index].stream(stream_id).end
