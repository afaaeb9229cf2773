"""Functions and layers that look at devices before they call their operations.

Those would refuse in words of their own. The files named below are in
aten/src/ATen/native.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.devices import in_fake_mode
from cudasim.dispatch.dtypes import check_signal
from cudasim.dispatch.tags import device_of, gpu_of, put
from cudasim.patching import checks, replaces
from cudasim.session import session
from cudasim.torch_private import tensors as private
from cudasim.torch_private.dispatch import in_transform
from cudasim.words import WORDS

# The errors for an `out` that is `there`, and not `here` with the other tensors.
RESULTS = WORDS["results"]
# The errors for an argument called `name`, or in that position (LinearAlgebra.cpp,
# TensorShape.cpp, Sorting.cpp, RNN.h, TensorAdvancedIndexing.cpp).
APART = WORDS["functions"]

INTEGRAL = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
REAL_TRANSFORMS = ("rfft", "ihfft")  # of real numbers
TRANSFORMS = [
    name + dimensions
    for name in ("fft", "ifft", "hfft", "irfft", *REAL_TRANSFORMS)
    for dimensions in ("", "2", "n")
]


def _operands(args: tuple, kwargs: dict) -> list[Tensor]:
    return tensors_in((*args, *kwargs.values()))


def require_same_device(
    first: Tensor, others: Iterable[tuple[Any, Any]], message: str
) -> None:
    """Raise RuntimeError if one of the named `others` is a tensor elsewhere than `first`."""
    here = device_of(first)
    for name, tensor in others:
        if not isinstance(tensor, Tensor):
            continue
        there = device_of(tensor)
        if there != here:
            key = session.type.key
            text = message.format(name=name, here=here, there=there, key=key)
            raise RuntimeError(text)


@checks(torch, "meshgrid", "block_diag")
@checks(torch.linalg, "multi_dot")
def check_together(name: str, *args, **kwargs) -> None:
    tensors = tensors_in(args)
    if tensors:
        require_same_device(tensors[0], enumerate(tensors), APART[name])


@replaces(torch.linalg, "matrix_rank", "cond")
def matrix_rank(
    original: Callable, *args, out: Tensor | None = None, **kwargs
) -> Tensor:
    """Put the result, which C++ makes new, on the GPU, and fill `out` with it.

    PyTorch 2.13 leaves `out` as it was under a dispatch mode.
    """
    rank = original(*args, **kwargs)
    gpu = gpu_of(_operands(args, kwargs)[0])
    if gpu is not None and gpu_of(rank) is None:
        put(rank, gpu)
    if out is None:
        return rank
    return out.resize_(rank.shape).copy_(rank)


@checks(torch.linalg, *RESULTS)
def result_elsewhere(name: str, *args, out: Tensor | None = None, **kwargs) -> None:
    if out is not None:
        require_same_device(_operands(args, kwargs)[0], [("out", out)], RESULTS[name])


@checks(torch, "inner", "tensordot")
def product(name: str, *args, out: Tensor | None = None, **kwargs) -> None:
    """Check products whose result is copied (Linear.cpp)."""
    if out is None:
        return
    first, second = _operands(args, kwargs)[:2]
    devices = [device_of(out), device_of(first), device_of(second)]
    if len(set(devices)) > 1:
        raise RuntimeError(APART["tensordot"].format(*devices))


@checks((torch, Tensor), "tensor_split")
def tensor_split(name: str, input: Tensor, *args, **kwargs) -> None:
    """Check where to split, which is read on the host (TensorShape.cpp)."""
    for where in (*args[:1], *kwargs.values()):
        if isinstance(where, Tensor) and gpu_of(where) is not None:
            raise RuntimeError(APART["tensor_split"].format(device_of(where)))


@checks((torch, Tensor), "quantile", "nanquantile")
def quantile(
    name: str, input: Tensor, q: Any, *args, out: Any = None, **kwargs
) -> None:
    """Check devices, and on the CPU what PyTorch leaves out under a dispatch mode.

    There alone it reads whether the quantiles are possible (`quantile_compute`, Sorting.cpp).
    """
    others = [("out", out)]
    if isinstance(q, Tensor) and input.numel():
        # Anything else that is wrong with `q` is found before its device.
        if q.dim() <= 1 and q.dtype == input.dtype:
            others.insert(0, ("q", q))
    require_same_device(input, others, APART["quantile"])
    if others[0][0] == "q" and gpu_of(q) is None and not _is_hidden(q):
        if not bool(((q >= 0) & (q <= 1)).all()):
            raise RuntimeError(APART["quantile range"])


def _is_hidden(tensor: Tensor) -> bool:
    """Return whether PyTorch checks no numbers of `tensor`, as it may have none yet."""
    is_plain = type(tensor) in (Tensor, nn.Parameter) and not tensor.is_meta
    return not is_plain or in_transform() or in_fake_mode()


@checks((torch, Tensor), "take_along_dim")
def take_along_dim(
    name: str, input: Tensor, indices: Any, *args, out: Any = None, **kwargs
) -> None:
    others = [("indices", indices), ("out", out)]
    require_same_device(input, others, APART["take_along_dim"])


@checks(*private.STFT)  # which `torch.stft`, in Python, calls
@checks(torch, "istft")
def stft(name: str, input: Tensor, *args, **kwargs) -> None:
    window = args[3] if len(args) > 3 else kwargs.get("window")
    require_same_device(input, [(name, window)], APART["stft"])


@replaces(torch, "gradient")
def gradient(original: Callable, input: Tensor, *args, **kwargs) -> tuple[Tensor, ...]:
    """Name the devices as `gradient_helper` of ReduceOps.cpp does, after other checks."""
    try:
        return original(input, *args, **kwargs)
    except RuntimeError:
        here = device_of(input)
        for there in map(device_of, _operands(args, kwargs)):
            if there != here:
                message = APART["gradient"].format(here=here, there=there)
                raise RuntimeError(message) from None
        raise


@replaces(torch, "group_norm", overridable=True, when=lambda: session.type.is_cuda)
def group_norm(original: Callable, input: Tensor, *args, **kwargs) -> Tensor:
    """Make images contiguous first, as the kernel of a GPU wants them (group_norm.cpp)."""
    if gpu_of(input) is not None:
        input = input.contiguous()
    return original(input, *args, **kwargs)


@replaces(torch.linalg, "lstsq", when=lambda: session.type.has_cudnn)
def lstsq(
    original: Callable, *args, driver: str | None = None, **kwargs
) -> tuple[Tensor, ...]:
    """Take the one driver that CUDA has (`get_default_lstsq_driver`, BatchLinearAlgebra.cpp).

    It computes residuals and no rank. The CPU's own, "gelsy", does the opposite.
    """
    if any(map(gpu_of, _operands(args, kwargs))):
        if driver not in (None, "gels"):
            raise RuntimeError(APART["lstsq"])
        driver = "gels"
    return original(*args, driver=driver, **kwargs)


@replaces(nn.functional, "one_hot")
@replaces(*private.ONE_HOT)
def one_hot(original: Callable, tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Make the result without reading classes back, except to count them.

    On a CPU PyTorch reads the least and the greatest class, on a GPU neither
    (Onehot.cpp).
    """
    if tensor.dtype is not torch.int64 or tensor.numel() == 0:
        return original(tensor, num_classes)
    if in_transform() or gpu_of(tensor) is None:
        return original(tensor, num_classes)

    if num_classes == -1:
        num_classes = int(tensor.max()) + 1
    elif num_classes < 1:
        raise RuntimeError("num_classes should be positive")
    shape = (*tensor.shape, num_classes)
    result = torch.zeros(shape, dtype=torch.int64, device=tensor.device)
    return result.scatter_(-1, tensor.unsqueeze(-1), 1)


@replaces(torch.fft, *TRANSFORMS, when=lambda: session.type.is_cuda)
def transform(original: Callable, input: Tensor, *args, **kwargs) -> Tensor:
    """Transform in half precision too, which C++ refuses on the CPU."""
    is_half = isinstance(input, Tensor) and input.dtype is torch.float16
    if not is_half or gpu_of(input) is None:
        return original(input, *args, **kwargs)

    name = original.__name__.removeprefix("fft_")
    if not name.startswith(REAL_TRANSFORMS):
        return original(input.to(torch.complex32), *args, **kwargs)
    check_signal(_signal(name, input, *args, **kwargs))
    return original(input.float(), *args, **kwargs).to(torch.complex32)


def _signal(
    name: str, input: Tensor, sizes: Any = None, dims: Any = None, *_, **named
) -> list:
    """Return the sizes of the signal of the transform `name`: those given, or the input's."""
    sizes = named.get("n", named.get("s", sizes))
    dims = named.get("dim", dims)
    if isinstance(sizes, int):
        return [sizes]
    if sizes is not None:
        return [size for size in sizes if size != -1]

    if dims is None:
        dims = _usual_dims(name, input)
    if isinstance(dims, int):
        dims = [dims]
    return [input.shape[dim] for dim in dims]


def _usual_dims(name: str, input: Tensor) -> Sequence[int]:
    if name.endswith("n"):
        return range(input.dim())
    return (-2, -1) if name.endswith("2") else (-1,)


@replaces(torch, "ctc_loss")
def ctc_loss(
    original: Callable,
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    *args,
    **kwargs,
) -> Tensor:
    """Read the lengths as numbers, on whatever device, and move the targets.

    C++ does the same (LossCTC.cpp), but not under a dispatch mode.
    """
    if any(
        map(gpu_of, tensors_in((log_probs, targets, input_lengths, target_lengths)))
    ):
        input_lengths = _as_numbers(input_lengths, "input_lengths")
        target_lengths = _as_numbers(target_lengths, "target_lengths")
        if _is_for_cudnn(log_probs, targets, input_lengths, target_lengths, blank):
            raise NotImplementedError(APART["ctc_loss"])
        if device_of(targets) != device_of(log_probs):
            targets = targets.to(log_probs.device, torch.int64)
    return original(
        log_probs, targets, input_lengths, target_lengths, blank, *args, **kwargs
    )


def _as_numbers(lengths: Any, name: str) -> Any:
    if not isinstance(lengths, Tensor):
        return lengths
    if lengths.dtype not in INTEGRAL:
        raise RuntimeError(f"{name} must be integral")
    return lengths.flatten().tolist()


def _is_for_cudnn(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    blank: int,
) -> bool:
    """Return whether cuDNN computes a loss of targets on the CPU (cudnn/LossCTC.cpp)."""
    if gpu_of(log_probs) is None or gpu_of(targets) is not None:
        return False
    if not session.type.has_cudnn or not torch.backends.cudnn.enabled:
        return False
    has_form = (
        blank == 0
        and log_probs.dim() == 3
        and log_probs.dtype is torch.float32
        and targets.dim() == 1
        and targets.dtype is torch.int32
        and targets.is_contiguous()
    )
    if not has_form or any(length != len(log_probs) for length in input_lengths):
        return False
    pairs = zip(input_lengths, target_lengths, strict=False)
    return all(target <= length and target < 256 for length, target in pairs)
