"""Assertions in kernels: what the CPU refuses at once, CUDA finds in the middle of a kernel.

The kernel stops, and the context of that GPU with it: whatever needs the GPU afterwards fails with
the same error, until the process ends; here, the simulation. CUDA tells of it at a later call, or
with CUDA_LAUNCH_BLOCKING=1 at the one that was wrong; here it is always that one, and the CPU's
error, which names the index, is the cause. The kernels are those with a `CUDA_KERNEL_ASSERT` in
aten/src/ATen/native/cuda of PyTorch 2.6.
"""

import re
from collections.abc import Callable
from typing import Any

import torch
from torch.cuda._utils import _get_device_index

from cudasim.device.gpu import GPU
from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.operators import Rule, around, name_of
from cudasim.dispatch.tags import gpu_of
from cudasim.session import session

# Each stands for its form in place, too.
OPERATORS = (
    "_assert_async _embedding_bag _embedding_bag_forward_only _index_put_impl _unsafe_index "
    "_unsafe_index_put bernoulli binary_cross_entropy embedding gather index index_add index_copy "
    "index_fill index_put index_select max_unpool2d max_unpool3d multinomial nll_loss2d_forward "
    "nll_loss_forward poisson put scatter scatter_add scatter_reduce take"
).split()
# What the CPU says where CUDA's kernel stops.
WORDS = re.compile(
    r"index (-?\d+ is )?out of bounds|index -?\d+ is out of bounds|index out of range in self"
    r"|tried to access index|Target -?\d+ is out of bounds|found idx to be|element < 0"
    r"|should be between 0 and 1|p_in >= 0|p >= 0|invalid max index|single nonzero value"
    r"|invalid Poisson rate|not in the valid range|invalid multinomial distribution"
)


@around(*OPERATORS, idle=lambda args: True)
def asserting(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """What the CPU refuses stops the GPU, where the operator's kernel for CUDA asserts it."""
    try:
        return inner(func, args, kwargs)
    except (IndexError, RuntimeError) as error:
        words = session.type.assertion()
        gpus = {gpu_of(tensor) for tensor in tensors_in((*args, *kwargs.values()))} - {None}
        if words is None or not gpus or not WORDS.search(str(error)):
            raise
        if name_of(func) == "multinomial" and not draws_in_kernel(*args, **kwargs):
            raise
        lose(gpus.pop())
        raise words from error


def draws_in_kernel(
    input: torch.Tensor, num_samples: int, replacement: bool = False, **kwargs: Any
) -> bool:
    """Whether CUDA's `multinomial` leaves the look at the probabilities to its kernel."""
    return replacement and num_samples > 1


def lose(gpu: GPU) -> None:
    """Refuse what needs `gpu` from now on, until the simulation ends."""
    if all(each.lost is None for each in session.gpus):
        guard()
    gpu.lose(session.type.assertion)


def guard() -> None:
    """Have what waits for a GPU look first whether its context is lost."""
    for owner in (torch.cuda, torch.accelerator, torch.cuda.Stream, torch.cuda.Event):
        session.patches.wrap(owner, "synchronize", synchronize)


def synchronize(original: Callable, of: Any = None) -> None:
    """`synchronize`, of a GPU, or a stream or an event of one, that may be lost."""
    if not isinstance(of, torch.cuda.Stream | torch.cuda.Event):
        session.gpu(_get_device_index(of, optional=True)).check()
    elif of.device is not None:  # an event has one when it is recorded
        session.gpu(of.device.index).check()
    original(of)
