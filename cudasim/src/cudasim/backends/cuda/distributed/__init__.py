"""`torch.distributed` between simulated GPUs: gloo does the work of NCCL.

Gloo sees the CPU tensors that the GPUs' tensors are, so collectives keep every tag. What
NCCL refuses is refused here, in its words (`refusals`, `errors`); what would hang or mix up data
on real GPUs is said at once (`rollcall`). `table` says what is known of each collective.
"""

import functools

import torch
import torch.distributed as dist

from cudasim.backends.cuda.distributed import batch_norm as batch_norm  # registers rules
from cudasim.backends.cuda.distributed import operators as operators  # registers rules
from cudasim.backends.cuda.distributed.clocks import awaited, patch_clocks
from cudasim.backends.cuda.distributed.collectives import (
    all_to_all,
    coalescing,
    collective,
    message,
)
from cudasim.backends.cuda.distributed.errors import NCCL_VERSION
from cudasim.backends.cuda.distributed.groups import (
    ProcessGroupNCCL,
    barrier,
    destroy_process_group,
    get_backend,
    init_process_group,
    new_group,
    object_device,
)
from cudasim.backends.cuda.distributed.replicas import (
    assign_buckets,
    broadcast_coalesced,
    make_reducer,
)
from cudasim.backends.cuda.distributed.table import functions
from cudasim.patching import Patches

GROUPS = {  # what runs around each function
    "init_process_group": init_process_group,
    "new_group": new_group,
    "get_backend": get_backend,
    "destroy_process_group": destroy_process_group,
    "_coalescing_manager": coalescing,
}
SPECIAL = {"barrier": barrier, "all_to_all": all_to_all, "send": message, "recv": message}


def patch_distributed(patches: Patches) -> None:
    """Make `torch.distributed` accept the backend `nccl`."""
    c10d = dist.distributed_c10d
    for name in functions():
        around = functools.partial(awaited, SPECIAL.get(name, collective))
        patches.replace(dist, name, patches.wrap(c10d, name, around))
    for name, around in GROUPS.items():
        patches.replace(dist, name, patches.wrap(c10d, name, around))
    patch_clocks(patches)
    patches.wrap(c10d, "_get_object_coll_device", object_device)
    patches.wrap(dist, "_broadcast_coalesced", broadcast_coalesced)
    patches.wrap(dist, "_compute_bucket_assignment_by_size", assign_buckets)
    patches.replace(dist, "Reducer", make_reducer(dist.Reducer))
    # Within distributed_c10d the answer stays no: yes there means a class that is not there.
    patches.replace(dist, "is_nccl_available", lambda: True)
    patches.replace(dist, "ProcessGroupNCCL", ProcessGroupNCCL)
    patches.replace(torch.cuda.nccl, "version", lambda: NCCL_VERSION)
