"""PyTorch's own messages for operands that are not on the same device.

They follow `TensorIterator.cpp`, `Convolution.cpp`, `IndexingUtils` and
`common_device_check_failure` of torch 2.13.
"""

import functools
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from cudasim.device.gpu import GPU
from cudasim.dispatch.arguments import operands_of, tensors_by_name
from cudasim.dispatch.kernel_names import type_on_gpu
from cudasim.dispatch.native_functions import checking_kernel
from cudasim.dispatch.operators import Operator, operator_of, written_by
from cudasim.dispatch.tables import TABLES
from cudasim.dispatch.tags import CPU, device_of, gpu_of, is_scratch
from cudasim.session import session
from cudasim.torch_private.operators import base_name
from cudasim.words import WORDS

MESSAGES = WORDS["devices"]

NamedTensors = list[tuple[str, Tensor]]  # an operator's name for its argument, and it
# (operator, its tensors) -> what CUDA says of their devices, or None
Check = Callable[[Callable, NamedTensors], str | None]


class InnerOperator(NamedTuple):
    """An operator that a composite one calls, and that checks the devices for it."""

    operator: str
    # The composite's names of arguments -> the inner one's, in the order of its checks.
    arguments: dict[str, str]


# `mv`, for example, is `addmv_` into an empty result, which is on the device of the vector.
INNER_OPERATORS = {
    name: InnerOperator(**row) for name, row in TABLES["inner operators"].items()
}

# Structured kernels that get their result when its shape is known, and compare it then.
REDUCTIONS = "all amax amin any argmax argmin mean norm prod sum".split()

BATCH_NORMS = ("native_batch_norm", "_native_batch_norm_legit")


def refuses(operator: Operator, args: tuple, kwargs: dict, hosts: list[Tensor]) -> bool:
    """Return whether CUDA refuses the CPU tensors `hosts` beside tensors on a GPU.

    It accepts single numbers, unless they are written to.
    """
    if any([tensor.dim() for tensor in hosts]) or checks_arguments(operator.func):
        return True
    for target in written_by(operator.func, args, kwargs):
        if any(target is tensor for tensor in hosts):
            return True
    return False


def common_gpu(func: Callable, args: tuple, kwargs: dict) -> GPU:
    """Return the GPU of a call of an operator that CUDA alone has, whose rule computes.

    Raises CUDA's error if its tensors are apart, and that of a lost context.
    """
    gpus = []
    hosts = []
    for tensor in operands_of(args, kwargs):
        gpu = gpu_of(tensor)
        if gpu is not None:
            gpus.append(gpu)
        elif not is_scratch(tensor):
            hosts.append(tensor)
    if not gpus:
        raise NotImplementedError(MESSAGES["by name"].format(func.name()))
    is_refused = hosts and refuses(operator_of(func), args, kwargs, hosts)
    if is_refused or len(set(gpus)) > 1:
        raise disagreement(func, args, kwargs)
    gpus[0].check()
    return gpus[0]


@functools.cache
def checks_arguments(func: Callable) -> bool:
    """Return whether CUDA's kernel requires all tensors, even numbers, on one device."""
    if base_name(func) in INNER_OPERATORS:
        return True
    return checking_kernel(func.name()) is not None


def disagreement(func: Callable, args: tuple, kwargs: dict) -> RuntimeError:
    """Return CUDA's error of `func` for operands on several devices."""
    named = []
    for name, tensor in tensors_by_name(func, args, kwargs):
        if not is_scratch(tensor):  # scratch of C++ has no device yet
            named.append((name, tensor))

    own_check = DEVICE_ERRORS.get(base_name(func))
    for check in (_check_meta, own_check, _check_arguments, _check_reduction):
        message = check and check(func, named)
        if message:
            return RuntimeError(message)
    return RuntimeError(_check_elementwise(func, named))


def _check_meta(func: Callable, named: NamedTensors) -> str | None:
    """The kernels of the meta device go before CUDA's, and compare in Python."""
    if not any(tensor.is_meta for _, tensor in named):
        return None
    expected, *others = [device_of(tensor) for _, tensor in named]
    other = next(device for device in others if device != expected)
    return f"Tensor on device {other} is not on the expected device {expected}!"


def _check_fill(func: Callable, named: NamedTensors) -> str | None:
    devices = [device_of(tensor) for _, tensor in named]
    if len(set(devices)) == 1:
        return None
    target, mask, *value = devices
    if value and target == CPU:
        return "masked_fill_: Expected inputs to be on same device"
    return MESSAGES["mask"].format(mask, target)


def _check_cholesky(func: Callable, named: NamedTensors) -> str | None:
    b, a = [device_of(tensor) for _, tensor in named]
    return (
        "Expected b and A to be on the same device, "
        f"but found b on {b} and A on {a} instead."
    )


def _check_add(func: Callable, named: NamedTensors) -> str | None:
    """A sum with a sparse tensor compares the types of the devices itself."""
    message = _check_sparse_operands(func, named)
    if message:
        return message
    dense, sparse = None, None
    for _, tensor in reversed(named):  # the first of each kind counts
        if tensor.is_sparse:
            sparse = device_of(tensor)
        else:
            dense = device_of(tensor)
    if dense is None or sparse is None or CPU not in (dense, sparse):
        return None
    operand = "self" if dense == CPU else "other"
    key = session.type.key
    return f"add: expected '{operand}' to be a {key} tensor, but got a CPU tensor"


def _check_sparse_operands(func: Callable, named: NamedTensors) -> str | None:
    """Sums and products of two sparse tensors (native/sparse/cuda/SparseCUDATensorMath.cu)."""
    if not all(tensor.is_sparse for _, tensor in named):
        return None
    for name, tensor in named:
        if device_of(tensor) == CPU:
            operator, key = base_name(func).rstrip("_"), session.type.key
            return f"{operator}: expected '{name}' to be {key}, but got CPU"
    return None


def _check_convolution(func: Callable, named: NamedTensors) -> str | None:
    """A convolution compares types between the CPU and a GPU, devices between GPUs."""
    tensors = dict(named)
    image = tensors["input"]
    home = device_of(image)
    for name in ("weight", "bias"):
        other = tensors.get(name)
        if other is None or device_of(other) == home:
            continue
        if device_of(other).type != home.type:
            return _convolution_types(name, tensors, home)
        if name == "bias":  # it is added by a kernel of its own
            return _check_elementwise(func, [("input", image), ("bias", other)])
        return _wrong_argument(name, other, home, "wrapper_CUDA__cudnn_convolution")
    return None


def _convolution_types(
    name: str, tensors: dict[str, Tensor], home: torch.device
) -> str:
    """What a convolution says of its argument `name`, on another type of device."""
    image, other = tensors["input"], tensors[name]
    if home == CPU and session.type.has_slow_convolution:
        if not _is_mkldnn_convolution(image, tensors["weight"]):
            kernel = "wrapper_CUDA___slow_conv2d_forward"
            return _wrong_argument(name, other, home, kernel)

    message = f"Input type ({_type_name(image)}) and {name} type ({_type_name(other)})"
    message += " should be the same"
    if home == CPU:
        message += f" or input should be a MKLDNN tensor and {name} is a dense tensor"
    return message


def _check_recurrent(func: Callable, named: NamedTensors) -> str | None:
    """`check_attributes` of native/RNN.h: the states are compared before the weights."""
    labels = {"hx": "hidden", "cx": "hidden", "weight": "parameter"}
    here = device_of(named[0][1])
    for argument, label in labels.items():
        for name, tensor in named:
            there = device_of(tensor)
            if name == argument and there != here:
                message = WORDS["functions"]["recurrent"]
                return message.format(name=label, here=here, there=there)
    return None


def _check_distances(func: Callable, named: NamedTensors) -> str | None:
    """`cdist_impl`, which calls this kernel for many rows, compares first (Distance.cpp)."""
    first, second = [device_of(tensor) for _, tensor in named]
    if first.type != second.type:
        return MESSAGES["distances of types"].format(first.type, second.type)
    return MESSAGES["distances"].format(first.index, second.index)


def _check_weight_norm(func: Callable, named: NamedTensors) -> str | None:
    """`_weight_norm`, which calls this kernel, compares first (WeightNorm.cpp)."""
    return MESSAGES["weight norm"].format(*[device_of(tensor) for _, tensor in named])


def _check_arguments(func: Callable, named: NamedTensors) -> str | None:
    """What kernels say that compare the devices of all their arguments."""
    name = base_name(func)
    tensors = dict(named)
    inner = INNER_OPERATORS.get(name, InnerOperator(func.name(), {}))
    checking = inner.operator
    if name in BATCH_NORMS and is_cudnn_batch_norm(tensors):
        checking = "cudnn_batch_norm"
    backend = _backend_of(tensors.values())
    kernel = checking_kernel(checking, backend)
    if kernel is None:
        return None

    devices = [(argument, device_of(tensor)) for argument, tensor in named]
    error = session.type.disagreement(name, devices)
    if error:
        return str(error)

    in_order = []
    for outer_name, inner_name in inner.arguments.items():
        if outer_name in tensors:
            in_order.append((inner_name, tensors[outer_name]))
    in_order = in_order or named
    if not in_order:
        return None
    home = device_of(in_order[0][1])
    for argument, tensor in in_order:
        if device_of(tensor) != home:
            return _wrong_argument(argument, tensor, home, kernel)
    return None


def _backend_of(tensors: Iterable[Tensor]) -> str:
    """Return the dispatch key of CUDA's kernel for tensors of which some may be sparse."""
    layouts = {tensor.layout for tensor in tensors}
    if torch.sparse_coo in layouts:
        return "SparseCUDA"
    return "CUDA" if layouts == {torch.strided} else "SparseCsrCUDA"


def _check_reduction(func: Callable, named: NamedTensors) -> str | None:
    if base_name(func) not in REDUCTIONS or named[-1][0] != "out":
        return None
    home, result = device_of(named[0][1]), device_of(named[-1][1])
    return f"Expected out tensor to have device {home}, but got {result} instead"


def _check_elementwise(func: Callable, named: NamedTensors) -> str:
    """Name the first GPU and the first operand that is elsewhere."""
    devices = [device_of(tensor) for _, tensor in named]
    home = next((device for device in devices if device != CPU), CPU)
    for (_, tensor), device in zip(named, devices, strict=True):
        is_number = device == CPU and not tensor.dim()
        if device != home and not is_number:
            return MESSAGES["iterator"].format(home, device)
    return MESSAGES["iterator"].format(home, CPU)


# The base names of operators with messages of their own.
DEVICE_ERRORS: dict[str, Check] = {
    "convolution": _check_convolution,
    "_convolution": _check_convolution,
    "convolution_overrideable": _check_convolution,
    "masked_fill": _check_fill,
    "add": _check_add,
    "mul": _check_sparse_operands,
    "cholesky_solve": _check_cholesky,
    "_cudnn_rnn": _check_recurrent,
    "_euclidean_dist": _check_distances,
    "_weight_norm_interface": _check_weight_norm,
}


def _wrong_argument(
    argument: str, tensor: Tensor, home: torch.device, kernel: str
) -> str:
    kernel = kernel.replace("CUDA", session.type.key)
    return MESSAGES["argument"].format(argument, device_of(tensor), home, kernel)


def is_cudnn_batch_norm(tensors: dict[str, Tensor]) -> bool:
    """Return whether CUDA uses cuDNN for a batch normalization (Normalization.cpp)."""
    image, weight = tensors["input"], tensors.get("weight")
    if weight is None or "bias" not in tensors:
        return False
    if torch.bfloat16 in (image.dtype, weight.dtype):
        return False
    if image.dtype is torch.float16 and weight.dtype is not torch.float32:
        return False
    return (
        session.type.has_cudnn
        and gpu_of(image) is not None
        and image.dim() >= 3
        and torch.backends.cudnn.enabled
    )


def _is_mkldnn_convolution(image: Tensor, weight: Tensor) -> bool:
    """Return whether the CPU uses MKLDNN for a convolution (ConvParams::use_mkldnn)."""
    if image.dtype is not torch.float32 or not torch.backends.mkldnn.enabled:
        return False
    return (
        min(weight.shape[-2:]) > 3
        or image.shape[0] > 1
        or image.shape[:4].numel() > 20480
    )


def _type_name(tensor: Tensor) -> str:
    if gpu_of(tensor) is not None:
        return type_on_gpu(tensor.dtype)
    return tensor.type()
