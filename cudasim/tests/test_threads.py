"""Threads that do not come from `threading` see the simulated GPUs too."""

import _thread
import queue

import pytest
import torch

import cudasim
from fidelity.helpers import raised


def answers_of(*calls):
    """The errors that calls raise in a thread without a `threading.Thread`."""
    found = queue.Queue()

    def work(*given, to):
        to.put([raised(call) for call in given])

    _thread.start_new_thread(work, calls, {"to": found})
    return found.get(timeout=60)


@pytest.mark.parametrize("clock", [None, "modelled"])
def test_a_bare_thread_sees_the_gpus(clock):
    before = _thread.start_new_thread
    with cudasim.simulate(gpus=2, clock=clock):
        x = torch.ones(2, device="cuda:1")
        fine, refused = answers_of(lambda: x + x.cuda(1), lambda: x + torch.ones(2))
        assert fine == "no error" and "two devices, cuda:1 and cpu" in refused
        with pytest.raises(TypeError, match="first arg must be callable"):
            _thread.start_new_thread(3, ())
    assert _thread.start_new_thread is before
