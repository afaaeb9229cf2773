"""Streams and events; more of them is asked by `fidelity/programs/streams.py`."""

import pytest
import torch
from calls import in_thread

import cudasim
from fidelity.helpers import raised

pytestmark = pytest.mark.usefixtures("two_gpus")


def test_streams_are_numbered_as_cudas():
    first, second = torch.cuda.Stream(), torch.Stream(device="cuda")
    # As c10/cuda/CUDAStream.cpp counts.
    assert (first.stream_id, second.stream_id) == (3, 35)
    assert repr(second) == "torch.Stream device_type=cuda, device_index=0, stream_id=35"
    assert torch.Stream(1).device == torch.device("cuda:1")
    assert in_thread(lambda: torch.cuda.current_stream(1).stream_id) == 0
    assert type(torch.Event("cpu")) is not type(torch.Event("cuda"))


def test_an_event_has_an_index_once_it_is_recorded():
    """Of the device that it is made with it keeps the type (torch/csrc/Event.cpp)."""
    for device in (None, "cuda", "cuda:1", 1, "cuda:7"):
        event = torch.Event(device)
        assert event.device == torch.device("cuda")
        assert repr(event).startswith("torch.Event device_type=cuda, device_index=-1, ")

    event.record(torch.Stream("cuda:1"))
    assert event.device == torch.device("cuda:1")
    assert "device_index=1, " in repr(event)
    assert torch.cuda.Event().device is None


def test_an_event_is_recorded_on_one_gpu():
    """The words are of c10/cuda/impl/CUDAGuardImpl.h, and of ATen/cuda/CUDAEvent.h."""
    for event, place in (
        (torch.Event(), "device index"),
        (torch.cuda.Event(), "device"),
    ):
        event.record(torch.Stream("cuda:1"))
        error = raised(lambda event=event: event.record(torch.Stream("cuda:0")))
        words = f"Event {place} 1 does not match recording stream's {place} 0."
        assert words in str(error)


def timed_event():
    return torch.cuda.Event(enable_timing=True)


def test_external_streams_keep_their_address():
    stream = torch.cuda.ExternalStream(0x1000, device=1)
    assert (stream.cuda_stream, stream.device_index) == (0x1000, 1)
    assert torch.cuda.get_stream_from_external(0x1000, "cuda:1") == stream
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream().cuda_stream == 0x1000


def test_scatter_caches_the_streams_of_its_simulation():
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


def test_events_obey_a_modelled_clock(modelled):
    start, end = timed_event(), timed_event()
    stream = torch.cuda.current_stream()
    assert stream.query()
    assert start.query()
    start.record()
    torch.cuda._sleep(10**6)
    end.record()
    assert not stream.query()
    assert not end.query()
    error = raised(lambda: start.elapsed_time(end))
    words = "Both events must be completed before calculating elapsed time."
    assert error == f"RuntimeError: {words}"

    end.synchronize()
    assert end.query()
    assert stream.query()
    assert 1 / 1.59 <= start.elapsed_time(end) < 0.68  # a T4 has 1590 MHz
    assert end.elapsed_time(start) == -start.elapsed_time(end)


def test_streams_that_wait_obey_a_modelled_clock(modelled):
    side, other = torch.cuda.Stream(), torch.cuda.Stream(1)
    torch.cuda._sleep(10**6)
    side.wait_stream(torch.cuda.current_stream())
    done = side.record_event(timed_event())
    torch.accelerator.synchronize(1)
    assert other.query()
    assert not side.query()
    other.wait_event(done)  # of another GPU
    assert not other.query()
    other.synchronize()
    assert other.query()
    assert done.query()


def test_events_of_another_simulation_are_refused(modelled):
    old, unused = timed_event(), timed_event()
    old.record()
    cudasim.disable()
    with cudasim.simulate(clock="modelled"):
        new = timed_event()
        new.record()
        torch.cuda.synchronize()
        for use in (
            lambda: old.elapsed_time(new),
            lambda: new.elapsed_time(old),
            unused.record,
            lambda: torch.cuda.current_stream().wait_event(old),
            old.query,
            old.synchronize,
        ):
            assert "a simulation that has ended" in raised(use)
        assert new.query()


def test_an_event_for_other_processes_has_no_times(two_gpus):
    # CUDA's documentation of cudaEventCreateWithFlags: "cudaEventInterprocess must be
    # specified along with cudaEventDisableTiming".
    torch.cuda.Event(interprocess=True).record()
    event = torch.cuda.Event(enable_timing=True, interprocess=True)
    with pytest.raises(RuntimeError, match="CUDA error: invalid argument"):
        event.record()
