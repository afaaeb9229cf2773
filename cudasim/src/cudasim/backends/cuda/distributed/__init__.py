"""`torch.distributed` between simulated GPUs: gloo does the work of NCCL.

Gloo sees the CPU tensors that the GPUs' tensors are, so collectives keep every tag. What
NCCL refuses is refused here, in its words (`refusals`, `errors`); what would hang or mix up data
on real GPUs is said at once (`rollcall`, `fingerprints`).
"""

import torch
import torch.distributed as dist

from cudasim.backends.cuda.distributed import batch_norm as batch_norm  # registers rules
from cudasim.backends.cuda.distributed import functional as functional  # registers rules
from cudasim.backends.cuda.distributed.clocks import awaited, patch_clocks
from cudasim.backends.cuda.distributed.collectives import (
    make_all_to_all,
    make_coalescing,
    make_collective,
    make_p2p,
)
from cudasim.backends.cuda.distributed.errors import NCCL_VERSION
from cudasim.backends.cuda.distributed.groups import (
    make_barrier,
    make_destroy,
    make_get_backend,
    make_init,
    make_new_group,
    make_object_device,
)
from cudasim.backends.cuda.distributed.replicas import (
    make_broadcast_coalesced,
    make_bucket_assignment,
    make_reducer,
)
from cudasim.patching import Patches
from cudasim.session import session

# Functions between processes; those that come first take `op=`, and their first argument
# takes the result. Some are of newer versions of torch only.
REDUCTIONS = "all_reduce reduce reduce_scatter reduce_scatter_tensor reduce_scatter_single".split()
OTHERS = (
    "all_gather all_gather_into_tensor all_gather_single all_to_all all_to_all_single broadcast "
    "gather irecv isend recv scatter send"
).split()
TIMED = {*REDUCTIONS, *OTHERS, "barrier"}


def patch_distributed(patches: Patches) -> None:
    """Make `torch.distributed` accept the backend `nccl`; does nothing in a build without it."""
    if not dist.is_available():
        return
    c10d = dist.distributed_c10d
    functions = {
        "init_process_group": make_init(c10d.init_process_group),
        "new_group": make_new_group(c10d.new_group),
        "get_backend": make_get_backend(c10d.get_backend),
        "destroy_process_group": make_destroy(c10d.destroy_process_group),
        "barrier": make_barrier(c10d.barrier),
    }
    for name in (*REDUCTIONS, *OTHERS):
        if hasattr(c10d, name):
            functions[name] = make_collective(getattr(c10d, name))
    functions["all_to_all"] = make_all_to_all(functions["all_to_all"])
    for name in ("recv", "send"):
        functions[name] = make_p2p(functions[name])
    patch_clocks(patches)
    if session.clock is not None:
        functions |= {name: awaited(functions[name]) for name in (*functions,) if name in TIMED}
    for name, function in functions.items():
        for module in (dist, c10d):
            patches.replace(module, name, function)
    for module in (dist, c10d):
        patches.replace(module, "_coalescing_manager", make_coalescing(c10d._coalescing_manager))
    patches.replace(
        dist, "_broadcast_coalesced", make_broadcast_coalesced(dist._broadcast_coalesced)
    )
    assign = make_bucket_assignment(dist._compute_bucket_assignment_by_size)
    patches.replace(dist, "_compute_bucket_assignment_by_size", assign)
    patches.replace(dist, "Reducer", make_reducer(dist.Reducer))
    patches.replace(c10d, "_get_object_coll_device", make_object_device(c10d))
    # Within distributed_c10d the answer stays no: yes there means a class that is not there.
    patches.replace(dist, "is_nccl_available", lambda: True)
    patches.replace(torch.cuda.nccl, "version", lambda: NCCL_VERSION)
