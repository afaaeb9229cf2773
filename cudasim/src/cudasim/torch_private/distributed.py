"""`torch.distributed`: groups of processes, collectives and DistributedDataParallel."""

from datetime import timedelta

import torch
import torch.distributed as dist

from cudasim.torch_private import Attribute

COALESCING_MANAGER = Attribute(dist.distributed_c10d, "_coalescing_manager")
GET_OBJECT_DEVICE = Attribute(dist.distributed_c10d, "_get_object_coll_device")
BROADCAST_COALESCED = Attribute(dist, "_broadcast_coalesced")
ASSIGN_BUCKETS = Attribute(dist, "_compute_bucket_assignment_by_size")
VERIFY_PARAMETERS = Attribute(dist, "_verify_params_across_processes")
REDUCE_SCATTER_BASE = Attribute(dist.ProcessGroup, "_reduce_scatter_base")
CoalescingManager = torch.distributed.distributed_c10d._CoalescingManager

# The store by which the ranks of the default group found each other.
default_store = torch.distributed.distributed_c10d._get_default_store

# Makes the work of a future.
create_work = torch._C._distributed_c10d._create_work_from_future

# The operators of the functional collectives, which DTensor and compiled programs call.
functional_operators = torch.ops._c10d_functional


def timeout_of(group: dist.ProcessGroup) -> timedelta:
    """Return how long the collectives of `group` wait for a rank."""
    return group._get_backend(torch.device("cpu")).options._timeout
