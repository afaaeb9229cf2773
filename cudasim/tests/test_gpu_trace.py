"""What follows a GPU: callbacks of `torch.cuda._gpu_trace`, streams and events that are busy."""

import time
from unittest.mock import Mock

import pytest
import torch
import torch.cuda._gpu_trace as gpu_trace
from programs import run, write

pytestmark = pytest.mark.usefixtures("two_gpus")


@pytest.fixture
def told(monkeypatch):
    """A function that registers mocks for kinds of events, until the test ends."""
    for value in vars(gpu_trace).values():
        if isinstance(value, torch._utils.CallbackRegistry):
            monkeypatch.setattr(value, "callback_list", [])
    torch._C._activate_gpu_trace()

    def register(*kinds):
        mocks = [Mock() for _ in kinds]
        for kind, mock in zip(kinds, mocks, strict=True):
            getattr(gpu_trace, f"register_callback_for_{kind}")(mock)
        return mocks

    return register


def test_events_are_followed(told):
    created, recorded, waited = told("event_creation", "event_record", "event_wait")
    synchronized, deleted = told("event_synchronization", "event_deletion")
    side, event = torch.cuda.Stream(), torch.cuda.Event()
    created.assert_not_called()
    event.record(side)
    handle = event.cuda_event
    created.assert_called_once_with(handle)
    recorded.assert_called_once_with(handle, side.cuda_stream)
    event.wait()
    waited.assert_called_once_with(handle, 0)
    event.synchronize()
    synchronized.assert_called_once_with(handle)
    deleted.assert_not_called()
    del event
    deleted.assert_called_once_with(handle)


def test_streams_and_waits_are_followed(told):
    created, stream = told("stream_creation", "stream_synchronization")
    (device,) = told("device_synchronization")
    side = torch.cuda.Stream()
    created.assert_called_once_with(side.cuda_stream)
    torch.cuda.synchronize()
    device.assert_called_once_with()
    side.synchronize()
    stream.assert_called_once_with(side.cuda_stream)
    x = torch.ones(3, device="cuda")
    for work in (x.nonzero, x.cpu, x.sum().item, x.tolist, lambda: repr(x)):
        stream.reset_mock()
        with torch.cuda.stream(side):
            work()
        stream.assert_called_with(side.cuda_stream)
    stream.reset_mock()
    x + 1
    stream.assert_not_called()


MADE = {
    "factory": lambda x: torch.empty(2, 3, device="cuda"),
    "move": lambda x: torch.ones(3).cuda(),
    "operation": lambda x: x + 1,
    "to the other": lambda x: x.to("cuda:1"),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_memory_is_followed(told, make):
    x = torch.ones(3, device="cuda")
    taken, freed = told("memory_allocation", "memory_deallocation")
    made = make(x)
    address, view = made.data_ptr(), made[1:]
    del made
    freed.assert_not_called()
    del view
    freed.assert_called_once_with(address)
    torch.ones(3) + 1
    taken.assert_called_once_with(address)


RACE = """
    import torch
    import torch.cuda._sanitizer as sanitizer
    sanitizer.enable_cuda_sanitizer()
    x = torch.rand(4, 2, device="cuda")
    side = torch.cuda.Stream()
    WAIT
    with torch.cuda.stream(side):
        torch.mul(x, 5, out=x)
    torch.cuda.synchronize()
    y = x + 1
    for _ in range(20):
        with torch.cuda.stream(torch.cuda.Stream()):
            z = torch.ones(4, 2, device="cuda") + 1
    print("no race")
"""


@pytest.mark.parametrize(
    "wait",
    ["", "side.wait_stream(torch.cuda.current_stream())", "torch.cuda.synchronize()"],
)
def test_the_sanitizer_finds_a_race(wait, tmp_path):
    script = write(tmp_path / "race.py", RACE.replace("WAIT", wait))
    got = run("-m", "cudasim", script, cwd=tmp_path)
    if wait:
        assert got.stdout == "no race\n", got.stderr
        return
    assert (
        "CSAN detected a possible data race on tensor with data pointer" in got.stderr
    )
    assert "writing to argument(s) self, out, and to the output" in got.stderr
    assert got.stderr.splitlines()[-1].endswith(
        "CUDASanitizerErrors: detected 1 errors"
    )


# Busy streams.

SECOND = 1_000_000_000  # cycles


def test_a_stream_that_sleeps_is_busy_and_the_host_goes_on():
    side, other, began = torch.cuda.Stream(), torch.cuda.Stream(), time.perf_counter()
    with torch.cuda.stream(side):
        first, second = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        torch.cuda._sleep(SECOND)
        second.record()
    assert first.query() and torch.cuda.default_stream().query() and other.query()
    assert not second.query() and not side.query()
    with pytest.raises(RuntimeError, match="must be completed"):
        first.elapsed_time(second)
    other.wait_stream(side)
    torch.cuda.current_stream().synchronize()
    assert not other.query()  # as busy as the one that it waits for
    second.synchronize()
    assert second.query() and side.query() and other.query()
    assert 1000 <= first.elapsed_time(second) <= (time.perf_counter() - began) * 1e3
