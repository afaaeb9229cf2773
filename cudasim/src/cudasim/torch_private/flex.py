"""What traces the gradients of `flex_attention`, once its module is imported.

That imports the compiler.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._dispatch.python import suspend_functionalization
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import disable_functional_mode
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing


@contextmanager
def making_fakes(tensors: Any) -> Iterator[None]:
    """Make fake tensors in the block, of the mode of `tensors` if they are fake."""
    mode = detect_fake_mode(tensors) or FakeTensorMode(allow_non_fake_inputs=True)
    with (
        suspend_functionalization(),
        disable_functional_mode(),
        disable_proxy_modes_tracing(),
        mode,
    ):
        yield


def name_device(graph: torch.fx.GraphModule, device: torch.device) -> None:
    """Let all tensors that a graph makes be made on `device`."""
    for node in graph.graph.nodes:
        if isinstance(node.kwargs.get("device"), torch.device | str):
            node.update_kwarg("device", device)
    graph.recompile()
