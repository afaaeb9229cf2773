"""Tags: how a CPU tensor says on which simulated GPU it lives.

A storage keeps Python attributes for as long as its memory lives, so a tag follows every
view, parameter and tensor saved by autograd, and dies when the last of them is gone.
"""

import torch
from torch import Tensor
from torch.overrides import has_torch_function_unary

from cudasim.device.gpu import GPU, Allocation

TAG = "_cudasim"
PINNED = "_cudasim_pinned"  # the mark of a storage in pinned memory of the host
CPU = torch.device("cpu")


class Scratch:
    """The tag of a scratch tensor that C++ made on what it believes is the CPU.

    It adopts the GPU of the first tensor that it meets on one.
    """

    gpu = None
    size = 0


SCRATCH = Scratch()


def storage_of(tensor: Tensor) -> torch.UntypedStorage | None:
    """The storage that carries the tag of `tensor`; None for one that has none."""
    if has_torch_function_unary(tensor):  # as in C++, subclasses and modes do not see it
        with torch._C.DisableTorchFunction():
            return storage_of(tensor)
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):  # sparse, or it wraps others
        layout = tensor.layout
    if layout is torch.strided or layout is torch._mkldnn or layout is torch.jagged:
        if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            return storage_of(torch._C._functorch.get_unwrapped(tensor))
        return None
    with torch._C._DisableTorchDispatch():
        values = tensor._values() if layout is torch.sparse_coo else tensor.values()
        return values.untyped_storage()


def is_scratch(tensor: Tensor) -> bool:
    """True for a scratch tensor of C++ that has met no GPU."""
    return getattr(storage_of(tensor), TAG, None) is SCRATCH


def gpu_of(tensor: Tensor) -> GPU | None:
    """The simulated GPU on which `tensor` lives; None for the CPU.

    Raises RuntimeError if the simulation in which it was made has ended.
    """
    if torch._C._are_functorch_transforms_active():
        while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            tensor = torch._C._functorch.get_unwrapped(tensor)
    return gpu_of_storage(storage_of(tensor))


def gpu_read(tensor: Tensor) -> GPU | None:
    """As `gpu_of`, for who reads the numbers. Raises the error of a context that is lost."""
    gpu = gpu_of(tensor)
    if gpu is not None:
        gpu.check()
    return gpu


def gpu_of_storage(storage: torch.UntypedStorage | None) -> GPU | None:
    """The simulated GPU on which `storage` lives; None for the CPU. Raises as `gpu_of` does."""
    tag = getattr(storage, TAG, None)
    if tag is None or tag.gpu is None:
        return None
    if not tag.gpu.alive and tag.gpu.lost is None:
        raise RuntimeError(
            f"this tensor lived on {tag.gpu.device} of a simulation that has ended; "
            "make it again, or move it to the CPU before cudasim.disable()"
        )
    return tag.gpu


def device_of(tensor: Tensor) -> torch.device:
    """The device that `tensor` says it is on."""
    gpu = gpu_of(tensor)
    if gpu is None:
        return torch.device("meta") if tensor.is_meta else CPU
    return gpu.device


def index_storages_of(tensor: Tensor) -> list[torch.UntypedStorage]:
    """The storages of the indices of a sparse `tensor`, which count as memory too."""
    with torch._C._DisableTorchDispatch():
        if tensor.layout is torch.sparse_coo:
            indices = [tensor._indices()]
        elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
            indices = [tensor.crow_indices(), tensor.col_indices()]
        elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
            indices = [tensor.ccol_indices(), tensor.row_indices()]
        else:
            indices = []
        return [part.untyped_storage() for part in indices]


def put(tensor: Tensor, gpu: GPU | None) -> Tensor:
    """Tag `tensor`, whose storage is new, as living on `gpu`, or on the CPU; returns it.

    Raises TypeError for a dtype that `gpu` lacks.
    """
    storage = storage_of(tensor)
    if storage is None:
        return tensor
    if gpu is None:
        if hasattr(storage, TAG):
            delattr(storage, TAG)
    else:
        if gpu.type.missing and getattr(storage, TAG, None) is not SCRATCH:
            gpu.type.check_dtype(tensor)  # C++'s scratch may be of any type
        setattr(storage, TAG, Allocation(gpu, storage.nbytes()))
    if tensor.layout is not torch.strided:
        for part in index_storages_of(tensor):
            if gpu is None and hasattr(part, TAG):
                delattr(part, TAG)
            elif gpu is not None and getattr(part, TAG, SCRATCH) is SCRATCH:  # else they are shared
                setattr(part, TAG, Allocation(gpu, part.nbytes()))
    return tensor


def recount(storage: torch.UntypedStorage) -> None:
    """Count again a storage whose size may have changed."""
    tag = getattr(storage, TAG, None)
    if tag is not None and tag is not SCRATCH:
        tag.resize(storage.nbytes())
