"""Functions and layers that look at devices before they call the operations they are made of.

The dispatch mode sees only those operations, each of which would refuse in its own words.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.dtypes import check_signal
from cudasim.dispatch.tags import device_of, gpu_of
from cudasim.patching import Patches
from cudasim.session import session

# Composites, and what they say of tensors on several devices (aten/src/ATen/native/TensorShape.cpp
# and LinearAlgebra.cpp).
ALIKE = (
    (torch, "meshgrid", "meshgrid expects all tensors to have the same device"),
    (
        torch,
        "block_diag",
        "torch.block_diag: input tensors must all be on the same device. Input 0 is on device "
        "{here} and input {position} is on device {there}",
    ),
    (
        torch.linalg,
        "multi_dot",
        "multi_dot(): all tensors must be on the same device but tensor 0 is on {here} and tensor "
        "{position} on {there}",
    ),
)

# Composites that write to `out`, and what they say of one that is elsewhere
# (aten/src/ATen/native/LinearAlgebra.cpp); a norm says what vector_norm says.
COPIED = (
    "{name}: Expected result and input tensors to be on the same device, but got result on "
    "{there} and input on {here}"
)
NORM = (
    "Expected all tensors to be on the same device, but got out is on {there}, different from "
    "other tensors on {here} (when checking argument in method "
    "wrapper_{key}_linalg_vector_norm_out_out)"
)
RESULTS = (
    *(("norm", "norm", NORM), ("matrix_norm", "matrix_norm", NORM)),
    *(("cond", "linalg.cond", COPIED), ("pinv", "linalg.pinv", COPIED)),
    ("matrix_rank", "torch.linalg.matrix_rank", COPIED),
)

REAL = ("rfft", "ihfft")  # transforms of real numbers
SIGNALS = "fft fft2 fftn ifft ifft2 ifftn hfft hfft2 hfftn irfft irfft2 irfftn".split()
SIGNALS += [f"{name}{dimensions}" for name in REAL for dimensions in ("", "2", "n")]


def patch_functional(patches: Patches) -> None:
    """Make composites refuse operands on several devices in their own words."""
    for owner in (torch, Tensor):
        for name in ("quantile", "nanquantile"):
            patches.replace(owner, name, make_quantile(getattr(owner, name)))
        patches.replace(owner, "take_along_dim", make_take_along_dim(owner.take_along_dim))
    patches.replace(torch._VF, "stft", make_stft(torch._VF.stft, "stft"))  # Python's calls it
    patches.replace(torch, "istft", make_stft(torch.istft, "istft"))
    patches.replace(torch.linalg, "lstsq", make_lstsq(torch.linalg.lstsq))
    for owner, name, words in ALIKE:
        patches.replace(owner, name, make_alike(getattr(owner, name), words))
    patches.replace(torch.linalg, "matrix_rank", make_matrix_rank(torch.linalg.matrix_rank))
    for name, called, words in RESULTS:
        result = make_result(getattr(torch.linalg, name), called, words)
        patches.replace(torch.linalg, name, result)
    for name in ("inner", "tensordot"):
        patches.replace(torch, name, make_product(getattr(torch, name)))
    for owner in (torch, Tensor):
        patches.replace(owner, "tensor_split", make_tensor_split(owner.tensor_split))
    one_hot = make_one_hot(nn.functional.one_hot)
    for owner in (nn.functional, torch._C._nn):
        patches.replace(owner, "one_hot", one_hot)
    if session.type.lists_kernels:
        for name in SIGNALS:
            patches.replace(torch.fft, name, make_signal(getattr(torch.fft, name), name))
    patches.replace(torch, "ctc_loss", make_ctc_loss(torch.ctc_loss))
    patches.replace(nn.RNNBase, "flatten_parameters", flatten_parameters)
    if session.type.decomposes_recurrent_layers:
        for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
            recurrent = make_recurrent(getattr(torch, name))
            for owner in (torch, torch._VF):  # modules look in the latter
                patches.replace(owner, name, recurrent)


def make_alike(original: Callable, words: str) -> Callable:
    """A composite of tensors that are on one device, or it says `words`."""

    @functools.wraps(original)
    def composite(*args: Any, **kwargs: Any) -> Any:
        tensors = tensors_in(args)
        for position, tensor in enumerate(tensors):
            here, there = device_of(tensors[0]), device_of(tensor)
            if here != there:
                raise RuntimeError(words.format(here=here, there=there, position=position))
        return original(*args, **kwargs)

    return composite


def make_result(original: Callable, name: str, words: str) -> Callable:
    """A composite whose `out` is where its first operand is, or it says `words`."""

    @functools.wraps(original)
    def composite(*args: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out")
        if out is not None:
            given = (*args, *(each for each in kwargs.values() if each is not out))
            here, there = device_of(tensors_in(given)[0]), device_of(out)
            if here != there:
                key = session.type.key
                raise RuntimeError(words.format(name=name, here=here, there=there, key=key))
        return original(*args, **kwargs)

    return composite


def make_matrix_rank(original: Callable) -> Callable:
    """`matrix_rank`, whose `out` PyTorch 2.13 leaves as it was under any dispatch mode."""

    @functools.wraps(original)
    def matrix_rank(*args: Any, out: Tensor | None = None, **kwargs: Any) -> Tensor:
        rank = original(*args, **kwargs)
        return rank if out is None else out.resize_(rank.shape).copy_(rank)

    return matrix_rank


def make_product(original: Callable) -> Callable:
    """`inner` and `tensordot`, whose result is copied (aten/src/ATen/native/Linear.cpp)."""

    @functools.wraps(original)
    def product(*args: Any, **kwargs: Any) -> Tensor:
        out = kwargs.get("out")
        if out is None:
            return original(*args, **kwargs)
        named = {name: each for name, each in kwargs.items() if name != "out"}
        a, b = tensors_in((*args, *named.values()))[:2]
        if not device_of(a) == device_of(b) == device_of(out):
            raise RuntimeError(
                "tensordot: Expected the output and input tensors to be on the same device, but "
                f"got the output tensor on {device_of(out)}, input tensor a on {device_of(a)}, "
                f"and input tensor b on {device_of(b)}"
            )
        return original(*args, **kwargs)

    return product


def make_tensor_split(original: Callable) -> Callable:
    """`tensor_split`, which reads where to split (aten/src/ATen/native/TensorShape.cpp)."""

    @functools.wraps(original)
    def tensor_split(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        for where in (*args[:1], *kwargs.values()):
            if isinstance(where, Tensor) and gpu_of(where) is not None:
                raise RuntimeError(
                    "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on "
                    f"{device_of(where)}"
                )
        return original(input, *args, **kwargs)

    return tensor_split


def make_quantile(original: Callable) -> Callable:
    """`quantile` and `nanquantile` (aten/src/ATen/native/Sorting.cpp)."""

    @functools.wraps(original)
    def quantile(input: Tensor, q: Any, *args: Any, **kwargs: Any) -> Tensor:
        if isinstance(q, Tensor) and q.dim() <= 1 and input.numel() and q.dtype == input.dtype:
            if device_of(q) != device_of(input):
                raise RuntimeError(
                    "quantile() q tensor must be on the same device as the input tensor"
                )
        out = kwargs.get("out")
        if out is not None and device_of(out) != device_of(input):
            raise RuntimeError(
                "quantile() out tensor must be on the same device as the input tensor"
            )
        return original(input, q, *args, **kwargs)

    return quantile


def make_take_along_dim(original: Callable) -> Callable:
    """`take_along_dim` (aten/src/ATen/native/TensorAdvancedIndexing.cpp)."""

    @functools.wraps(original)
    def take_along_dim(input: Tensor, indices: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        for tensor in (indices, kwargs.get("out")):
            if isinstance(tensor, Tensor) and device_of(tensor) != device_of(input):
                raise RuntimeError(
                    f"Expected tensor to have {device_of(input)} Device, but got tensor with "
                    f"{device_of(tensor)} Device (while checking arguments for "
                    "torch.take_along_dim():)"
                )
        return original(input, indices, *args, **kwargs)

    return take_along_dim


def make_stft(original: Callable, name: str) -> Callable:
    """`stft` and `istft` (aten/src/ATen/native/SpectralOps.cpp)."""
    signature = ("n_fft", "hop_length", "win_length", "window")

    @functools.wraps(original)
    def transform(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        window = {**dict(zip(signature, args, strict=False)), **kwargs}.get("window")
        if isinstance(window, Tensor) and device_of(window) != device_of(input):
            raise RuntimeError(
                f"{name} input and window must be on the same device but got self on "
                f"{device_of(input)} and window on {device_of(window)}"
            )
        return original(input, *args, **kwargs)

    return transform


def make_lstsq(original: Callable) -> Callable:
    """`linalg.lstsq`, of whose drivers CUDA has one (aten/.../BatchLinearAlgebra.cpp)."""

    @functools.wraps(original)
    def lstsq(*args: Any, driver: str | None = None, **kwargs: Any) -> Any:
        operands = tensors_in((*args, *kwargs.values()))
        on_gpu = any(gpu_of(operand) is not None for operand in operands)
        if session.type.has_cudnn and driver not in (None, "gels") and on_gpu:
            raise RuntimeError(
                "torch.linalg.lstsq: `driver` other than `gels` is not supported on CUDA"
            )
        return original(*args, driver=driver, **kwargs)

    return lstsq


def make_one_hot(original: Callable) -> Callable:
    """`one_hot`, which on a CPU reads back the least and the greatest class, and on a GPU neither.

    There the kernel stops at a class that is too large (aten/src/ATen/native/Onehot.cpp).
    """

    @functools.wraps(original)
    def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
        plain = tensor.dtype is not torch.int64 or torch._C._are_functorch_transforms_active()
        if plain or not tensor.numel() or gpu_of(tensor) is None:
            return original(tensor, num_classes)
        if num_classes == -1:
            num_classes = int(tensor.max()) + 1
        elif num_classes < 1:
            raise RuntimeError("num_classes should be positive")
        found = torch.zeros(*tensor.shape, num_classes, dtype=torch.int64, device=tensor.device)
        return found.scatter_(-1, tensor.unsqueeze(-1), 1)

    return one_hot


def make_signal(original: Callable, name: str) -> Callable:
    """A Fourier transform, which CUDA computes in half precision too.

    C++ refuses that on the CPU before any operation. What is real stays so, in `rfft` and its kin.
    """
    real = name.startswith(REAL)

    @functools.wraps(original)
    def transform(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        half = isinstance(input, Tensor) and input.dtype is torch.float16
        if not half or gpu_of(input) is None:
            return original(input, *args, **kwargs)
        if not real:
            return original(input.to(torch.complex32), *args, **kwargs)
        check_signal(_signal(name, input, *args, **kwargs))
        return original(input.float(), *args, **kwargs).to(torch.complex32)

    return transform


def _signal(
    name: str, input: Tensor, sizes: Any = None, dims: Any = None, norm: Any = None, **given: Any
) -> list[int]:
    """The sizes of the signal in a transform called `name`: those given, or those of its input."""
    sizes, dims = given.get("n", given.get("s", sizes)), given.get("dim", dims)
    if sizes is not None:
        return [sizes] if isinstance(sizes, int) else [size for size in sizes if size != -1]
    if dims is None:
        dims = range(input.dim()) if name.endswith("n") else (-2, -1) if name[-1] == "2" else -1
    return [input.shape[dim] for dim in ([dims] if isinstance(dims, int) else dims)]


def make_ctc_loss(original: Callable) -> Callable:
    """`ctc_loss`, whose lengths C++ reads as numbers, whatever device they are on.

    As in aten/src/ATen/native/LossCTC.cpp; where a dispatch mode is at work it does not.
    """

    @functools.wraps(original)
    def ctc_loss(
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Any,
        target_lengths: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Tensor:
        if gpu_of(log_probs) is not None:
            lengths = input_lengths, target_lengths
            given = (each.tolist() if isinstance(each, Tensor) else each for each in lengths)
            input_lengths, target_lengths = given
        return original(log_probs, targets, input_lengths, target_lengths, *args, **kwargs)

    return ctc_loss


def make_recurrent(original: Callable) -> Callable:
    """A recurrent layer (aten/src/ATen/native/RNN.h). Packed sequences are not compared."""

    @functools.wraps(original)
    def recurrent(input: Tensor, hidden: Any, weights: Any, *args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], bool):  # else the second argument has the batch sizes
            home = device_of(input)
            hidden_states = [hidden] if isinstance(hidden, Tensor) else hidden
            for name, tensors in (("hidden", hidden_states), ("parameter", weights)):
                for tensor in tensors:
                    if device_of(tensor) != home:
                        raise RuntimeError(
                            f"Input and {name} tensors are not at the same device, found input "
                            f"tensor at {home} and {name} tensor at {device_of(tensor)}"
                        )
        return original(input, hidden, weights, *args, **kwargs)

    return recurrent


def flatten_parameters(self: nn.RNNBase) -> None:
    """`RNNBase.flatten_parameters`: packs weights for cuDNN, of which there is nothing to do."""
