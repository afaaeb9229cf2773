"""What follows a GPU: callbacks of `torch.cuda._gpu_trace`, streams and events that are busy."""

import time
from unittest.mock import Mock

import pytest
import torch
import torch.cuda._gpu_trace as gpu_trace
from programs import run, write

pytestmark = pytest.mark.usefixtures("two_gpus")


@pytest.fixture
def register(monkeypatch):
    """A function that registers mocks for kinds of events, until the test ends."""
    for value in vars(gpu_trace).values():
        if isinstance(value, torch._utils.CallbackRegistry):
            monkeypatch.setattr(value, "callback_list", [])
    torch._C._activate_gpu_trace()

    def register(*kinds):
        mocks = []
        for kind in kinds:
            mock = Mock()
            getattr(gpu_trace, f"register_callback_for_{kind}")(mock)
            mocks.append(mock)
        return mocks

    return register


MAKERS = {
    "factory": lambda x: torch.empty(2, 3, device="cuda"),
    "move": lambda x: torch.ones(3).cuda(),
    "operation": lambda x: x + 1,
    "to the other": lambda x: x.to("cuda:1"),
}


def test_events_are_followed(register):
    created, recorded, waited = register("event_creation", "event_record", "event_wait")
    synchronized, deleted = register("event_synchronization", "event_deletion")
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


def test_streams_and_waits_are_followed(register):
    created, stream = register("stream_creation", "stream_synchronization")
    (device,) = register("device_synchronization")
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


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_memory_is_followed(register, make):
    x = torch.ones(3, device="cuda")
    taken, freed = register("memory_allocation", "memory_deallocation")
    tensor = make(x)
    address, view = tensor.data_ptr(), tensor[1:]
    del tensor
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


def run_race(tmp_path, wait):
    script = write(tmp_path / "race.py", RACE.replace("WAIT", wait))
    return run("-m", "cudasim", script, cwd=tmp_path)


def test_the_sanitizer_finds_a_race(tmp_path):
    got = run_race(tmp_path, "")
    words = "CSAN detected a possible data race on tensor with data pointer"
    assert words in got.stderr
    assert "writing to argument(s) self, out, and to the output" in got.stderr
    last = got.stderr.splitlines()[-1]
    assert last.endswith("CUDASanitizerErrors: detected 1 errors")


@pytest.mark.parametrize(
    "wait",
    ["side.wait_stream(torch.cuda.current_stream())", "torch.cuda.synchronize()"],
)
def test_the_sanitizer_finds_no_race_where_a_program_waits(tmp_path, wait):
    got = run_race(tmp_path, wait)
    assert got.stdout == "no race\n", got.stderr


# Busy streams.

SECOND = 1_000_000_000  # cycles


def test_a_stream_that_sleeps_is_busy_and_the_host_goes_on():
    side, other = torch.cuda.Stream(), torch.cuda.Stream()
    first = torch.cuda.Event(enable_timing=True)
    second = torch.cuda.Event(enable_timing=True)
    began = time.perf_counter()
    with torch.cuda.stream(side):
        first.record()
        torch.cuda._sleep(SECOND)
        second.record()

    assert first.query()
    assert torch.cuda.default_stream().query()
    assert other.query()
    assert not second.query()
    assert not side.query()
    with pytest.raises(RuntimeError, match="must be completed"):
        first.elapsed_time(second)

    other.wait_stream(side)
    torch.cuda.current_stream().synchronize()
    assert not other.query()  # as busy as the one that it waits for
    second.synchronize()
    assert second.query()
    assert side.query()
    assert other.query()
    assert 1000 <= first.elapsed_time(second) <= (time.perf_counter() - began) * 1e3
