"""Streams and events."""

import threading
import time

import pytest
import torch

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


def test_streams_are_contexts_themselves():
    stream = torch.Stream("cuda:1")
    with stream as entered:
        assert entered is stream
        assert torch.accelerator.current_stream() == stream
        assert torch.cuda.current_device() == 1
    assert torch.cuda.current_device() == 0
    assert torch.accelerator.current_stream(1).stream_id == 0
    with pytest.raises(ZeroDivisionError), torch.cuda.Stream():
        raise ZeroDivisionError
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


def test_set_stream_changes_the_gpu_too():
    stream = torch.cuda.Stream(1)
    torch.cuda.set_stream(stream)
    assert torch.cuda.current_stream() == stream and torch.cuda.current_device() == 1
    torch.accelerator.set_stream(torch.accelerator.current_stream(0))
    assert torch.cuda.current_device() == 0


def test_each_thread_has_current_streams_of_its_own():
    torch.cuda.set_stream(torch.cuda.Stream())
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.cuda.current_stream().stream_id))
    thread.start()
    thread.join()
    assert seen == [0]


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


def test_work_in_a_side_stream_is_done_in_order():
    x = torch.ones(4, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
        done = side.record_event()
    torch.cuda.current_stream().wait_event(done)
    y.record_stream(torch.cuda.current_stream())
    assert done.query() and (x + y).tolist() == [3] * 4
    torch.cuda.synchronize()


def test_tensors_of_the_cpu_record_no_stream():
    with pytest.raises(NotImplementedError):
        torch.ones(1).record_stream(torch.cuda.current_stream())


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


def test_events_refuse_in_cudas_words():
    start, end = torch.cuda.Event(), torch.cuda.Event(enable_timing=True)
    with pytest.raises(ValueError, match="Both events must be created with argument 'enable_tim"):
        start.elapsed_time(end)
    start = torch.cuda.Event(enable_timing=True)
    start.record()
    with pytest.raises(ValueError, match="Both events must be recorded before calculating"):
        start.elapsed_time(end)
    with pytest.raises(RuntimeError) as error:
        start.record(torch.cuda.Stream(1))
    assert str(error.value) == "Event device 0 does not match recording stream's device 1."


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


def test_classes_have_the_names_of_torchs():
    event, stream = torch.cuda.Event(), torch.cuda.Stream()
    assert str(type(event)) == "<class 'torch.cuda.streams.Event'>"
    assert type(stream).__name__ == type(torch.Stream("cuda")).__name__ == "Stream"


def test_events_of_two_gpus_measure_nothing():
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    for index, event in enumerate(events):
        event.record(torch.cuda.current_stream(index))
    with pytest.raises(torch.AcceleratorError, match="CUDA error: invalid resource handle\n"):
        events[0].elapsed_time(events[1])


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
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    torch.cuda._sleep(10**6)
    with torch.cuda.stream(side):
        events[0].record()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        events[1].record()
    torch.cuda.synchronize()
    assert events[0].elapsed_time(events[1]) > 0.9
    torch.cuda._sleep(10**6)
    done = torch.cuda.current_stream().record_event()
    assert other.query()
    other.wait_event(done)  # of another GPU
    assert not other.query()
    other.synchronize()
    assert other.query() and done.query()


def test_each_gpu_is_waited_for_by_itself(modelled):
    with torch.cuda.device(1):
        torch.cuda._sleep(10**6)
    torch.cuda.synchronize(0)
    assert not torch.cuda.current_stream(1).query()
    torch.accelerator.synchronize(1)
    assert torch.cuda.current_stream(1).query()


def test_elapsed_time_to_what_is_no_event_of_a_gpu(two_gpus):
    start = torch.cuda.Event(enable_timing=True)
    start.record()
    for end in (3, None, torch.Event("cpu")):
        with pytest.raises(TypeError, match=r"^elapsed_time\(\) needs an event of a GPU, not "):
            start.elapsed_time(end)


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


def test_events_of_two_gpus_measure_nothing_on_a_clock_either(modelled):
    test_events_of_two_gpus_measure_nothing()
