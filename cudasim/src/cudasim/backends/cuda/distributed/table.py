"""The collectives: which functions ask for each, and what NCCL does with its arguments."""

from typing import NamedTuple

import torch.distributed as dist


class Collective(NamedTuple):
    """An operator of `torch.ops.c10d`; numbers are places among its arguments."""

    word: str  # what timelines and the formulas of time call it
    functions: str = ""  # those of torch.distributed that ask for it
    functional: str = ""  # the operators of torch.ops._c10d_functional that do
    moved: int = 0  # the tensors whose bytes travel
    compared: int | None = None  # those that are of one size on every rank
    root: int | None = None  # a rank that every rank has to name alike
    each: int | None = None  # a list with a tensor for each rank
    root_list: tuple[int, str] | None = None  # the same, on the root alone; what NCCL calls it
    direct: tuple[int, ...] | None = None  # what goes to NCCL as it lies in memory; None: all
    adds: bool = False
    pairwise: bool = False  # made of NCCL's sends and receives, with checks of their own
    # (the whole, one rank's part of it, what is said of other types and of other sizes)
    flat: tuple[int, int, str, str] | None = None


# By the operator's name. Some functions and operators are of newer versions of PyTorch only.
COLLECTIVES = {
    "allreduce_": Collective(
        "all_reduce", "all_reduce", "all_reduce all_reduce_", compared=0, adds=True
    ),
    "allreduce_coalesced_": Collective(
        "all_reduce", "", "all_reduce_coalesced all_reduce_coalesced_", compared=0, adds=True
    ),
    "broadcast_": Collective("broadcast", "broadcast", "broadcast broadcast_", compared=0, root=2),
    "reduce_": Collective("reduce", "reduce", compared=0, root=3, adds=True),
    "allgather_": Collective(  # inputs may be of different sizes, so what comes is compared
        "all_gather", "all_gather", compared=0, each=0, direct=(1,)
    ),
    "allgather_coalesced_": Collective("all_gather", compared=1),
    "_allgather_base_": Collective(
        "all_gather",
        "all_gather_into_tensor all_gather_single",
        "all_gather_into_tensor all_gather_into_tensor_out",
        compared=1,
        flat=(
            0,
            1,
            "output tensor must have the same type as input tensor",
            "output tensor size must be equal to world_size times input tensor size",
        ),
    ),
    "allgather_into_tensor_coalesced_": Collective(
        "all_gather", "", "all_gather_into_tensor_coalesced", compared=1
    ),
    "reduce_scatter_": Collective(
        "reduce_scatter", "reduce_scatter", moved=1, compared=1, each=1, direct=(0,), adds=True
    ),
    "_reduce_scatter_base_": Collective(
        "reduce_scatter",
        "reduce_scatter_tensor reduce_scatter_single",
        "reduce_scatter_tensor reduce_scatter_tensor_out",
        moved=1,
        compared=1,
        adds=True,
        flat=(
            1,
            0,
            "input tensor must be the same type as the output tensor.",
            "input tensor must be the same size as output size times world size",
        ),
    ),
    "reduce_scatter_tensor_coalesced_": Collective(
        "reduce_scatter", "", "reduce_scatter_tensor_coalesced", moved=1, compared=1, adds=True
    ),
    "alltoall_": Collective("all_to_all", "all_to_all", moved=1, each=1, pairwise=True),
    "alltoall_base_": Collective(
        "all_to_all", "all_to_all_single", "all_to_all_single", moved=1, pairwise=True
    ),
    "gather_": Collective(
        "gather",
        "gather",
        moved=1,
        compared=1,
        root=3,
        root_list=(0, "output"),
        direct=(1,),
        pairwise=True,
    ),
    "scatter_": Collective(
        "scatter", "scatter", compared=0, root=3, root_list=(1, "input"), direct=(0,), pairwise=True
    ),
    "barrier": Collective("barrier", "barrier"),
    # A tensor in pieces is sent with a warning of PyTorch's own.
    "send": Collective("send", "send isend", direct=(), pairwise=True),
    "recv_": Collective("recv", "recv irecv", direct=(), pairwise=True),
    "recv_any_source_": Collective("recv", direct=(), pairwise=True),
}


def kind_of(name: str) -> str:
    """What PyTorch's messages call an operator: `ALLREDUCE`, `_ALLGATHER_BASE`."""
    return name.removesuffix("_").upper()


def functions() -> dict[str, Collective]:
    """The functions of `torch.distributed` that ask for collectives, those that there are."""
    return {
        name: collective
        for collective in COLLECTIVES.values()
        for name in collective.functions.split()
        if hasattr(dist, name)
    }
