"""Recurrent layers and cells take the kernels that CUDA would: see `dispatch/recurrent.py`.

C++ chooses them before any dispatch mode sees an operation, and reads a tensor's device
itself. So the functions that choose are replaced here. The files named below are in
aten/src/ATen/native.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.dtypes import CPP_NAMES
from cudasim.dispatch.recurrent import KINDS, Layers, find_buffer
from cudasim.dispatch.tags import gpu_of
from cudasim.patches.functional import require_same_device
from cudasim.patching import replaces
from cudasim.session import session
from cudasim.torch_private import tensors as private
from cudasim.torch_private.dispatch import in_transform, is_batched, is_tracing
from cudasim.torch_private.operators import recurrent as kernels
from cudasim.words import WORDS

FUNCTIONS = (torch, private.functions)
MESSAGES = WORDS["recurrent"]
PLAIN = (Tensor, torch.nn.Parameter)


class Call(NamedTuple):
    """The arguments of `torch.lstm` and its kin, in either of their two forms."""

    input: Tensor
    batch_sizes: Tensor | None  # of a packed sequence
    hidden: Any
    weights: list[Tensor]
    has_biases: bool
    num_layers: int
    dropout: float
    is_training: bool
    is_bidirectional: bool
    batch_first: bool

    @property
    def states(self) -> list[Tensor]:
        return tensors_in((self.hidden,))


def _call_of(args: tuple) -> Call | None:
    """Return a call from its arguments; None if they are not as they should be."""
    if len(args) != 9:
        return None
    if isinstance(args[3], bool):  # `has_biases`, in the form for tensors
        return Call(args[0], None, *args[1:])
    return Call(*args, batch_first=False)


def _has_cudnn() -> bool:
    return session.type.has_cudnn


@replaces(FUNCTIONS, *KINDS, when=lambda: session.type.decomposes_recurrent_layers)
def recurrent(original: Callable, *args, **kwargs) -> tuple:
    """Run a stack of recurrent layers, by cuDNN where CUDA would."""
    call = None if kwargs else _call_of(args)
    if call is None or not _is_plain(call) or is_tracing():
        return original(*args, **kwargs)
    is_by_cudnn = _is_by_cudnn(call.input)
    if is_by_cudnn or call.batch_sizes is None:
        _check_devices(call)
    if is_by_cudnn and not _is_vmapped(call.input):
        return _run_cudnn(original.__name__, call)
    if gpu_of(call.input) is None:
        return original(*args, **kwargs)
    has_steps = call.batch_sizes is None and call.input.numel() > 0
    if has_steps and session.type.is_cuda and not in_transform():
        return _run_steps(original.__name__, call)
    with _without_onednn():
        return original(*args, **kwargs)


@contextmanager
def _without_onednn() -> Iterator[None]:
    """Compute a layer step by step, as on CUDA: oneDNN has one kernel for all of it."""
    was_enabled = private.is_onednn_enabled()
    private.enable_onednn(False)
    try:
        yield
    finally:
        private.enable_onednn(was_enabled)


def _run_steps(name: str, call: Call) -> tuple:
    """Run layers one cell after the other, as RNN.cpp does on CUDA without cuDNN."""
    directions = 2 if call.is_bidirectional else 1
    first_states = zip(*[state.unbind(0) for state in call.states], strict=True)
    per_layer = len(call.weights) // (call.num_layers * directions)
    weights = iter(call.weights)

    output = call.input.transpose(0, 1) if call.batch_first else call.input
    last_states = []
    for layer in range(call.num_layers):
        results = []
        for is_reverse in (False, True)[:directions]:
            cell = Cell(name, call.has_biases, list(islice(weights, per_layer)))
            result, state = _run_layer(cell, output, next(first_states), is_reverse)
            results.append(result)
            last_states.append(state)
        output = torch.cat(results, -1) if call.is_bidirectional else results[0]
        if call.dropout > 0 and call.is_training and layer < call.num_layers - 1:
            output = torch.dropout(output, call.dropout, True)

    if call.batch_first:
        output = output.transpose(0, 1)
    return output, *[torch.stack(parts) for parts in zip(*last_states, strict=True)]


class Cell(NamedTuple):
    """A cell of one layer in one direction."""

    name: str
    has_biases: bool
    weights: list[Tensor]

    def step(self, input: Tensor, state: tuple) -> tuple:
        """Return the next state: of an LSTM two tensors, else one."""
        products = self.weights[: 4 if self.has_biases else 2]
        if self.name != "lstm":
            run = getattr(private.functions, f"{self.name}_cell")
            return (run(input, state[0], *products),)
        hidden, cell = state
        w_ih, w_hh, *biases = products
        from_input = torch.matmul(input, w_ih.t())
        from_hidden = torch.matmul(hidden, w_hh.t())
        hidden, cell, _ = kernels.lstm_cell(from_input, from_hidden, cell, *biases)
        if len(self.weights) > len(products):  # a projection
            hidden = torch.matmul(hidden, self.weights[-1].t())
        return hidden, cell


def _run_layer(
    cell: Cell, input: Tensor, state: tuple, is_reverse: bool
) -> tuple[Tensor, tuple]:
    """Return the output of one layer in one direction, and its last state."""
    steps = list(input.unbind(0))
    if is_reverse:
        steps.reverse()
    outputs = []
    for step in steps:
        state = cell.step(step, state)
        outputs.append(state[0])
    if is_reverse:
        outputs.reverse()
    return torch.stack(outputs), state


def _is_plain(call: Call) -> bool:
    tensors = (call.input, *call.states, *tensors_in(call.weights))
    return all(type(tensor) in PLAIN for tensor in tensors)


def _is_vmapped(input: Tensor) -> bool:
    """Return whether `vmap` sees a call first: it has no rule for layers or LSTM cells."""
    return in_transform() and is_batched(input)


def _is_by_cudnn(input: Tensor) -> bool:
    """Return whether C++ takes cuDNN's kernels (`cudnn_is_acceptable` of torch 2.13)."""
    return (
        session.type.has_cudnn
        and gpu_of(input) is not None
        and input.numel() > 0
        and torch.backends.cudnn.enabled
    )


def _named_tensors(call: Call) -> Iterator[tuple[str, Tensor]]:
    for state in call.states:
        yield "hidden", state
    for weight in call.weights:
        yield "parameter", weight


def _check_devices(call: Call) -> None:
    message = WORDS["functions"]["recurrent"]
    require_same_device(call.input, _named_tensors(call), message)


def _check_types(call: Call) -> None:
    expected_dtype = _dtype_in_region(call.input)
    for name, tensor in _named_tensors(call):
        dtype = _dtype_in_region(tensor)
        if dtype != expected_dtype:
            expected, found = CPP_NAMES[expected_dtype], CPP_NAMES[dtype]
            message = MESSAGES["types"]
            raise RuntimeError(message.format(name, expected, name, found))


def _check_known_to_cudnn(dtype: torch.dtype) -> None:
    """Raise what `getCudnnDataType` does (aten/src/ATen/cudnn/Types.cpp)."""
    if not dtype.is_floating_point:
        text = MESSAGES["unknown type"]
        raise RuntimeError(text.format(CPP_NAMES[dtype]))


def _run_cudnn(name: str, call: Call) -> tuple:
    """Call cuDNN's operator as `_cudnn_impl` of cudnn/RNN.cpp does."""
    if name == "lstm" and len(call.states) != 2:
        raise RuntimeError("lstm expects two hidden states")
    hidden, *cells = call.states
    hidden_size = hidden.size(2)
    proj_size = 0
    if cells and cells[0].size(2) != hidden_size:
        hidden_size, proj_size = cells[0].size(2), hidden_size
    weights_per_layer = (4 if call.has_biases else 2) + (1 if proj_size else 0)
    layers = Layers(
        kind=KINDS[name],
        hidden_size=hidden_size,
        proj_size=proj_size,
        num_layers=call.num_layers,
        directions=2 if call.is_bidirectional else 1,
        weights_per_layer=weights_per_layer,
    )
    _check_known_to_cudnn(call.weights[0].dtype)
    buffer = find_buffer(layers, call.input.size(-1), call.weights)
    _check_types(call)
    weight = call.weights[0]
    if weight.dtype is not _dtype_in_region(weight):
        buffer = None  # autocast packs the weights that it casts
    elif buffer is None:
        # At the line of the layer that called, as C++ warns.
        warnings.warn(MESSAGES["not packed"], stacklevel=4)

    batch_sizes = []
    if call.batch_sizes is not None:
        batch_sizes = call.batch_sizes.tolist()
    output, hidden, cell, *_ = kernels.cudnn(
        call.input,
        call.weights,
        weights_per_layer,
        buffer,
        hidden,
        cells[0] if cells else None,
        KINDS[name].number,
        hidden_size,
        proj_size,
        call.num_layers,
        call.batch_first,
        call.dropout,
        call.is_training,
        call.is_bidirectional,
        batch_sizes,
        None,
    )
    return (output, hidden, cell) if cells else (output, hidden)


def _dtype_in_region(tensor: Tensor) -> torch.dtype:
    """Return the dtype that cuDNN gets, which autocast may be about to change.

    See `_cudnn_rnn_cast_reflatten` of aten/src/ATen/cudnn/AutocastRNN.cpp.
    """
    type_name = session.type.name
    is_cast = tensor.is_floating_point() and tensor.dtype is not torch.float64
    if is_cast and torch.is_autocast_enabled(type_name):
        return torch.get_autocast_dtype(type_name)
    return tensor.dtype


@replaces(torch.backends.cudnn.m, "is_acceptable", when=_has_cudnn)
def is_acceptable(original: Callable, tensor: Tensor) -> bool:
    """Return whether Python takes a tensor for one that cuDNN knows: not bfloat16."""
    if not torch.backends.cudnn.enabled or tensor.dtype not in private.CUDNN_DTYPES:
        return False
    return gpu_of(tensor) is not None


@replaces(*private.HAS_CUDNN_PACKING, when=_has_cudnn)
def packs_weights(original: Callable) -> bool:
    return True


@replaces(*private.CUDNN_MODE, when=_has_cudnn)
def cudnn_mode(original: Callable, mode: str) -> int:
    name = mode.lower()
    if name not in KINDS:
        raise ValueError(f"Unknown mode: {mode}")
    return KINDS[name].number


@replaces(FUNCTIONS, "lstm_cell", when=_has_cudnn)
def lstm_cell(
    original: Callable,
    input: Tensor,
    states: Any,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Run one step of an LSTM, by a fused kernel as `LSTMCell` of RNN.cpp does on CUDA."""
    if not _takes_fused_kernel(input) or _is_vmapped(input):
        return original(input, states, w_ih, w_hh, b_ih, b_hh)
    hidden, cell = states
    _check_step(input, [hidden, cell], w_ih, w_hh)
    from_input = torch.matmul(input, w_ih.t())
    from_hidden = torch.matmul(hidden, w_hh.t())
    hidden, cell, _ = kernels.lstm_cell(from_input, from_hidden, cell, b_ih, b_hh)
    return hidden, cell


@replaces(FUNCTIONS, "gru_cell", when=_has_cudnn)
def gru_cell(
    original: Callable,
    input: Tensor,
    hidden: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """Run one step of a GRU, by a fused kernel as `GRUCell` of RNN.cpp does on CUDA."""
    if not _takes_fused_kernel(input):
        return original(input, hidden, w_ih, w_hh, b_ih, b_hh)
    _check_step(input, [hidden], w_ih, w_hh)
    from_input = torch.matmul(input, w_ih.t())
    from_hidden = torch.matmul(hidden, w_hh.t())
    hidden, _ = kernels.gru_cell(from_input, from_hidden, hidden, b_ih, b_hh)
    return hidden


def _takes_fused_kernel(input: Tensor) -> bool:
    is_plain = type(input) in PLAIN and not is_tracing()
    return is_plain and gpu_of(input) is not None


def _check_step(
    input: Tensor, states: list[Tensor], w_ih: Tensor, w_hh: Tensor
) -> None:
    """Raise what RNN.cpp does for shapes that do not fit."""
    if input.size(1) != w_ih.size(1):
        message = MESSAGES["input size"]
        raise RuntimeError(message.format(input.size(1), w_ih.size(1)))
    for label, state in enumerate(states):
        if input.size(0) != state.size(0):
            message = MESSAGES["batch size"]
            raise RuntimeError(message.format(input.size(0), label, state.size(0)))
        if state.size(1) != w_hh.size(1):
            message = MESSAGES["hidden size"]
            raise RuntimeError(message.format(label, state.size(1), w_hh.size(1)))
