"""The collectives: which functions ask for each, and what NCCL does with its arguments."""

from typing import NamedTuple


class Collective(NamedTuple):
    """An operator of `torch.ops.c10d`; numbers are places among its arguments."""

    word: str  # what timelines and the formulas of time call it
    compared: int | None = None  # the tensors that are of one size on every rank
    functions: str = ""  # those of torch.distributed that ask for it
    parts: int | None = None  # a list with a tensor for each rank

    @property
    def moved(self) -> int:
        """The place of the tensors whose bytes travel: the input, where that is the larger."""
        return int(self.word in ("reduce_scatter", "all_to_all", "gather"))


# Those that are made of NCCL's sends and receives, with checks of their own.
PAIRWISE = ("all_to_all", "gather", "scatter", "send", "recv")
# By the operator's name. What `all_gather` gets may be of different sizes, so that is compared.
COLLECTIVES = {
    "allreduce_": Collective("all_reduce", 0, "all_reduce"),
    "allreduce_coalesced_": Collective("all_reduce", 0),
    "broadcast_": Collective("broadcast", 0, "broadcast"),
    "reduce_": Collective("reduce", 0, "reduce"),
    "allgather_": Collective("all_gather", 0, "all_gather", parts=0),
    "allgather_coalesced_": Collective("all_gather", 1),
    "_allgather_base_": Collective("all_gather", 1, "all_gather_into_tensor all_gather_single"),
    "allgather_into_tensor_coalesced_": Collective("all_gather", 1),
    "reduce_scatter_": Collective("reduce_scatter", 1, "reduce_scatter", parts=1),
    "_reduce_scatter_base_": Collective(
        "reduce_scatter", 1, "reduce_scatter_tensor reduce_scatter_single"
    ),
    "reduce_scatter_tensor_coalesced_": Collective("reduce_scatter", 1),
    "alltoall_": Collective("all_to_all", None, "all_to_all", parts=1),
    "alltoall_base_": Collective("all_to_all", None, "all_to_all_single"),
    "gather_": Collective("gather", 1, "gather", parts=0),
    "scatter_": Collective("scatter", 0, "scatter", parts=1),
    "barrier": Collective("barrier", None, "barrier"),
    "send": Collective("send", None, "send isend"),
    "recv_": Collective("recv", None, "recv irecv"),
    "recv_any_source_": Collective("recv"),
}
FUNCTIONS = [name for each in COLLECTIVES.values() for name in each.functions.split()]
