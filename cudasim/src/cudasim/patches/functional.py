"""Functions and layers that look at devices before they call the operations they are made of,
which would refuse in words of their own. Files named below are in aten/src/ATen/native."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.dtypes import check_signal
from cudasim.dispatch.tags import device_of, gpu_of, put
from cudasim.patching import checks, replaces
from cudasim.session import session
from cudasim.words import WORDS

# What is said of an `out`, or of an argument called `name`, or in that place, that is `there`, not
# `here` as the first one (LinearAlgebra.cpp, TensorShape.cpp, Sorting.cpp, RNN.h,
# TensorAdvancedIndexing.cpp).
RESULTS, APART = WORDS["results"], WORDS["functions"]
REAL = ("rfft", "ihfft")  # transforms of real numbers
SIGNALS = [
    f"{name}{n}"
    for name in ("fft", "ifft", "hfft", "irfft", *REAL)
    for n in ("", "2", "n")
]
RECURRENT = "lstm", "gru", "rnn_tanh", "rnn_relu"


def _operands(args: tuple, kwargs: dict) -> list[Tensor]:
    return tensors_in((*args, *kwargs.values()))


def together(first: Tensor, others: Iterable[tuple[Any, Any]], words: str) -> None:
    """Raise RuntimeError if a tensor among the named `others` is not where `first` is."""
    here = device_of(first)
    for name, tensor in others:
        if isinstance(tensor, Tensor) and (there := device_of(tensor)) != here:
            key = session.type.key
            raise RuntimeError(words.format(name=name, here=here, there=there, key=key))


@checks(torch, "meshgrid", "block_diag")
@checks(torch.linalg, "multi_dot")
def apart(name: str, *args, **kwargs) -> None:
    if tensors := tensors_in(args):
        together(tensors[0], enumerate(tensors), APART[name])


@replaces(torch.linalg, "matrix_rank", "cond")
def matrix_rank(
    original: Callable, *args, out: Tensor | None = None, **kwargs
) -> Tensor:
    """C++ makes its result new, and PyTorch 2.13 leaves `out` as it was under a dispatch mode."""
    rank = original(*args, **kwargs)
    if (gpu := gpu_of(_operands(args, kwargs)[0])) and gpu_of(rank) is None:
        put(rank, gpu)
    return rank if out is None else out.resize_(rank.shape).copy_(rank)


@checks(torch.linalg, *RESULTS)
def result_elsewhere(name: str, *args, out: Tensor | None = None, **kwargs) -> None:
    if out is not None:
        together(_operands(args, kwargs)[0], [("out", out)], RESULTS[name])


@checks(torch, "inner", "tensordot")
def product(name: str, *args, out: Tensor | None = None, **kwargs) -> None:
    """Products whose result is copied (Linear.cpp)."""
    if out is not None:
        places = [device_of(each) for each in (out, *_operands(args, kwargs)[:2])]
        if len(set(places)) > 1:
            raise RuntimeError(APART["tensordot"].format(*places))


@checks((torch, Tensor), "tensor_split")
def tensor_split(name: str, input: Tensor, *args, **kwargs) -> None:
    """It reads where to split (TensorShape.cpp)."""
    for where in (*args[:1], *kwargs.values()):
        if isinstance(where, Tensor) and gpu_of(where) is not None:
            raise RuntimeError(APART["tensor_split"].format(device_of(where)))


@checks((torch, Tensor), "quantile", "nanquantile")
def quantile(
    name: str, input: Tensor, q: Any, *args, out: Any = None, **kwargs
) -> None:
    """It looks at other things of `q` before its device."""
    looks = (
        isinstance(q, Tensor)
        and q.dim() <= 1
        and input.numel()
        and q.dtype == input.dtype
    )
    together(input, [("q", q if looks else None), ("out", out)], APART["quantile"])


@checks((torch, Tensor), "take_along_dim")
def take_along_dim(
    name: str, input: Tensor, indices: Any, *args, out: Any = None, **kw
) -> None:
    together(input, [("indices", indices), ("out", out)], APART["take_along_dim"])


@checks(torch._VF, "stft")  # which Python's calls
@checks(torch, "istft")
def stft(name: str, input: Tensor, *args, **kwargs) -> None:
    window = args[3] if len(args) > 3 else kwargs.get("window")
    together(input, [(name, window)], APART["stft"])


@checks(torch.linalg, "lstsq", when=lambda: session.type.has_cudnn)
def lstsq(name: str, *args, driver: str | None = None, **kwargs) -> None:
    """CUDA has one of the drivers (BatchLinearAlgebra.cpp)."""
    if driver not in (None, "gels") and any(map(gpu_of, _operands(args, kwargs))):
        raise RuntimeError(APART["lstsq"])


@replaces(nn.RNNBase, "flatten_parameters")
def flatten_parameters(original: Callable, self: nn.RNNBase) -> None:
    """It packs weights for cuDNN, of which there is nothing to do."""


@checks(
    (torch, torch._VF),
    *RECURRENT,
    when=lambda: session.type.decomposes_recurrent_layers,
)
def recurrent(
    name: str, input: Tensor, hidden: Any, weights: Sequence, *args, **kwargs
) -> None:
    """A recurrent layer. Packed sequences, whose second holds sizes, are not compared."""
    if args and isinstance(args[0], bool):
        named = [("hidden", each) for each in tensors_in((hidden,))]
        together(
            input,
            [*named, *(("parameter", each) for each in weights)],
            APART["recurrent"],
        )


@replaces((nn.functional, torch._C._nn), "one_hot")
def one_hot(original: Callable, tensor: Tensor, num_classes: int = -1) -> Tensor:
    """On a CPU it reads the least and the greatest class back, on a GPU neither (Onehot.cpp)."""
    plain = (
        tensor.dtype is not torch.int64 or torch._C._are_functorch_transforms_active()
    )
    if plain or not tensor.numel() or gpu_of(tensor) is None:
        return original(tensor, num_classes)
    if num_classes == -1:
        num_classes = int(tensor.max()) + 1
    elif num_classes < 1:
        raise RuntimeError("num_classes should be positive")
    found = torch.zeros(
        *tensor.shape, num_classes, dtype=torch.int64, device=tensor.device
    )
    return found.scatter_(-1, tensor.unsqueeze(-1), 1)


@replaces(torch.fft, *SIGNALS, when=lambda: session.type.lists_kernels)
def transform(original: Callable, input: Tensor, *args, **kwargs) -> Tensor:
    """CUDA's are in half precision too, which C++ refuses on the CPU. What is real stays so."""
    if (
        not isinstance(input, Tensor)
        or input.dtype is not torch.float16
        or not gpu_of(input)
    ):
        return original(input, *args, **kwargs)
    name = original.__name__.removeprefix("fft_")
    if not name.startswith(REAL):
        return original(input.to(torch.complex32), *args, **kwargs)
    check_signal(_signal(name, input, *args, **kwargs))
    return original(input.float(), *args, **kwargs).to(torch.complex32)


def _signal(
    name: str, input: Tensor, sizes: Any = None, dims: Any = None, *_, **given
) -> list:
    """The sizes of the signal: those given, or those of the input of the transform `name`."""
    sizes, dims = given.get("n", given.get("s", sizes)), given.get("dim", dims)
    if sizes is not None:
        return (
            [sizes]
            if isinstance(sizes, int)
            else [size for size in sizes if size != -1]
        )
    if dims is None:
        dims = (
            range(input.dim())
            if name.endswith("n")
            else (-2, -1)
            if name[-1] == "2"
            else -1
        )
    return [input.shape[dim] for dim in ([dims] if isinstance(dims, int) else dims)]


@replaces(torch, "ctc_loss")
def ctc_loss(
    original: Callable, log_probs: Tensor, targets: Tensor, *args, **kwargs
) -> Tensor:
    """C++ reads the lengths as numbers, on whatever device (LossCTC.cpp); not under a mode."""
    if gpu_of(log_probs) is not None:
        args, kwargs = tree_map_only(Tensor, Tensor.tolist, (args, kwargs))
    return original(log_probs, targets, *args, **kwargs)
