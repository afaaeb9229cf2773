"""The history of memory: events, the code that caused them, and the plots that PyTorch draws."""

import base64
import inspect
import json
import re

import pytest
import torch
from calls import in_thread
from torch.cuda._memory_viz import segment_plot, trace_plot

pytestmark = pytest.mark.usefixtures("two_gpus")

record = torch.cuda.memory._record_memory_history


def take():
    return torch.ones(300, device="cuda")


def give_back(tensors):
    tensors.clear()


def events(index=0):
    return torch.cuda.memory._snapshot()["device_traces"][index]


def actions():
    return [event["action"] for event in events()]


def test_events_name_the_code_that_caused_them():
    record()
    give_back([take()])
    torch.cuda.empty_cache()
    assert events(1) == []
    assert actions() == [
        "segment_alloc",
        "alloc",
        "free_requested",
        "free_completed",
        "segment_free",
    ]
    _, alloc, freed, *_ = events()
    assert alloc["size"] == 1200
    assert alloc["addr"] == freed["addr"]
    frame = alloc["frames"][0]
    assert frame["name"] == "take"
    assert "test_history" in frame["filename"]
    assert freed["frames"][0]["name"] == "give_back"


@pytest.mark.parametrize("plot", [trace_plot, segment_plot])
def test_pytorch_draws_the_history(plot):
    record()
    give_back([take()])
    page = plot(torch.cuda.memory._snapshot())
    (drawn,) = re.findall(r'"([A-Za-z0-9+/]{200,}=*)"', page)
    assert b"test_history.py" in base64.b64decode(drawn)


@pytest.mark.parametrize("context", [None, "state", "alloc", "all"])
def test_the_code_is_kept_for_what_was_asked(context):
    record(context=context)
    held = take()
    give_back([take()])
    snapshot = json.dumps(torch.cuda.memory._snapshot())
    assert ("give_back" in snapshot) == (context == "all")
    assert ("take" in snapshot) == (context is not None)
    assert ('"take"' in json.dumps(events())) == (context in ("alloc", "all"))
    del held


def test_only_so_many_events_are_kept():
    record(max_entries=3, skip_actions=["free_requested"])
    for _ in range(5):
        give_back([take()])
    assert actions() == ["free_completed", "alloc", "free_completed"]


def test_recording_ends_and_begins_again():
    record()
    give_back([take()])
    record(context=None)
    assert len(events()) == 4
    record(clear_history=True)
    assert events() == []
    record(None)
    give_back([take()])
    assert events() == []


NEW = "record_cuda" in inspect.signature(record).parameters


def test_a_history_of_the_old_form_skips_actions():
    record(True, trace_alloc_max_entries=9, skip_actions=["free_requested"])
    give_back([take()])
    assert actions() == ["segment_alloc", "alloc", "free_completed"]


def test_events_have_the_metadata_of_their_thread():
    """https://github.com/pytorch/pytorch/pull/165490"""
    memory = torch.cuda.memory
    record()
    memory._set_memory_metadata("mine")
    assert memory._get_memory_metadata() == "mine"
    assert in_thread(memory._get_memory_metadata) == ""
    tensors = [take(), in_thread(take)]
    memory._set_memory_metadata("")
    tensors.clear()
    by_action = [(event["action"], event["user_metadata"]) for event in events()]
    assert by_action[:3] == [
        ("segment_alloc", "mine"),
        ("alloc", "mine"),
        ("alloc", ""),
    ]
    assert {metadata for _, metadata in by_action[3:]} == {""}


def test_the_code_that_took_a_block_is_found_by_its_address():
    read = torch._C._cuda_allocationTraceback  # `_allocation_traceback`, since 2.13
    assert not torch._C._cuda_isHistoryEnabled()
    earlier = take()
    assert read(earlier.data_ptr()) is None
    record()
    tensor = take()
    assert torch._C._cuda_isHistoryEnabled()
    (alloc,) = events()
    assert read(alloc["addr"])[0]["name"] == "take"
    with pytest.raises(NotImplementedError, match="cudasim does not know which"):
        read(tensor.data_ptr())


@pytest.mark.skipif(not NEW, reason="torch 2.14 has it first")
def test_the_hosts_memory_has_a_history_of_its_own():
    record(record_pinned_host_memory=True, record_cuda=False)
    give_back([take()])
    assert events() == []


def test_a_card_that_is_full_is_noted_and_observers_are_told():
    calls = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *facts: calls.append(facts))
    record()
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(2**40, device="cuda")
    last = events()[-1]
    assert last["action"] == "oom"
    assert last["device_free"] > 0
    device, size, *_ = calls[0]
    assert (device, size) == (0, 2**42)
