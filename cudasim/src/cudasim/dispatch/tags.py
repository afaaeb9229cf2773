"""Tags: how a CPU tensor records the simulated GPU that it lives on.

A storage keeps Python attributes for as long as its memory lives. So a tag follows every
view, parameter and tensor saved by autograd, and dies when the last of them is gone.
"""

import torch
from torch import Tensor
from torch.overrides import has_torch_function_unary

from cudasim.device.gpu import GPU, Allocation
from cudasim.dispatch import traces
from cudasim.dispatch.host_memory import pin_storage
from cudasim.dispatch.scratch import Scratch
from cudasim.session import session
from cudasim.torch_private.dispatch import (
    DisableTorchDispatch,
    DisableTorchFunction,
    in_transform,
    is_transformed,
    unwrap,
)
from cudasim.torch_private.tensors import mkldnn_layout, sparse_indices, sparse_values

TAG = "_cudasim"  # the attribute of a storage: an `Allocation`, a `Scratch`, or nothing
CPU = torch.device("cpu")
META = torch.device("meta")

# Layouts whose tensors have no storage where they wrap another tensor.
_UNDIVIDED = (torch.strided, mkldnn_layout, torch.jagged)

# The indices of a sparse tensor take memory too: the methods that return them, by layout.
_INDICES = {
    torch.sparse_coo: (sparse_indices,),
    torch.sparse_csr: (Tensor.crow_indices, Tensor.col_indices),
    torch.sparse_bsr: (Tensor.crow_indices, Tensor.col_indices),
    torch.sparse_csc: (Tensor.ccol_indices, Tensor.row_indices),
    torch.sparse_bsc: (Tensor.ccol_indices, Tensor.row_indices),
}


def storage_of(tensor: Tensor) -> torch.UntypedStorage | None:
    """Return the storage that carries the tag of `tensor`; None if it has no storage."""
    if has_torch_function_unary(tensor):
        # As in C++, subclasses and function modes do not see what is read here.
        with DisableTorchFunction():
            return storage_of(tensor)
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):  # sparse, or it wraps others
        layout = tensor.layout

    if layout in _UNDIVIDED:
        if is_transformed(tensor):
            return storage_of(unwrap(tensor))
        return None
    with DisableTorchDispatch():
        read_values = sparse_values if layout is torch.sparse_coo else Tensor.values
        return read_values(tensor).untyped_storage()


def is_scratch(tensor: Tensor) -> bool:
    """Return whether `tensor` is scratch of C++ that has not met a GPU tensor yet."""
    tag = getattr(storage_of(tensor), TAG, None)
    return type(tag) is Scratch and tag.is_running()


def gpu_of(tensor: Tensor) -> GPU | None:
    """Return the simulated GPU on which `tensor` lives; None for the CPU.

    Raises RuntimeError if the simulation in which the tensor was made has ended.
    """
    if in_transform():
        while is_transformed(tensor):
            tensor = unwrap(tensor)
    elif not has_torch_function_unary(tensor):
        # The usual case, kept short: this function is called for nearly every operation.
        try:
            tag = tensor.untyped_storage()._cudasim  # TAG
            if tag is None or tag.gpu is None or tag.gpu.alive:
                return tag and tag.gpu
        except (AttributeError, RuntimeError):
            pass  # there is no simulation, or the tensor has no storage of its own
    return gpu_of_storage(storage_of(tensor))


def gpu_of_storage(storage: torch.UntypedStorage | None) -> GPU | None:
    """Return the simulated GPU on which `storage` lives, as `gpu_of` does."""
    allocation = _allocation_of(storage)
    if allocation is None:
        return None
    gpu = allocation.gpu
    if not gpu.alive and gpu.lost is None:
        raise RuntimeError(
            f"this tensor lived on {gpu.device} of a simulation that has ended; make it "
            "again, or move it to the CPU before cudasim.disable()"
        )
    return gpu


def _allocation_of(storage: torch.UntypedStorage | None) -> Allocation | None:
    """Return the tag of `storage` if it is that of a GPU."""
    tag = getattr(storage, TAG, None)
    return None if tag is None or tag.gpu is None else tag


def gpu_read(tensor: Tensor) -> GPU | None:
    """Return the GPU of a tensor whose numbers are about to be read.

    Raises the error of a lost context, besides those of `gpu_of`.
    """
    gpu = gpu_of(tensor)
    if gpu is not None:
        gpu.check()
    return gpu


def is_on_cuda(value: object) -> bool:
    """Return whether `value` is a tensor on a simulated CUDA GPU."""
    if not isinstance(value, Tensor) or not session.type.is_cuda:
        return False
    return gpu_of(value) is not None


def device_of(tensor: Tensor) -> torch.device:
    """Return the device of `tensor` as CUDA would see it."""
    gpu = gpu_of(tensor)
    if gpu is not None:
        return gpu.device
    return META if tensor.is_meta else CPU


def put(
    tensor: Tensor, gpu: GPU | None, allocation: Allocation | None = None
) -> Tensor:
    """Tag `tensor`, whose storage is new, as living on `gpu`, or on the CPU; return it.

    `allocation` is memory that was taken for it beforehand. Raises TypeError for a dtype
    that `gpu` lacks.
    """
    storage = storage_of(tensor)
    if storage is None:
        return tensor

    if gpu is None:
        _remove_tag(storage)
    else:
        # Scratch of C++ may have any dtype.
        if gpu.type.missing and not is_scratch(tensor):
            gpu.type.check_dtype(tensor)
        if allocation is None:
            allocation = Allocation(gpu, storage.nbytes())
        else:
            allocation.resize(storage.nbytes())
        setattr(storage, TAG, allocation)
        traces.follow(storage)

    if tensor.layout is not torch.strided:
        _put_indices(tensor, gpu)
    return tensor


def indices_of(tensor: Tensor) -> list[Tensor]:
    """Return the indices of a sparse tensor; none of another."""
    with DisableTorchDispatch():
        methods = _INDICES.get(tensor.layout, ())
        return [read_indices(tensor) for read_indices in methods]


def _put_indices(tensor: Tensor, gpu: GPU | None) -> None:
    """Tag the indices of a sparse tensor, unless they are shared with another."""
    for storage in [index.untyped_storage() for index in indices_of(tensor)]:
        if gpu is None:
            _remove_tag(storage)
        elif gpu_of_storage(storage) is None:
            setattr(storage, TAG, Allocation(gpu, storage.nbytes()))


def _remove_tag(storage: torch.UntypedStorage) -> None:
    if getattr(storage, TAG, None) is not None:
        delattr(storage, TAG)


def foretell(storage: torch.UntypedStorage, size: int) -> None:
    """Take the memory for a storage that will grow to `size` bytes.

    Call `recount` when it has grown. Raises PyTorch's out-of-memory error if the card has
    too little left.
    """
    allocation = _allocation_of(storage)
    if allocation is not None and size > storage.nbytes():
        allocation.resize(size)


def recount(storage: torch.UntypedStorage) -> None:
    """Charge the GPU for the size that `storage` has now."""
    allocation = _allocation_of(storage)
    if allocation is not None:
        allocation.resize(storage.nbytes())


def pin_as_copied(copy: Tensor, non_blocking: bool) -> Tensor:
    """Mark a copy from a GPU as pinned if it was `non_blocking`; return it.

    PyTorch copies into pinned memory then (ATen's TensorConversions.cpp).
    """
    if non_blocking and session.type.pins_copies and copy.layout is torch.strided:
        pin_storage(storage_of(copy))
    return copy
