"""Streams and events."""

import time

import pytest
import torch
from calls import in_thread, raised

import cudasim

pytestmark = pytest.mark.usefixtures("two_gpus")


def test_each_gpu_has_a_default_stream():
    stream = torch.cuda.default_stream(1)
    assert repr(stream) == "<torch.cuda.Stream device=cuda:1 cuda_stream=0x0>"
    assert stream == torch.cuda.current_stream("cuda:1") != torch.cuda.default_stream(0)
    assert isinstance(stream, torch.cuda.Stream) and isinstance(stream, torch.Stream)
    assert (stream.device, stream.device_index, stream.stream_id) == (torch.device("cuda:1"), 1, 0)
    assert stream.query() and stream.synchronize() is None


def test_streams_of_a_pool():
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    assert (first.stream_id, second.stream_id) == (3, 35)  # as c10/cuda/CUDAStream.cpp counts
    assert first != second and first.cuda_stream != second.cuda_stream != 0
    assert len({first, second, torch.cuda.Stream(device=1)}) == 3
    for _ in range(30):
        torch.cuda.Stream()
    assert torch.cuda.Stream() == first  # there are 32
    urgent = torch.cuda.Stream(priority=-9)
    assert torch.cuda.Stream.priority_range() == (0, -3)
    assert (first.priority, urgent.priority) == (0, -3)


def test_a_context_makes_a_stream_current():
    here, there = torch.cuda.Stream(), torch.cuda.Stream("cuda:1")
    default = torch.cuda.current_stream()
    with torch.cuda.stream(here):
        assert torch.cuda.current_stream() == here
        with torch.cuda.stream(there):
            assert torch.cuda.current_device() == 1
            assert torch.cuda.current_stream() == there
            assert torch.cuda.current_stream(0) == here
            assert torch.ones(1, device="cuda").device == there.device
        assert torch.cuda.current_stream() == here and torch.cuda.current_device() == 0
        with torch.cuda.stream(None):
            assert torch.cuda.current_stream() == here
    assert torch.cuda.current_stream() == default
    assert torch.cuda.current_stream(1) == torch.cuda.default_stream(1)
    with there as entered:
        assert entered is there and torch.cuda.current_stream() == there
    with pytest.raises(ZeroDivisionError), torch.cuda.Stream():
        raise ZeroDivisionError
    assert torch.cuda.current_stream() == default and torch.cuda.current_device() == 0
    torch.cuda.set_stream(there)
    assert torch.cuda.current_device() == 1
    assert in_thread(lambda: torch.cuda.current_stream(1).stream_id) == 0


def test_streams_by_index_of_the_accelerator():
    assert torch.Stream(1).device == torch.device("cuda:1")
    assert repr(torch.Stream(device="cuda")) == (
        "torch.Stream device_type=cuda, device_index=0, stream_id=3"
    )
    with pytest.raises(torch.AcceleratorError, match="invalid device ordinal"):
        torch.Stream(2)


def test_the_cpu_keeps_its_events_and_has_no_cuda_streams():
    assert torch.Event("cpu").device.type == "cpu"
    assert type(torch.Event("cpu")) is not type(torch.Event("cuda"))
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        torch.cuda.Stream("cpu")


def test_external_streams_keep_their_address():
    stream = torch.cuda.ExternalStream(0x1000, device=1)
    assert (stream.cuda_stream, stream.device_index) == (0x1000, 1)
    assert torch.cuda.get_stream_from_external(0x1000, "cuda:1") == stream
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream().cuda_stream == 0x1000


@pytest.mark.parametrize("kind", ["cuda", "any"])
def test_events_measure_milliseconds_of_the_clock(kind):
    make = torch.cuda.Event if kind == "cuda" else torch.Event
    start, end = make(enable_timing=True), make(enable_timing=True)
    began = time.perf_counter()
    start.record()
    time.sleep(0.01)
    end.record()
    passed = (time.perf_counter() - began) * 1e3
    end.synchronize()
    assert 10 <= start.elapsed_time(end) <= passed
    assert end.elapsed_time(start) == -start.elapsed_time(end)
    assert isinstance(start, torch.Event)


def events(timed=(True, True), recorded=(0, 0)):
    made = [torch.cuda.Event(enable_timing=timing) for timing in timed]
    for event, index in zip(made, recorded, strict=False):
        event.record(torch.cuda.current_stream(index))
    return made


def between(start, end):
    return start.elapsed_time(end)


REFUSED = {
    "Both events must be created with argument 'enable_timing=True'.": (
        lambda: between(*events(timed=(False, True))),
        ValueError,
    ),
    "Both events must be recorded before calculating elapsed time.": (
        lambda: between(*events(recorded=(0,))),
        ValueError,
    ),
    "Event device 0 does not match recording stream's device 1.": (
        lambda: events()[0].record(torch.cuda.Stream(1)),
        RuntimeError,
    ),
    "CUDA error: invalid resource handle\n": (
        lambda: between(*events(recorded=(0, 1))),
        torch.AcceleratorError,
    ),
    "elapsed_time() needs an event of a GPU, not 3": (lambda: between(events()[0], 3), TypeError),
}


@pytest.mark.parametrize("modelled", [False, True])
@pytest.mark.parametrize(("words", "case"), REFUSED.items(), ids=REFUSED)
def test_events_refuse_in_cudas_words(words, case, modelled):
    call, error = case
    cudasim.disable()
    with cudasim.simulate(clock="modelled" if modelled else None):
        assert raised(call, error).startswith(words)


def test_events_print_and_wait():
    event = torch.cuda.Event()
    assert repr(event) == "<torch.cuda.Event uninitialized>"
    assert event.query() and event.wait() is None and event.synchronize() is None
    event.record()
    assert repr(event).startswith("<torch.cuda.Event 0x")
    torch.cuda.Stream(1).wait_event(event)
    assert event.device == torch.device("cuda:0")


def test_classes_imported_before_work_too():
    cudasim.disable()
    from torch.cuda import Event, Stream

    with cudasim.simulate():
        stream, event = Stream(device="cuda:1"), Event(enable_timing=True)
        event.record(stream)
        assert stream.device == event.device == torch.device("cuda:1")
    if not torch.cuda.device_count():
        with pytest.raises(RuntimeError):
            Stream()


def test_the_streams_that_scatter_caches_are_those_of_the_simulation():
    functions = torch.nn.parallel._functions
    cudasim.disable()
    before = functions._streams
    with cudasim.simulate(gpus=3):
        stream = functions._get_stream(torch.device("cuda:2"))
        assert stream.device == torch.device("cuda:2")
        assert functions._get_stream(torch.device("cuda:2")) is stream
    assert functions._streams is before


@pytest.fixture
def modelled():
    """Two simulated GPUs with modelled time, in place of those without."""
    cudasim.disable()
    with cudasim.simulate(clock="modelled"):
        for index in range(2):
            with torch.cuda.device(index):
                torch.cuda._sleep(1)  # what is loaded once is loaded
            torch.cuda.synchronize(index)
        yield


def test_streams_and_events_obey_a_modelled_clock(modelled):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    stream = torch.cuda.current_stream()
    assert stream.query() and start.query()
    start.record()
    torch.cuda._sleep(10**6)
    end.record()
    assert not stream.query() and not end.query()
    with pytest.raises(RuntimeError) as error:
        start.elapsed_time(end)
    assert str(error.value) == "Both events must be completed before calculating elapsed time."
    end.synchronize()
    assert end.query() and stream.query()
    assert 1 <= start.elapsed_time(end) < 1.05
    assert end.elapsed_time(start) == -start.elapsed_time(end)


def test_a_stream_that_waits_begins_later(modelled):
    side, other = torch.cuda.Stream(), torch.cuda.Stream(1)
    torch.cuda._sleep(10**6)
    side.wait_stream(torch.cuda.current_stream())
    done = side.record_event(torch.cuda.Event(enable_timing=True))
    torch.accelerator.synchronize(1)
    assert other.query() and not side.query()
    other.wait_event(done)  # of another GPU
    assert not other.query()
    other.synchronize()
    assert other.query() and done.query()


def test_events_of_another_simulation_are_refused(modelled):
    old, unused = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    old.record()
    cudasim.disable()
    with cudasim.simulate(clock="modelled"):
        new = torch.cuda.Event(enable_timing=True)
        new.record()
        torch.cuda.synchronize()
        for use in (
            lambda: old.elapsed_time(new),
            lambda: new.elapsed_time(old),
            old.query,
            old.synchronize,
            unused.record,
            lambda: torch.cuda.current_stream().wait_event(old),
        ):
            with pytest.raises(RuntimeError, match="a simulation that has ended"):
                use()
        assert new.query()
