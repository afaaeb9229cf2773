"""Threads that do not come from `threading` see the simulated GPUs too."""

import _thread
import queue

import pytest
import torch

import cudasim
from fidelity.helpers import raised


def errors_of(*calls):
    """Return the errors that calls raise in a thread without a `threading.Thread`."""
    answers = queue.Queue()

    def work(*calls, to):
        to.put([raised(call) for call in calls])

    _thread.start_new_thread(work, calls, {"to": answers})
    return answers.get(timeout=60)


@pytest.mark.parametrize("clock", [None, "modelled"])
def test_a_bare_thread_sees_the_gpus(clock):
    before = _thread.start_new_thread
    with cudasim.simulate(gpus=2, clock=clock):
        x = torch.ones(2, device="cuda:1")
        fine, refused = errors_of(lambda: x + x.cuda(1), lambda: x + torch.ones(2))
        assert fine == "no error"
        assert "two devices, cuda:1 and cpu" in refused
        with pytest.raises(TypeError, match="first arg must be callable"):
            _thread.start_new_thread(3, ())
    assert _thread.start_new_thread is before
