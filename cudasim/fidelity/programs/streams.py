"""Streams and events: which are equal, which is current, what is refused."""

import threading

import torch

from fidelity.helpers import beginning, errors, gpus, raised


def streams_come_back_after_thirty_two():
    streams = [torch.cuda.Stream() for _ in range(33)]
    return streams[0] == streams[32], len(set(streams))


def a_thread_has_the_default_stream():
    streams = []

    def look():
        streams.append(torch.cuda.current_stream())

    with torch.cuda.stream(torch.cuda.Stream()):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    return streams == [torch.cuda.default_stream()]


def streams_of_what_is_no_gpu():
    return [
        raised(lambda: torch.cuda.Stream("cpu")),
        raised(lambda: torch.cuda.current_stream("cpu")),
        beginning(lambda: torch.cuda.Stream(99)),
        beginning(lambda: torch.Stream(99)),
    ]


def events_that_were_not_recorded():
    first = torch.cuda.Event(enable_timing=True)
    second = torch.cuda.Event(enable_timing=True)
    first.record()
    return errors(
        lambda: first.elapsed_time(second), lambda: second.elapsed_time(first)
    )


@gpus(2)
def a_context_is_left_as_it_was_entered():
    first = torch.cuda.Stream(0)
    second = torch.cuda.Stream(1)
    with torch.cuda.stream(first):
        with second as entered:
            x = torch.ones(1, device="cuda")
            within = [
                entered is second,
                torch.cuda.current_stream() == second,
                torch.cuda.current_stream(0) == first,
                torch.cuda.current_device(),
                str(x.device),
            ]
        after = torch.cuda.current_stream() == first, torch.cuda.current_device()
    at_the_end = torch.cuda.current_stream(1) == torch.cuda.default_stream(1)
    return within, after, at_the_end


@gpus(2)
def events_of_two_gpus():
    event = torch.cuda.Event(enable_timing=True)
    other = torch.cuda.Event(enable_timing=True)
    event.record(torch.cuda.current_stream(0))
    other.record(torch.cuda.current_stream(1))
    torch.cuda.synchronize(1)
    torch.cuda.synchronize(0)
    return [
        raised(lambda: event.record(torch.cuda.current_stream(1))),
        beginning(lambda: event.elapsed_time(other)),
    ]
