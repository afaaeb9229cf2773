"""`torch.distributed`: groups of processes, collectives and DistributedDataParallel."""

from datetime import timedelta

import torch
import torch.distributed as dist

from cudasim.torch_private import Attribute

COALESCING_MANAGER = Attribute(dist.distributed_c10d, "_coalescing_manager")
DEVICE_TYPES = Attribute(dist.ProcessGroup, "_device_types")
BROADCAST_COALESCED = Attribute(dist, "_broadcast_coalesced")
ASSIGN_BUCKETS = Attribute(dist, "_compute_bucket_assignment_by_size")
LOGGED_BY_REPLICAS = Attribute(
    torch.nn.parallel.DistributedDataParallel, "_get_ddp_logging_data"
)
VERIFY_PARAMETERS = Attribute(dist, "_verify_params_across_processes")
# By which `new_group` makes one, and what has imported it by name.
NEW_GROUP = Attribute(dist.distributed_c10d, "_new_group_with_tag")
# What names a group: by the ranks in it, and by how many groups this process is in.
NAME_GROUP = Attribute(dist.distributed_c10d, "_process_group_name")
# What finds the communicator of NCCL that a new group's is split from.
SPLIT_SOURCE = Attribute(dist.distributed_c10d, "_get_split_source")
Backend = torch._C._distributed_c10d.Backend  # that a group has for a type of device
DURATION = Attribute(dist.Work, "_get_duration")
REDUCE_SCATTER_BASE = Attribute(dist.ProcessGroup, "_reduce_scatter_base")
CoalescingManager = torch.distributed.distributed_c10d._CoalescingManager

# Raises the error of a list of messages that is none, or of one in several groups.
check_messages = torch.distributed.distributed_c10d._check_p2p_op_list

# The store by which the ranks of the default group found each other.
default_store = torch.distributed.distributed_c10d._get_default_store

# The group of a name.
resolve_group = torch.distributed.distributed_c10d._resolve_process_group

# The operators of the functional collectives, which DTensor and compiled programs call.
functional_operators = torch.ops._c10d_functional


def finished_work(results: list[torch.Tensor]) -> torch.ScriptObject:
    """Return the work of a collective that is done and has `results`."""
    future: torch.futures.Future = torch.futures.Future()
    future.set_result(results)
    work = torch._C._distributed_c10d._create_work_from_future(future)
    return work.boxed()


def gloo_of(group: dist.ProcessGroup) -> dist.ProcessGroupGloo:
    """Return what does the work of `group`."""
    return group._get_backend(torch.device("cpu"))


def timeout_of(gloo: dist.ProcessGroupGloo) -> timedelta:
    """Return how long the collectives of a group wait for a rank."""
    return gloo.options._timeout


def set_backend(group: dist.ProcessGroup, name: str) -> None:
    """Set the backend that `get_backend` and `get_backend_config` name for a group."""
    world = dist.distributed_c10d._world
    _, store = world.pg_map[group]
    world.pg_map[group] = (name, store)
    world.pg_backend_config[group] = str(dist.distributed_c10d.BackendConfig(name))
