"""What the host pays beside the operations: modules, runs of autograd, steps of optimizers."""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn

from cudasim.patching import changed


def watched(payer: Any) -> list[tuple[Any, str, Callable]]:
    """What makes `payer` pay what its `host` costs: attributes of torch, and what replaces them.
    Its `thread` is told while autograd calls the operations."""
    call, run = nn.Module.__call__, torch.autograd._engine_run_backward
    done = torch.optim.Optimizer._optimizer_step_code

    @wraps(call)
    def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        payer.pay(payer.host.module)
        return call(self, *args, **kwargs)

    @wraps(run)
    def _engine_run_backward(outputs: Any, *args: Any, **kwargs: Any) -> Any:
        payer.pay(payer.host.backward + payer.host.node * len(steps(outputs)))
        with changed(payer.thread, by_engine=True):
            return run(outputs, *args, **kwargs)

    @wraps(done)  # PyTorch calls it at the end of every step
    def _optimizer_step_code(self: torch.optim.Optimizer) -> None:
        count = sum(len(group["params"]) for group in self.param_groups)
        payer.pay(payer.host.step + payer.host.parameter * count)
        done(self)

    return [
        (nn.Module, "__call__", __call__),
        (torch.autograd, "_engine_run_backward", _engine_run_backward),
        (torch.optim.Optimizer, "_optimizer_step_code", _optimizer_step_code),
    ]


def steps(outputs: Iterable[Any]) -> set:
    waiting, seen = (
        [each.grad_fn for each in outputs if isinstance(each, Tensor)],
        set(),
    )
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
    return seen
