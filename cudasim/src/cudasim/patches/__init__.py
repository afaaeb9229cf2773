"""Replacements for attributes of torch that every type of device shares: all are imported here."""

from cudasim.patches import (  # noqa: F401
    attention,
    autograd,
    classes,
    compiler,
    factories,
    functional,
    library,
    moves,
    optim,
    pinning,
    profiling,
    sharing,
    sparse,
    storage,
    tensor,
    threads,
)
