"""PyTorch's own words for operands that do not agree on their device, from `TensorIterator.cpp`,
`Convolution.cpp`, `IndexingUtils` and `common_device_check_failure` of torch 2.13."""

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from cudasim.dispatch.arguments import named_tensors
from cudasim.dispatch.native_functions import checking_kernel
from cudasim.dispatch.operators import Operator, written_by
from cudasim.dispatch.tables import TABLES
from cudasim.dispatch.tags import CPU, device_of, gpu_of, is_scratch
from cudasim.session import session
from cudasim.words import WORDS

SAID = WORDS["devices"]
Named = list[tuple[str, Tensor]]  # (what an operator calls its argument, tensor)

# Composites whose check is made by an operator that they call: that one, and what it calls
# their arguments, in the order in which it checks them, if not as they do. `mv` is `addmv_` into an
# empty result, which is made on the vector's device.
INSIDE = TABLES["inside"]

# Structured kernels that are given their result once its shape is known, and compare it then.
REDUCTIONS = "all amax amin any argmax argmin mean norm prod sum".split()

# Kernels that know whole numbers alone, on the CPU (`gcd_cpu`) and on CUDA (`gcd_cuda`).
WHOLE_NUMBERS = (
    "bitwise_and bitwise_not bitwise_or bitwise_xor gcd lcm lshift rshift".split()
)


def refuses(operator: Operator, args: tuple, kwargs: dict, hosts: list[Tensor]) -> bool:
    """Whether CUDA refuses the CPU tensors `hosts` beside a GPU's: numbers that are read may be."""
    if any([tensor.dim() for tensor in hosts]) or checks_arguments(operator.func):
        return True
    written = written_by(operator.func, args, kwargs)
    return any(target is tensor for target in written for tensor in hosts)


def disagreement(func: Callable, args: tuple, kwargs: dict) -> RuntimeError:
    """The error of `func` for operands on several devices, from the first of these with words."""
    named = named_tensors(func, args, kwargs)
    named = [
        each for each in named if not is_scratch(each[1])
    ]  # C++'s scratch has no device yet
    own = OWN_WORDS.get(func.overloadpacket.__name__, _checking)
    all_words = (
        words(func, named) for words in (_meta, own, _checking, _reduction, _iterator)
    )
    return RuntimeError(next(filter(None, all_words)))


def name_kernel(error: NotImplementedError) -> None:
    """Name CUDA's kernel instead of the CPU's in the error for a dtype that it lacks."""
    name, _, type = str(error).partition('_cpu" not implemented for ')
    suffix = session.type.kernel_suffix
    if type and suffix and name.strip('"') in WHOLE_NUMBERS:
        error.args = (f'{name}_{suffix}" not implemented for {type}',)


@functools.cache
def checks_arguments(func: Callable) -> bool:
    """Whether CUDA's kernel for `func` requires every tensor, of any shape, on one device."""
    if torch.Tag.pointwise in func.tags:
        return False
    return (
        func.overloadpacket.__name__ in INSIDE
        or checking_kernel(func.name()) is not None
    )


def _meta(func: Callable, named: Named) -> str | None:
    """The meta device's kernels, which go before CUDA's, compare in Python."""
    if not any(tensor.is_meta for _, tensor in named):
        return None
    expected, *others = (device_of(tensor) for _, tensor in named)
    other = next(device for device in others if device != expected)
    return f"Tensor on device {other} is not on the expected device {expected}!"


def _fill(func: Callable, named: Named) -> str | None:
    devices = [device_of(tensor) for _, tensor in named]
    if len(set(devices)) == 1:
        return None
    target, mask, *value = devices
    if value and target == CPU:
        return "masked_fill_: Expected inputs to be on same device"
    return SAID["mask"].format(mask, target)


def _cholesky(func: Callable, named: Named) -> str | None:
    b, a = (device_of(tensor) for _, tensor in named)
    return f"Expected b and A to be on the same device, but found b on {b} and A on {a} instead."


def _dense_and_sparse(func: Callable, named: Named) -> str | None:
    """A sum of a dense and a sparse tensor compares types of devices itself, the dense first."""
    kinds = {tensor.is_sparse: device_of(tensor) for _, tensor in reversed(named)}
    if len(kinds) == 1 or CPU not in kinds.values():
        return None
    operand = "self" if kinds[False] == CPU else "other"
    return f"add: expected '{operand}' to be a {session.type.key} tensor, but got a CPU tensor"


def _convolution(func: Callable, named: Named) -> str | None:
    """A convolution compares types on the CPU and a GPU, devices between two GPUs."""
    tensors = dict(named)
    image = tensors["input"]
    where = device_of(image)
    for name in ("weight", "bias"):
        other = tensors.get(name)
        if other is None or device_of(other) == where:
            continue
        if device_of(other).type == where.type:
            if name == "bias":  # is added by a kernel of its own
                return _iterator(func, [("input", image), ("bias", other)])
            return _argument(name, other, where, "wrapper_CUDA__cudnn_convolution")
        if where == CPU and session.type.has_slow_convolution:
            if not _mkldnn_convolves(image, tensors["weight"]):
                return _argument(
                    name, other, where, "wrapper_CUDA___slow_conv2d_forward"
                )
        said = f"Input type ({_type(image)}) and {name} type ({_type(other)}) should be the same"
        if where == CPU:
            said += f" or input should be a MKLDNN tensor and {name} is a dense tensor"
        return said
    return None


def _checking(func: Callable, named: Named) -> str | None:
    name, tensors = func.overloadpacket.__name__, dict(named)
    kernel, names = INSIDE.get(name, (func.name(), {}))
    if name in ("native_batch_norm", "_native_batch_norm_legit") and _cudnn_normalizes(
        tensors
    ):
        kernel = "cudnn_batch_norm"
    kernel = checking_kernel(kernel)
    if kernel is None:
        return None
    devices = [(argument, device_of(tensor)) for argument, tensor in named]
    if error := session.type.disagreement(name, devices):
        return str(error)
    checked = [
        (new, tensors[old]) for old, new in names.items() if old in tensors
    ] or named
    home = device_of(checked[0][1]) if checked else CPU
    others = (each for each in checked if device_of(each[1]) != home)
    return next((_argument(*each, home, kernel) for each in others), None)


def _reduction(func: Callable, named: Named) -> str | None:
    if func.overloadpacket.__name__ not in REDUCTIONS or named[-1][0] != "out":
        return None
    home, result = device_of(named[0][1]), device_of(named[-1][1])
    return f"Expected out tensor to have device {home}, but got {result} instead"


def _iterator(func: Callable, named: Named) -> str:
    """What element-wise kernels say: the first GPU, and the first operand that is elsewhere."""
    devices = [(device_of(tensor), tensor.dim()) for _, tensor in named]
    home = next((device for device, _ in devices if device != CPU), CPU)
    others = (
        device for device, dim in devices if device != home and (device != CPU or dim)
    )
    return SAID["iterator"].format(home, next(others, CPU))


OWN_WORDS: dict[str, Callable[[Callable, Named], str | None]] = {
    **dict.fromkeys(
        ("convolution", "_convolution", "convolution_overrideable"), _convolution
    ),
    **dict.fromkeys(("masked_fill", "masked_fill_"), _fill),
    **dict.fromkeys(("add", "add_"), _dense_and_sparse),
    "cholesky_solve": _cholesky,
}


def _argument(argument: str, tensor: Tensor, home: torch.device, kernel: str) -> str:
    kernel = kernel.replace("CUDA", session.type.key)
    return SAID["argument"].format(argument, device_of(tensor), home, kernel)


def _cudnn_normalizes(tensors: dict[str, Tensor]) -> bool:
    """Whether CUDA gives this batch normalisation to cuDNN (Normalization.cpp)."""
    image = tensors["input"]
    return (
        session.type.has_cudnn
        and {"weight", "bias"} <= tensors.keys()
        and gpu_of(image) is not None
        and image.dim() >= 3
        and image.dtype is not torch.bfloat16
        and torch.backends.cudnn.enabled
    )


def _type(tensor: Tensor) -> str:
    name = tensor.type()
    return name if gpu_of(tensor) is None else session.type.tensor_type(name)


def _mkldnn_convolves(image: Tensor, weight: Tensor) -> bool:
    """Whether the CPU gives a convolution of `image` to MKLDNN (ConvParams::use_mkldnn)."""
    return (
        image.dtype is torch.float32
        and torch.backends.mkldnn.enabled
        and (
            min(weight.shape[-2:]) > 3
            or image.shape[0] > 1
            or image.shape[:4].numel() > 20480
        )
    )
