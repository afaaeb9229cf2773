"""Tags: how a CPU tensor says on which simulated GPU it lives. A storage keeps Python attributes
for as long as its memory lives, so a tag follows every view, parameter and tensor saved by
autograd, and dies when the last of them is gone."""

import torch
from torch import Tensor
from torch._C import _are_functorch_transforms_active
from torch.overrides import has_torch_function_unary

from cudasim.device.gpu import GPU, Allocation
from cudasim.dispatch import traces
from cudasim.dispatch.calls import Scratch
from cudasim.session import session

TAG = "_cudasim"
PINNED = "_cudasim_pinned"  # the mark of a storage in pinned memory of the host
CPU = torch.device("cpu")


def storage_of(tensor: Tensor) -> torch.UntypedStorage | None:
    """The storage that carries the tag of `tensor`; None for one that has none."""
    if has_torch_function_unary(
        tensor
    ):  # as in C++, subclasses and modes do not see it
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
    tag = getattr(storage_of(tensor), TAG, None)
    return type(tag) is Scratch and tag.runs()


def gpu_of(tensor: Tensor) -> GPU | None:
    """The simulated GPU on which `tensor` lives; None for the CPU. Raises RuntimeError if the
    simulation in which it was made has ended."""
    if _are_functorch_transforms_active():
        while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            tensor = torch._C._functorch.get_unwrapped(tensor)
    elif not has_torch_function_unary(tensor):  # as nearly always, so in few calls
        try:
            tag = tensor.untyped_storage()._cudasim  # TAG
            if tag is None or tag.gpu is None or tag.gpu.alive:
                return tag and tag.gpu
        except (
            AttributeError,
            RuntimeError,
        ):  # there is no simulation, or as in `storage_of`
            pass
    return gpu_of_storage(storage_of(tensor))


def gpu_read(tensor: Tensor) -> GPU | None:
    """As `gpu_of`, for who reads the numbers. Raises the error of a context that is lost."""
    if (gpu := gpu_of(tensor)) is not None:
        gpu.check()
    return gpu


def gpu_of_storage(storage: torch.UntypedStorage | None) -> GPU | None:
    tag = getattr(storage, TAG, None)
    gpu = None if tag is None else tag.gpu
    if gpu is not None and not gpu.alive and gpu.lost is None:
        words = f"this tensor lived on {gpu.device} of a simulation that has ended; make it again"
        raise RuntimeError(f"{words}, or move it to the CPU before cudasim.disable()")
    return gpu


def device_of(tensor: Tensor) -> torch.device:
    gpu = gpu_of(tensor)
    return gpu.device if gpu else torch.device("meta") if tensor.is_meta else CPU


INDICES = {  # of a sparse tensor, which count as memory too
    torch.sparse_coo: ("_indices",),
    **dict.fromkeys(
        (torch.sparse_csr, torch.sparse_bsr), ("crow_indices", "col_indices")
    ),
    **dict.fromkeys(
        (torch.sparse_csc, torch.sparse_bsc), ("ccol_indices", "row_indices")
    ),
}


def put(
    tensor: Tensor, gpu: GPU | None, allocation: Allocation | None = None
) -> Tensor:
    """Tag `tensor`, whose storage is new, as on `gpu`, or the CPU; returns it. `allocation` is
    memory that was taken for it before. Raises TypeError for a dtype that `gpu` lacks."""
    storage = storage_of(tensor)
    if storage is None:
        return tensor
    if gpu is None:
        _forget(storage)
    else:
        if gpu.type.missing and not is_scratch(tensor):
            gpu.type.check_dtype(tensor)  # C++'s scratch may be of any type
        if allocation is None:
            allocation = Allocation(gpu, storage.nbytes())
        else:
            allocation.resize(storage.nbytes())
        setattr(storage, TAG, allocation)
        traces.follow(storage)
    if tensor.layout is not torch.strided:
        with torch._C._DisableTorchDispatch():
            indices = [
                getattr(tensor, name)() for name in INDICES.get(tensor.layout, ())
            ]
        for part in [each.untyped_storage() for each in indices]:
            if gpu is None:
                _forget(part)
            elif gpu_of_storage(part) is None:  # else they are shared
                setattr(part, TAG, Allocation(gpu, part.nbytes()))
    return tensor


def _forget(storage: torch.UntypedStorage) -> None:
    if getattr(storage, TAG, None) is not None:
        delattr(storage, TAG)


def foretell(storage: torch.UntypedStorage, size: int) -> None:
    """Take the memory for a storage that will grow to `size` bytes; `recount` it afterwards. Raises
    PyTorch's error if the card has not so much left."""
    tag = getattr(storage, TAG, None)
    if tag is not None and tag.gpu is not None and size > storage.nbytes():
        tag.resize(size)


def recount(storage: torch.UntypedStorage) -> None:
    tag = getattr(storage, TAG, None)
    if tag is not None and tag.gpu is not None:
        tag.resize(storage.nbytes())


def pin_as_copied(copy: Tensor, non_blocking: bool) -> Tensor:
    """What has come from a GPU is pinned if nobody waited for it (ATen's TensorConversions.cpp)."""
    if non_blocking and session.type.pins_copies and copy.layout is torch.strided:
        setattr(storage_of(copy), PINNED, True)
    return copy
