"""The cost of a kernel of the program's own."""

import torch
from torch.library import Library, custom_op

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


def test_an_operator_that_mutates_its_argument_compiles(two_gpus):
    """By `auto_functionalized_v2`, in torch/_higher_order_ops/auto_functionalize.py."""

    @custom_op("cudasim_test::increment", mutates_args=("x",))
    def increment(x: torch.Tensor) -> None:
        x.add_(1)

    def program(x):
        increment(x)
        return x * 2

    compiled = torch.compile(program, fullgraph=True, backend="aot_eager")
    x = torch.ones(2, device="cuda:1")
    assert compiled(x).tolist() == [4, 4]
    assert x.tolist() == [2, 2]
    assert compiled(torch.ones(2)).tolist() == [4, 4]
