"""What an error keeps alive while a program handles it: what is in the program's frames."""

import gc
from contextlib import suppress

import pytest
import torch

import cudasim

REFUSED = {
    "view": lambda: ones(3).view(7),
    "add": lambda: ones(3) + ones(5),
    "product": lambda: ones(3) @ ones(5, 5),
    "cat": lambda: torch.cat([ones(3), ones(3, 3)]),
    "devices": lambda: ones(3) + torch.ones(3, device="cuda:1"),
    "layer": lambda: torch.nn.functional.linear(ones(3), ones(4, 9)),
    "attention": lambda: torch.nn.functional.scaled_dot_product_attention(
        ones(2, 3), ones(2, 4), ones(2, 3)
    ),
    "autocast": lambda: in_autocast(lambda: ones(3) @ ones(5, 5)),
    "array": lambda: ones(3).numpy(),
    "gradient": lambda: setattr(ones(3), "grad", torch.ones(3)),
    "copies": lambda: torch._C._broadcast(ones(3), [0, 7]),
    "full card": lambda: ones(2**20, 1) * ones(2**20, 1).expand(2**20, 2**20),
}
SETTINGS = {"plain": {}, "clock": {"clock": "modelled"}, "races": {"races": "raise"}}


def ones(*shape):
    return torch.ones(*shape, device="cuda")


def in_autocast(action):
    with torch.autocast("cuda"):
        action()


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_operands_are_free_while_their_error_is_handled(refused, settings):
    # C++ lets go of its operands before Python sees the error. Only frames of Python in
    # the traceback, here those of the test, hold any.
    with cudasim.simulate(2, **settings), suppress(RuntimeError, TypeError):
        refused()  # what the first call imports leaves cycles
    gc.collect()
    gc.disable()  # a reference that is part of a cycle would last
    try:
        with cudasim.simulate(2, **settings):
            kept = ones(3)
            try:
                try:
                    refused()
                except (RuntimeError, TypeError) as error:
                    raise ValueError("a program's own") from error
            except ValueError:
                assert torch.cuda.memory_allocated() == 512
            del kept
            assert torch.cuda.memory_allocated() == 0
    finally:
        gc.enable()


def test_a_frame_of_the_program_holds_its_tensors_while_its_error_is_handled(two_gpus):
    def fail():
        local = ones(3)
        return local @ ones(5, 5)

    held = torch.cuda.memory_allocated()
    try:
        fail()
    except RuntimeError:
        assert torch.cuda.memory_allocated() == held + 512
    assert torch.cuda.memory_allocated() == held
