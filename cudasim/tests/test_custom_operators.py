"""The cost of a kernel of the program's own."""

import torch
from torch.library import Library

import cudasim


def test_what_a_kernel_does_is_booked_once():
    library = Library("cudasim_test", "FRAGMENT")
    with cudasim.simulate(clock="modelled"):
        x = torch.ones(1000, device="cuda")
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x + x, "CUDA")
        with cudasim.timeline() as lanes:
            torch.ops.cudasim_test.twice(x)
        names = [span.name for span in lanes.spans]
        assert "add" in names
        assert "twice" not in names
    library._destroy()
