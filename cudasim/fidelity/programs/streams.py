"""Streams and events: order, identity, refusals."""

import threading

import torch

from fidelity.asking import beginning, gpus, raised


def the_default_stream():
    stream = torch.cuda.default_stream()
    return (
        repr(stream),
        stream == torch.cuda.current_stream(),
        stream.cuda_stream,
        stream.query(),
    )


def a_new_stream():
    stream = torch.cuda.Stream()
    return (
        repr(stream).partition("0x")[0],
        str(stream.device),
        stream == torch.cuda.current_stream(),
    )


def streams_are_equal_to_themselves_alone():
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    return (
        first == first,
        first == second,
        len({first, second, first}),
        first == "stream",
    )


def a_context_makes_a_stream_current():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        within = torch.cuda.current_stream() == stream
    return within, torch.cuda.current_stream() == torch.cuda.default_stream()


def a_context_without_a_stream_does_nothing():
    with torch.cuda.stream(None):
        return torch.cuda.current_stream() == torch.cuda.default_stream()


def a_stream_is_set():
    stream = torch.cuda.Stream()
    torch.cuda.set_stream(stream)
    current = torch.cuda.current_stream() == stream
    torch.cuda.set_stream(torch.cuda.default_stream())
    return current


def a_thread_has_the_default_stream():
    found = []
    with torch.cuda.stream(torch.cuda.Stream()):
        default = torch.cuda.default_stream()
        thread = threading.Thread(
            target=lambda: found.append(torch.cuda.current_stream() == default)
        )
        thread.start()
        thread.join()
    return found


def work_is_done_in_order():
    stream, x = torch.cuda.Stream(), torch.ones(2, device="cuda")
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = x * 2
    torch.cuda.current_stream().wait_stream(stream)
    return (y + 1).tolist()


def streams_come_back_after_thirty_two():
    streams = [torch.cuda.Stream() for _ in range(33)]
    return streams[0] == streams[32], len(set(streams))


def streams_have_priorities():
    return [torch.cuda.Stream(priority=priority).priority for priority in (0, -1, 1)]


def priorities_have_a_range():
    return torch.cuda.Stream.priority_range(), torch.cuda.Stream(priority=-9).priority


def streams_of_what_is_no_gpu():
    return [
        raised(lambda: torch.cuda.Stream("cpu")),
        raised(lambda: torch.cuda.current_stream("cpu")),
        beginning(lambda: torch.cuda.Stream(99)),
        beginning(lambda: torch.Stream(99)),
    ]


def streams_of_any_device():
    stream = torch.Stream("cuda")
    return (
        str(stream.device),
        isinstance(torch.cuda.Stream(), torch.Stream),
        stream.query(),
    )


def tensors_remember_streams():
    stream = torch.cuda.Stream()
    x = torch.ones(2, device="cuda")
    return x.record_stream(stream), beginning(
        lambda: torch.ones(2).record_stream(stream)
    )


def events_print():
    event = torch.cuda.Event()
    before = repr(event)
    event.record()
    return before, repr(event).partition("0x")[0]


def events_happen():
    event = torch.cuda.Event()
    before = event.query()
    event.record()
    event.synchronize()
    return before, event.query()


def events_measure():
    first, second = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    torch.ones(2, device="cuda") + 1
    second.record()
    torch.cuda.synchronize()
    return first.elapsed_time(second) >= 0, second.elapsed_time(first) <= 0


def events_without_a_clock():
    first, second = torch.cuda.Event(), torch.cuda.Event()
    first.record(), second.record()
    torch.cuda.synchronize()
    return raised(lambda: first.elapsed_time(second))


def events_that_were_not_recorded():
    first, second = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    return raised(lambda: first.elapsed_time(second)), raised(
        lambda: second.elapsed_time(first)
    )


def streams_record_events():
    stream = torch.cuda.Stream()
    event = stream.record_event()
    stream.wait_event(event)
    stream.synchronize()
    return type(event).__name__, event.query(), str(event.device)


def events_of_any_device():
    event = torch.Event("cuda", enable_timing=True)
    event.record()
    event.synchronize()
    return str(event.device), event.query(), isinstance(torch.cuda.Event(), torch.Event)


def a_stream_is_a_context_itself():
    stream = torch.cuda.Stream()
    with stream:
        return torch.cuda.current_stream() == stream


def a_graph_is_captured_and_replayed():
    def capture():
        x = torch.zeros(1, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            x += 1
        graph.replay()
        graph.replay()
        if x.item() != 2:
            raise AssertionError(f"the graph left {x.item()}")

    return raised(capture)


@gpus(2)
def each_gpu_has_a_default_stream():
    streams = [torch.cuda.current_stream(i) for i in (0, 1)]
    return [repr(stream) for stream in streams], streams[0] == streams[1]


@gpus(2)
def a_stream_of_the_other_gpu_makes_it_current():
    with torch.cuda.stream(torch.cuda.Stream(1)):
        within = torch.cuda.current_device()
    return within, torch.cuda.current_device()


@gpus(2)
def a_context_is_left_as_it_was_entered():
    here, there, told = torch.cuda.Stream(0), torch.cuda.Stream(1), []
    with torch.cuda.stream(here):
        with there as entered:
            told += [entered is there, torch.cuda.current_stream() == there]
            told += [torch.cuda.current_stream(0) == here, torch.cuda.current_device()]
            told.append(str(torch.ones(1, device="cuda").device))
        told += [torch.cuda.current_stream() == here, torch.cuda.current_device()]
    told.append(torch.cuda.current_stream(1) == torch.cuda.default_stream(1))
    return told


@gpus(2)
def an_error_in_a_context_of_the_other_gpu():
    def fail():
        with torch.cuda.stream(torch.cuda.Stream(1)):
            raise KeyError

    told = raised(fail), torch.cuda.current_device()
    return *told, torch.cuda.current_stream() == torch.cuda.default_stream()


@gpus(2)
def a_stream_of_the_other_gpu_is_set():
    torch.cuda.set_stream(torch.cuda.Stream(1))
    device = torch.cuda.current_device()
    torch.cuda.set_stream(torch.cuda.default_stream(0))
    return device, torch.cuda.current_device()


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
