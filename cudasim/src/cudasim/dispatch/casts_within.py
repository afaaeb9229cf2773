"""Operators that autocast does not list, but whose kernels call operators that it lists.

On a card a region of autocast holds within kernels, too, unless autocast called them. So
`torch.sparse.mm` of float32 matrices multiplies in half precision, and the grid of
`affine_grid` is one of halves. Within a dispatch mode PyTorch switches autocast off, and the
kernels of these operators have to be run in sight of both.
"""

from collections.abc import Callable
from typing import Any

from cudasim.dispatch.arguments import operands_of
from cudasim.dispatch.autocast import autocast_key
from cudasim.dispatch.operators import Rule, layer
from cudasim.dispatch.tables import TABLES
from cudasim.dispatch.tags import gpu_of, is_scratch
from cudasim.modes import decompose
from cudasim.session import session
from cudasim.torch_private.dispatch import SetKeyExcluded, has_kernel, is_key_included

# From the kernels below aten/src/ATen/native that all types of device share.
OPERATORS: list[str] = TABLES["autocast"]["within"]
# The keys of such kernels.
SHARED = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")


def _is_off(args: tuple) -> bool:
    """Return whether no region casts; a mode that asks PyTorch hears that none does."""
    return session.autocast is None or not is_key_included(autocast_key())


@layer(*OPERATORS, idle=_is_off)
def cast_within(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Let autocast cast the operands of what the kernel of an operator calls."""
    keys = [key for key in SHARED if has_kernel(func.name(), key)]
    if not keys or _is_off(args) or session.thread.below_autocast:
        return inner(func, args, kwargs)
    operands = operands_of(args, kwargs)
    gpus = {gpu_of(tensor) for tensor in operands if not is_scratch(tensor)}
    if len(gpus) != 1 or None in gpus:  # on the CPU, or refused
        return inner(func, args, kwargs)
    with SetKeyExcluded(autocast_key(), False):
        out = decompose(type(session.mode)(), func, args, kwargs, keys[0])
    # Its cost was booked with what ran within it.
    session.thread.skip_next_booking = session.clock is not None
    return out
