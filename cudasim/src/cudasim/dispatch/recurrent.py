"""Recurrent layers as cuDNN computes them, and the fused kernels of CUDA's cells.

The CPU computes; autograd, the profiler and errors see CUDA's operators. The files named
below are in aten/src/ATen/native: `cudnn/RNN.cpp`, `cuda/RNN.cu`.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cudasim.device.gpu import Allocation
from cudasim.dispatch import random
from cudasim.dispatch.arguments import all_arguments
from cudasim.dispatch.checks import common_gpu
from cudasim.dispatch.dtypes import widened
from cudasim.dispatch.operators import rule
from cudasim.dispatch.placement import tag_results
from cudasim.dispatch.tags import put
from cudasim.torch_private import tensors as private
from cudasim.torch_private.dispatch import DispatchKey, SetKeyExcluded
from cudasim.torch_private.operators import recurrent as kernels
from cudasim.words import WORDS

aten = torch.ops.aten
MESSAGES = WORDS["recurrent"]
SEED_SIZE = 8  # bytes of a seed of dropout, at the beginning of what is kept


class Kind(NamedTuple):
    """A kind of recurrent layer."""

    number: int  # cuDNN's (cudnnRNNMode_t)
    gates: int
    padded: Callable  # the CPU's operator for a tensor
    packed: Callable  # the same for a packed sequence


KINDS = {
    "rnn_relu": Kind(0, 1, aten.rnn_relu.input, aten.rnn_relu.data),
    "rnn_tanh": Kind(1, 1, aten.rnn_tanh.input, aten.rnn_tanh.data),
    "lstm": Kind(2, 4, aten.lstm.input, aten.lstm.data),
    "gru": Kind(3, 3, aten.gru.input, aten.gru.data),
}
BY_NUMBER = {kind.number: kind for kind in KINDS.values()}


class Layers(NamedTuple):
    """What is the same in each call of a stack of recurrent layers."""

    kind: Kind
    hidden_size: int
    proj_size: int
    num_layers: int
    directions: int
    weights_per_layer: int  # in each direction

    @property
    def has_biases(self) -> bool:
        return self.weights_per_layer >= 4

    @property
    def output_size(self) -> int:
        """The numbers that one layer computes in one direction for each element."""
        return self.proj_size or self.hidden_size

    def shapes(self, input_size: int) -> Iterator[list[tuple[int, ...]]]:
        """Yield the shapes of each layer's weights, with the biases that may be missing.

        The order is that of `torch.nn.RNNBase`.
        """
        rows = self.kind.gates * self.hidden_size
        for layer in range(self.num_layers):
            columns = self.output_size * self.directions if layer else input_size
            for _ in range(self.directions):
                shapes = [(rows, columns), (rows, self.output_size), (rows,), (rows,)]
                if self.proj_size:
                    shapes.append((self.proj_size, self.hidden_size))
                yield shapes


def _layers_of(named: dict[str, Any]) -> Layers:
    """Return the layers that the arguments of one of cuDNN's operators describe."""
    return Layers(
        kind=BY_NUMBER[named["mode"]],
        hidden_size=named["hidden_size"],
        proj_size=named["proj_size"],
        num_layers=named["num_layers"],
        directions=2 if named["bidirectional"] else 1,
        weights_per_layer=named["weight_stride0"],
    )


class Slot(NamedTuple):
    """The place of one weight in the buffer that holds all of them."""

    begin: int
    shape: tuple[int, ...]

    @property
    def end(self) -> int:
        return self.begin + prod(self.shape)


def lay_out(layers: Layers, input_size: int) -> tuple[list[Slot], int]:
    """Return the slot of each weight in cuDNN's buffer, and the elements of the buffer.

    The matrices of all layers come first, then all biases, which take their place even if
    the layers have none. TensorFlow relies on this order: see `_canonical_to_params` in its
    keras/layers/rnn/gru_lstm_utils.py. Where the matrices of projections are is not
    published; here they follow those of their layer.
    """
    shapes_by_layer = list(layers.shapes(input_size))
    begins = {}
    position = 0
    for dimensions in (2, 1):  # matrices, biases
        for number, shapes in enumerate(shapes_by_layer):
            for place, shape in enumerate(shapes):
                if len(shape) == dimensions:
                    begins[number, place] = position
                    position += prod(shape)

    slots = []
    for number, shapes in enumerate(shapes_by_layer):
        for place, shape in enumerate(shapes):
            if layers.has_biases or len(shape) == 2:
                slots.append(Slot(begins[number, place], shape))
    return slots, position


def find_buffer(
    layers: Layers, input_size: int, weights: list[Tensor]
) -> Tensor | None:
    """Return the buffer whose views the weights are; None if they are not packed.

    See `try_get_weight_buf`.
    """
    slots, size = lay_out(layers, input_size)
    first = weights[0]
    if first.untyped_storage().nbytes() < size * first.element_size():
        return None
    start = first.untyped_storage().data_ptr()
    for weight, slot in zip(weights, slots, strict=True):
        if weight.data_ptr() != start + slot.begin * first.element_size():
            return None
    if not weights[-1].is_contiguous():
        return None
    return first.detach().as_strided((size,), (1,), 0)


def _pack(layers: Layers, input_size: int, weights: list[Tensor]) -> Tensor:
    """Return a new buffer with copies of the weights."""
    slots, size = lay_out(layers, input_size)
    buffer = weights[0].new_zeros(size)
    for weight, slot in zip(weights, slots, strict=True):
        buffer[slot.begin : slot.end] = weight.detach().reshape(-1)
    return buffer


def _view(buffer: Tensor, slot: Slot) -> Tensor:
    return buffer[slot.begin : slot.end].view(slot.shape)


@rule(kernels.cudnn_flatten)
def flatten(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Let the weights of a module be views of one buffer, in cuDNN's order."""
    gpu = common_gpu(func, args, kwargs)
    named = all_arguments(func, args, kwargs)
    weights = named["weight_arr"]
    layers = _layers_of(named)
    buffer = tag_results(_pack(layers, named["input_size"], weights), gpu)
    slots, _ = lay_out(layers, named["input_size"])
    for weight, slot in zip(weights, slots, strict=True):
        weight.set_(_view(buffer, slot))
    return buffer


class Call(NamedTuple):
    """One call of a stack of recurrent layers."""

    layers: Layers
    input: Tensor
    weights: list[Tensor]
    hidden: list[Tensor]  # of an LSTM the cells' states too
    batch_sizes: list[int]  # of a packed sequence
    batch_first: bool
    dropout: float
    is_training: bool

    @property
    def by_time(self) -> Tensor:
        """The input with time as its first dimension."""
        if self.batch_first and not self.batch_sizes:
            return self.input.transpose(0, 1)
        return self.input

    @property
    def bytes_kept(self) -> int:
        """An estimate of what cuDNN keeps for backward: all gates, states and results.

        cuDNN does not publish the size.
        """
        if not self.is_training:
            return 0
        layers = self.layers
        steps = prod(self.input.shape[:-1])
        numbers = layers.hidden_size * (layers.kind.gates + 1)
        elements = steps * numbers * layers.num_layers * layers.directions
        return max(elements * self.input.element_size(), SEED_SIZE)


def _call_of(named: dict[str, Any]) -> Call:
    """Return the call that the arguments of one of cuDNN's operators describe."""
    layers = _layers_of(named)
    hidden = [named["hx"]]
    if named["cx"] is not None:
        hidden.append(named["cx"])
    return Call(
        layers=layers,
        input=named["input"],
        weights=named["weight"],
        hidden=hidden,
        batch_sizes=named["batch_sizes"],
        batch_first=named["batch_first"],
        dropout=named["dropout"],
        is_training=named["train"],
    )


def _compute(call: Call, seed: int) -> list[Tensor]:
    """Return the output of a call, with time as its first dimension, and the last states."""
    layers = call.layers
    states = call.hidden if len(call.hidden) > 1 else call.hidden[0]
    settings = (
        layers.has_biases,
        layers.num_layers,
        call.dropout,
        call.is_training,
        layers.directions > 1,
    )
    with ExitStack() as stack:
        if call.is_training and call.dropout > 0:
            stack.enter_context(random.default_seeded(seed))
        if layers.proj_size:
            # The CPU warns that oneDNN knows no projections.
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
        if call.batch_sizes:
            sizes = torch.tensor(call.batch_sizes)
            run = layers.kind.packed
            return list(run(call.input, sizes, states, call.weights, *settings))
        run = layers.kind.padded
        return list(run(call.by_time, states, call.weights, *settings, False))


def _in_type_of_sums(call: Call) -> Call:
    """Widen the tensors of a call as cuDNN does (`promote_rnn_math_type`)."""
    return call._replace(
        input=widened(call.input),
        weights=[widened(weight) for weight in call.weights],
        hidden=[widened(state) for state in call.hidden],
    )


@rule(kernels.cudnn)
def cudnn(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Run a stack of layers, and keep the seed of its dropout for backward."""
    gpu = common_gpu(func, args, kwargs)
    named = all_arguments(func, args, kwargs)
    call = _call_of(named)
    _check(call)

    buffer = named["weight_buf"]
    if buffer is None:
        buffer = _pack(call.layers, call.input.shape[-1], call.weights)
    # Memory that the card lacks is refused before the host computes.
    memory = Allocation(gpu, call.bytes_kept)
    kept = put(torch.empty(call.bytes_kept, dtype=torch.uint8), gpu, memory)
    seed = 0
    if call.is_training and call.dropout > 0:
        seed = random.new_seed(gpu)
        kept[:SEED_SIZE].view(torch.int64).fill_(seed)

    results = _compute(_in_type_of_sums(call), seed)
    dtype = call.input.dtype
    output, *states = [result.contiguous().to(dtype) for result in results]
    if call.batch_first and not call.batch_sizes:
        output = output.transpose(0, 1)
    if len(states) == 1:
        states.append(output.new_empty(0))
    # The last result may be the argument, which autograd does not expect.
    return tag_results((output, *states, kept, buffer.view(-1)), gpu)


def _check(call: Call) -> None:
    """Raise what `_cudnn_rnn` does for states that are not as cuDNN wants them."""
    names = ("hx", "cx")
    for name, state in zip(names, call.hidden, strict=False):
        if not state.is_contiguous():
            raise RuntimeError(MESSAGES["not contiguous"].format(name))


@rule(kernels.cudnn_backward)
def cudnn_backward(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Compute gradients, from the layers' results once more: cuDNN kept what it needs."""
    gpu = common_gpu(func, args, kwargs)
    named = all_arguments(func, args, kwargs)
    call = _call_of(named)
    if not call.is_training:
        raise RuntimeError(MESSAGES["evaluation"])

    seed = 0
    if call.dropout > 0:
        seed = int(named["reserve"][:SEED_SIZE].view(torch.int64))
    incoming = [named["grad_output"], named["grad_hy"]]
    if len(call.hidden) > 1:
        incoming.append(named["grad_cy"])
    if incoming[0] is not None and call.batch_first and not call.batch_sizes:
        incoming[0] = incoming[0].transpose(0, 1)

    gradients = _gradients(_in_type_of_sums(call), seed, incoming)
    return tag_results(_as_cudnn_returns(call, named["output_mask"], gradients), gpu)


@contextmanager
def _with_autograd() -> Iterator[None]:
    """Let autograd record, which the dispatcher has switched off within a mode."""
    with (
        SetKeyExcluded(DispatchKey.AutogradFunctionality, False),
        SetKeyExcluded(DispatchKey.ADInplaceOrView, False),
        torch.enable_grad(),
    ):
        yield


def _gradients(
    call: Call, seed: int, incoming: list[Tensor | None]
) -> list[Tensor | None]:
    """Return the gradients of the input, the states and the weights, in this order."""
    with _with_autograd():
        tracked = []
        for tensor in (call.input, *call.hidden, *call.weights):
            tracked.append(tensor.detach().requires_grad_())
        states = len(call.hidden)
        again = call._replace(
            input=tracked[0],
            hidden=tracked[1 : 1 + states],
            weights=tracked[1 + states :],
        )
        outputs = []
        gradients = []
        for result, gradient in zip(_compute(again, seed), incoming, strict=True):
            if gradient is not None:
                outputs.append(result)
                gradients.append(gradient.to(result.dtype))
        # Without the checks of devices: what is computed here lives nowhere.
        return private.compute_gradients(
            tuple(outputs),
            tuple(gradients),
            keep_graph=False,
            create_graph=False,
            inputs=tuple(tracked),
            allow_unreachable=True,
            accumulate_grad=False,
        )


def _as_cudnn_returns(
    call: Call, needed: list[bool], gradients: list[Tensor | None]
) -> tuple:
    """Return gradients of input, hidden states, cells' states, and weights.

    Those of the weights are views of one buffer, as the weights may be.
    """
    dtype = call.input.dtype
    of_input, *others = gradients
    of_states = others[: len(call.hidden)]
    of_weights = others[len(call.hidden) :]
    if len(of_states) == 1:
        of_states.append(None)

    results = []
    pairs = zip((of_input, *of_states), needed[:3], strict=True)
    for gradient, is_needed in pairs:
        if is_needed and gradient is not None:
            results.append(gradient.to(dtype))
        else:
            results.append(torch.Tensor())
    if not needed[3]:
        return *results, [torch.Tensor() for _ in call.weights]

    found = []
    for gradient, weight in zip(of_weights, call.weights, strict=True):
        found.append(torch.zeros_like(weight) if gradient is None else gradient)
    input_size = call.input.shape[-1]
    buffer = _pack(call.layers, input_size, found).to(dtype)
    slots, _ = lay_out(call.layers, input_size)
    return *results, [_view(buffer, slot) for slot in slots]


# Cells: see cuda/RNN.cu.


@rule(kernels.lstm_cell)
def lstm_cell(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Run one step of an LSTM."""
    gpu = common_gpu(func, args, kwargs)
    named = all_arguments(func, args, kwargs)
    before = named["cx"]
    gates = _add_gates(named)
    enter, forget, new, leave = gates.chunk(4, 1)
    enter, forget, leave = enter.sigmoid(), forget.sigmoid(), leave.sigmoid()
    new = new.tanh()
    after = forget * before + enter * new
    results = (leave * after.tanh(), after, torch.cat([enter, forget, new, leave], 1))
    dtype = before.dtype
    return tag_results(tuple(result.to(dtype) for result in results), gpu)


def _add_gates(named: dict[str, Any]) -> Tensor:
    """Return the sums of products and biases of an LSTM, in the type of sums."""
    total = widened(named["input_gates"]) + widened(named["hidden_gates"])
    for name in ("input_bias", "hidden_bias"):
        if named.get(name) is not None:
            total = total + widened(named[name])
    return total


@rule(kernels.lstm_cell_backward)
def lstm_cell_backward(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Return the gradients of the gates, of the cell's state and of a bias."""
    gpu = common_gpu(func, args, kwargs)
    named = all_arguments(func, args, kwargs)
    before = named["cx"]
    dtype = before.dtype
    enter, forget, new, leave = widened(named["workspace"]).chunk(4, 1)
    squashed = widened(named["cy"]).tanh()
    of_hidden = named["grad_hy"]
    of_cell = named["grad_cy"]
    if of_hidden is None:
        of_hidden = torch.zeros_like(squashed)
    if of_cell is None:
        of_cell = torch.zeros_like(squashed)

    flow = of_hidden * leave * (1 - squashed**2) + of_cell
    of_gates = torch.cat(
        [
            flow * new * (1 - enter) * enter,
            flow * widened(before) * (1 - forget) * forget,
            flow * enter * (1 - new**2),
            of_hidden * squashed * (1 - leave) * leave,
        ],
        1,
    ).to(dtype)
    of_bias = of_gates.sum(0) if named["has_bias"] else torch.Tensor()
    results = (of_gates, (flow * forget).to(dtype), of_bias)
    return tag_results(results, gpu)


@rule(kernels.gru_cell)
def gru_cell(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Run one step of a GRU."""
    gpu = common_gpu(func, args, kwargs)
    named = all_arguments(func, args, kwargs)
    before = widened(named["hx"])
    from_input = widened(named["input_gates"])
    from_hidden = widened(named["hidden_gates"])
    if named.get("input_bias") is not None:
        from_input = from_input + widened(named["input_bias"])
        from_hidden = from_hidden + widened(named["hidden_bias"])

    reset_input, update_input, new_input = from_input.chunk(3, 1)
    reset_hidden, update_hidden, new_hidden = from_hidden.chunk(3, 1)
    reset = (reset_input + reset_hidden).sigmoid()
    update = (update_input + update_hidden).sigmoid()
    new = (new_input + reset * new_hidden).tanh()
    after = new + update * (before - new)
    workspace = torch.cat([reset, update, new, before, new_hidden], 1)
    dtype = named["hx"].dtype
    return tag_results((after.to(dtype), workspace.to(dtype)), gpu)


@rule(kernels.gru_cell_backward)
def gru_cell_backward(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Return the gradients of both products, of the state and of the biases."""
    gpu = common_gpu(func, args, kwargs)
    named = all_arguments(func, args, kwargs)
    gradient, workspace = named["grad_hy"], named["workspace"]
    dtype = workspace.dtype
    reset, update, new, before, new_hidden = widened(workspace).chunk(5, 1)
    of_update = gradient * (before - new) * (1 - update) * update
    of_new = gradient * (1 - update) * (1 - new**2)
    of_reset = of_new * new_hidden * (1 - reset) * reset
    of_input = torch.cat([of_reset, of_update, of_new], 1).to(dtype)
    of_hidden = torch.cat([of_reset, of_update, of_new * reset], 1).to(dtype)

    biases = [torch.Tensor(), torch.Tensor()]
    if named["has_bias"]:
        biases = [of_input.sum(0), of_hidden.sum(0)]
    results = (of_input, of_hidden, (gradient * update).to(dtype), *biases)
    return tag_results(results, gpu)
