"""`torch.distributed` between simulated GPUs.

Gloo, which sees the CPU tensors that theirs are, does the work of NCCL. What NCCL refuses
is refused here, in its words (`refusals`, `errors`). What would hang or mix up data on
real GPUs is said at once (`rollcall`).
"""

import functools
import sys
from collections.abc import Callable

import torch
import torch.distributed as dist

# Has functions of torch.distributed by name, so it is there before they are replaced.
from torch.distributed import device_mesh as device_mesh

# Two of these register rules as they are imported.
from cudasim.backends.cuda.distributed import batch_norm as batch_norm
from cudasim.backends.cuda.distributed import (
    clocks,
    collectives,
    errors,
    groups,
    reductions,
    replicas,
    works,
)
from cudasim.backends.cuda.distributed import operators as operators
from cudasim.backends.cuda.distributed.table import FUNCTIONS
from cudasim.patching import Patches
from cudasim.torch_private import distributed as private

# What runs around each function that communicates.
COMMUNICATING: dict[str, Callable] = dict.fromkeys(FUNCTIONS, collectives.collective)
COMMUNICATING["barrier"] = groups.barrier
COMMUNICATING["send"] = collectives.message
COMMUNICATING["recv"] = collectives.message
# What runs around each function that makes groups.
ABOUT_GROUPS: dict[str, Callable] = {
    "init_process_group": groups.init_process_group,
    "split_group": groups.split_group,
}
SINCE_2_12 = ("all_gather_single", "reduce_scatter_single")


def patch_distributed(patches: Patches) -> None:
    for name, around in COMMUNICATING.items():
        _wrap(patches, name, functools.partial(clocks.awaited, around))
    for name, around in ABOUT_GROUPS.items():
        _wrap(patches, name, around)
    _wrap(patches, "batch_isend_irecv", collectives.batch)
    _, coalescing_manager = private.COALESCING_MANAGER
    _wrap(patches, coalescing_manager, collectives.coalescing)

    for name in reductions.METHODS:
        if hasattr(dist.ProcessGroup, name):
            patches.wrap(dist.ProcessGroup, name, reductions.method)
    clocks.patch_clocks(patches)
    patches.wrap(*private.NEW_GROUP, groups.new_group)
    patches.wrap(*private.NAME_GROUP, groups.name_group)
    patches.wrap(*private.SPLIT_SOURCE, groups.split_source)
    patches.replace(*private.DEVICE_TYPES, property(groups.device_types))
    patches.wrap(dist.ProcessGroup, "name", groups.name_of_group)
    for name in ("abort", "shutdown"):
        patches.wrap(dist.ProcessGroup, name, groups.end_group)
        patches.wrap(private.Backend, name, groups.end_backend)
    works.patch_works(patches)
    patches.wrap(*private.LOGGED_BY_REPLICAS, groups.logged_by_replicas)
    patches.wrap(*private.BROADCAST_COALESCED, replicas.broadcast_coalesced)
    patches.wrap(*private.VERIFY_PARAMETERS, replicas.verify_parameters)
    patches.wrap(*private.ASSIGN_BUCKETS, replicas.assign_buckets)
    patches.replace(dist, "Reducer", replicas.make_reducer(dist.Reducer))
    _replace_copies(patches)
    # Within distributed_c10d the answer stays no: yes there means a class that is not there.
    patches.replace(dist, "is_nccl_available", lambda: True)
    for module in (dist.constants, dist.distributed_c10d):
        patches.replace(module, "default_pg_nccl_timeout", groups.NCCL_TIMEOUT)
    patches.replace(dist, "ProcessGroupNCCL", groups.ProcessGroupNCCL)
    patches.replace(torch.cuda.nccl, "version", errors.nccl_version)


def _wrap(patches: Patches, name: str, around: Callable) -> None:
    """Let `around` run around a function, also where `torch.distributed` has imported it."""
    c10d = dist.distributed_c10d
    if name in SINCE_2_12 and not hasattr(c10d, name):
        return
    patches.replace(dist, name, patches.wrap(c10d, name, around))


def _replace_copies(patches: Patches) -> None:
    """Replace functions also in the modules that have imported them by name.

    `init_device_mesh` makes the default group by one (`_setup_world_group_and_device` in
    torch/distributed/device_mesh.py), and DTensor broadcasts and scatters by others
    (torch/distributed/tensor/_collective_utils.py).
    """
    functions = {}
    for before, now in patches.replaced():
        if getattr(before, "__module__", None) == dist.distributed_c10d.__name__:
            functions[id(before)] = now

    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith("torch.distributed."):
            continue
        for name, value in list(vars(module).items()):
            if id(value) in functions:
                patches.replace(module, name, functions[id(value)])
