"""Threads that do not come from `threading` see the simulated GPUs too."""

import _thread
import threading

import pytest
import torch

import cudasim


def answer_of(call, *args, **kwargs):
    """What `call` returns, or raises, in a thread without a `threading.Thread`."""
    found, done = [], threading.Event()

    def work(*given, **named):
        try:
            found.append(call(*given, **named))
        except RuntimeError as error:
            found.append(str(error))
        finally:
            done.set()

    _thread.start_new_thread(work, args, kwargs)
    assert done.wait(60)
    return found[0]


@pytest.mark.parametrize("clock", [None, "modelled"])
def test_a_bare_thread_sees_the_gpus(clock):
    before = _thread.start_new_thread
    with cudasim.simulate(gpus=2, clock=clock):
        x = torch.ones(2, device="cuda:1")
        assert answer_of(torch.add, x, other=x).device == torch.device("cuda:1")
        assert "two devices, cuda:1 and cpu" in answer_of(torch.add, x, torch.ones(2))
        with pytest.raises(TypeError, match="first arg must be callable"):
            _thread.start_new_thread(3, ())
    assert _thread.start_new_thread is before
