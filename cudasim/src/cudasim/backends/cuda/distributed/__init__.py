"""`torch.distributed` between simulated GPUs: gloo, which sees the CPU tensors that theirs are,
does the work of NCCL. What NCCL refuses is refused here, in its words (`refusals`, `errors`); what
would hang or mix up data on real GPUs is said at once (`rollcall`)."""

import functools

import torch
import torch.distributed as dist

from cudasim.backends.cuda.distributed import (
    batch_norm as batch_norm,  # registers rules
)
from cudasim.backends.cuda.distributed import (
    clocks,
    collectives,
    errors,
    groups,
    replicas,
)
from cudasim.backends.cuda.distributed import operators as operators  # registers rules
from cudasim.backends.cuda.distributed.table import FUNCTIONS
from cudasim.patching import Patches

# What runs around each function that communicates.
AROUND = dict.fromkeys(FUNCTIONS, collectives.collective)
AROUND |= {"barrier": groups.barrier, "all_to_all": collectives.all_to_all}
AROUND |= {"send": collectives.message, "recv": collectives.message}
NEW = "all_gather_single", "reduce_scatter_single"  # in torch 2.12
GROUPS = ("init_process_group", "new_group", "get_backend", "destroy_process_group")


def patch_distributed(patches: Patches) -> None:
    c10d = dist.distributed_c10d
    replaced = {
        name: functools.partial(clocks.awaited, around)
        for name, around in AROUND.items()
    }
    replaced |= {name: getattr(groups, name) for name in GROUPS}
    replaced["_coalescing_manager"] = collectives.coalescing
    for name in replaced.keys() - {each for each in NEW if not hasattr(c10d, each)}:
        patches.replace(dist, name, patches.wrap(c10d, name, replaced[name]))
    clocks.patch_clocks(patches)
    patches.wrap(c10d, "_get_object_coll_device", groups.object_device)
    patches.wrap(dist, "_broadcast_coalesced", replicas.broadcast_coalesced)
    patches.wrap(dist, "_compute_bucket_assignment_by_size", replicas.assign_buckets)
    patches.replace(dist, "Reducer", replicas.make_reducer(dist.Reducer))
    # Within distributed_c10d the answer stays no: yes there means a class that is not there.
    patches.replace(dist, "is_nccl_available", lambda: True)
    patches.replace(dist, "ProcessGroupNCCL", groups.ProcessGroupNCCL)
    patches.replace(torch.cuda.nccl, "version", lambda: errors.NCCL_VERSION)
