"""What the host pays beside the operations: modules, backward passes, optimizer steps.

None of these is an operation of its own, so the dispatch modes do not see them. Three
of torch's functions are replaced instead by ones that pay first.
"""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn

from cudasim.patching import changed
from cudasim.torch_private.tensors import END_STEP, RUN_BACKWARD

Replacement = tuple[Any, str, Callable]  # owner, name of the attribute, new value


def paying_functions(payer: Any) -> list[Replacement]:
    """Return replacements for functions of torch that let `payer` pay for their calls.

    They call `payer.pay(seconds)` with the figures of `payer.host`, and set
    `payer.thread.by_engine` while autograd calls the operations.
    """
    call_module = nn.Module.__call__
    run_backward = RUN_BACKWARD.read()
    end_step = END_STEP.read()

    @wraps(call_module)
    def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        payer.pay(payer.host.module)
        return call_module(self, *args, **kwargs)

    @wraps(run_backward)
    def _engine_run_backward(outputs: Any, *args: Any, **kwargs: Any) -> Any:
        nodes = len(backward_nodes(outputs))
        payer.pay(payer.host.backward + payer.host.node * nodes)
        with changed(payer.thread, by_engine=True):
            return run_backward(outputs, *args, **kwargs)

    @wraps(end_step)
    def _optimizer_step_code(self: torch.optim.Optimizer) -> None:
        parameters = sum(len(group["params"]) for group in self.param_groups)
        payer.pay(payer.host.step + payer.host.parameter * parameters)
        end_step(self)

    return [
        (nn.Module, "__call__", __call__),
        (*RUN_BACKWARD, _engine_run_backward),
        (*END_STEP, _optimizer_step_code),
    ]


def backward_nodes(outputs: Iterable[Any]) -> set:
    """Return the nodes of autograd's graph that a backward pass from `outputs` meets."""
    waiting = [output.grad_fn for output in outputs if isinstance(output, Tensor)]
    nodes = set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in nodes:
            nodes.add(node)
            waiting += [following for following, _ in node.next_functions]
    return nodes
