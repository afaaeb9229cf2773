"""Recurrent layers are cuDNN's: their packed weights, their gradients and their refusals.

The words are those of torch 2.13: aten/src/ATen/native/cudnn/RNN.cpp, RNN.h and RNN.cpp.
"""

import copy
import io
import warnings

import pytest
import torch
from calls import raised
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("two_gpus")

NOT_PACKED = (
    "RNN module weights are not part of single contiguous chunk of memory. This means they "
    "need to be compacted at every call, possibly greatly increasing memory usage. To "
    "compact weights again call flatten_parameters()."
)
OPTIONS = [
    {"num_layers": 1, "batch_first": False},
    {"num_layers": 2, "batch_first": False, "bidirectional": True},
    {"num_layers": 1, "batch_first": True, "bias": False},
    {"num_layers": 2, "batch_first": True, "bidirectional": True, "bias": False},
]


def lstm(*sizes, **options):
    torch.manual_seed(0)
    return nn.LSTM(*(sizes or (2, 3)), **options).cuda()


def sequence(**options):
    """Four steps of one sequence."""
    return torch.ones(4, 1, 2, device="cuda", **options)


def heard(call):
    """Return the warnings of `call`."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return found


def kernel_of(tensor):
    return type(tensor.grad_fn).__name__


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_values_and_gradients_are_those_of_the_cpu(kind, options, is_packed):
    torch.manual_seed(0)
    on_cpu = kind(3, 4, **options)
    on_gpu = copy.deepcopy(on_cpu).cuda(1)
    values = torch.rand(5, 5, 3)
    outputs = []
    gradients = []
    for layers, device in ((on_cpu, "cpu"), (on_gpu, "cuda:1")):
        x = values.to(device, copy=True).requires_grad_()
        batch = x
        if is_packed:
            first = options["batch_first"]
            batch = pack_padded_sequence(x, [5, 4, 2, 2, 1], batch_first=first)
        output, states = layers(batch)
        output = output.data if is_packed else output
        (output.sin().sum() + states[-1].sum()).backward()
        outputs.append([output, *states])
        gradients.append([x.grad, *(weight.grad for weight in layers.parameters())])

    assert kernel_of(outputs[1][0]) == "CudnnRnnBackward0"
    for expected, found in zip(*outputs, strict=True):
        torch.testing.assert_close(found, expected.to("cuda:1"))
    for expected, found in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected.to("cuda:1"))


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported")
def test_projections_are_computed_as_on_the_cpu():
    torch.manual_seed(0)
    on_cpu = nn.LSTM(3, 4, 2, proj_size=2, bidirectional=True)
    on_gpu = copy.deepcopy(on_cpu).cuda()
    x = torch.rand(5, 2, 3)
    expected, _ = on_cpu(x)
    found, _ = on_gpu(x.cuda())
    torch.testing.assert_close(found, expected.cuda())
    for output in (expected, found):
        output.sum().backward()
    for here, there in zip(on_cpu.parameters(), on_gpu.parameters(), strict=True):
        torch.testing.assert_close(there.grad, here.grad.cuda())


def test_all_weights_are_views_of_one_buffer():
    """First all matrices, then all biases, as in TensorFlow's `_canonical_to_params`."""
    before = torch.cuda.memory_allocated()
    layers = lstm(2, 3, num_layers=2)
    matrices = 4 * 3 * (2 + 3) + 4 * 3 * (3 + 3)
    biases = 4 * 3 * 4
    assert torch.cuda.memory_allocated() - before == 1024  # of 4 * 180 = 720
    assert layers.weight_ih_l1.storage_offset() == 4 * 3 * (2 + 3)
    assert layers.bias_ih_l0.storage_offset() == matrices
    assert layers.bias_hh_l1.untyped_storage().nbytes() == 4 * (matrices + biases)
    file = io.BytesIO()
    torch.save(layers.state_dict(), file)
    loaded = torch.load(io.BytesIO(file.getvalue()))
    starts = {tensor.untyped_storage().data_ptr() for tensor in loaded.values()}
    assert len(starts) == 1


def test_without_cudnn_weights_are_apart():
    with torch.backends.cudnn.flags(enabled=False):
        layers = lstm()
        output, _ = layers(sequence())
    assert layers.bias_ih_l0.storage_offset() == 0
    assert kernel_of(output) == "StackBackward0"


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_without_cudnn_cells_run_one_after_the_other(kind):
    torch.manual_seed(0)
    on_cpu = kind(3, 4, 2, bidirectional=True, batch_first=True)
    on_gpu = copy.deepcopy(on_cpu).cuda()
    x = torch.rand(5, 2, 3)
    expected, expected_states = on_cpu(x)
    with torch.backends.cudnn.flags(enabled=False):
        found, states = on_gpu(x.cuda())
    torch.testing.assert_close(found, expected.cuda())
    torch.testing.assert_close(states[-1], expected_states[-1].cuda())
    for output in (expected, found):
        output.sin().sum().backward()
    for here, there in zip(on_cpu.parameters(), on_gpu.parameters(), strict=True):
        torch.testing.assert_close(there.grad, here.grad.cuda())


def test_without_cudnn_layers_can_be_differentiated_twice():
    layers = lstm().double()
    x = sequence(dtype=torch.float64, requires_grad=True)
    with torch.backends.cudnn.flags(enabled=False):
        assert torch.autograd.gradgradcheck(lambda x: layers(x)[0], (x,))


def test_weights_that_are_not_packed_are_warned_of():
    layers = lstm()
    assert not heard(lambda: layers(sequence()))
    layers.weight_hh_l0.data = layers.weight_hh_l0.data.clone()
    (warning,) = heard(lambda: layers(sequence()))
    assert str(warning.message) == NOT_PACKED
    assert warning.filename == nn.modules.rnn.__file__
    layers.flatten_parameters()
    assert not heard(lambda: layers(sequence()))


def test_python_packs_no_bfloat16():
    """It is not among CUDNN_TENSOR_DTYPES of torch/backends/cudnn/__init__.py."""
    layers = lstm().bfloat16()
    (warning,) = heard(lambda: layers(sequence(dtype=torch.bfloat16)))
    assert str(warning.message) == NOT_PACKED


def test_backward_in_evaluation_is_refused():
    layers = lstm().eval()
    output, _ = layers(sequence(requires_grad=True))
    words = raised(output.sum().backward, RuntimeError)
    assert words == "cudnn RNN backward can only be called in training mode"
    with torch.backends.cudnn.flags(enabled=False):
        output, _ = layers(sequence(requires_grad=True))
        output.sum().backward()


def test_a_second_derivative_is_refused():
    x = sequence(requires_grad=True)
    output, _ = lstm()(x)
    (gradient,) = torch.autograd.grad(output.sum(), x, create_graph=True)
    words = raised(gradient.sum().backward, NotImplementedError)
    assert (
        "Double backwards is not supported for CuDNN RNNs due to limitations" in words
    )


def test_states_have_to_fit_the_input():
    layers = lstm()
    zeros = torch.zeros(1, 1, 3, device="cuda")
    elsewhere = zeros.to("cuda:1")
    assert raised(lambda: layers(sequence(), (zeros, elsewhere)), RuntimeError) == (
        "Input and hidden tensors are not at the same device, found input tensor at cuda:0 "
        "and hidden tensor at cuda:1"
    )
    assert raised(lambda: layers(sequence(), (zeros.half(), zeros)), RuntimeError) == (
        "Input and hidden tensors are not the same dtype, found input tensor with Float and "
        "hidden tensor with Half"
    )
    spread = torch.zeros(1, 1, 6, device="cuda")[..., ::2]
    assert raised(lambda: layers(sequence(), (spread, zeros)), RuntimeError) == (
        "rnn: hx is not contiguous"
    )


def test_autocast_computes_layers_in_half_precision():
    """See aten/src/ATen/cudnn/AutocastRNN.cpp; the fused cells are in autocast_mode.h."""
    layers = lstm()
    with torch.autocast("cuda"):
        output, (hidden, _) = layers(sequence())
        with torch.backends.cudnn.flags(enabled=False):
            by_steps, _ = layers(sequence())
    assert output.dtype == hidden.dtype == by_steps.dtype == torch.float16
    output.sum().backward()
    assert layers.weight_hh_l0.grad.dtype == torch.float32
    # What the layer gets may have either type: all of it is cast.
    zeros = torch.zeros(1, 1, 3, device="cuda")
    with torch.autocast("cuda"):
        output, _ = layers.half()(sequence(), (zeros.half(), zeros))
    assert output.dtype == torch.float16


def test_dropout_draws_the_same_again_from_the_same_seed():
    layers = lstm(2, 8, num_layers=2, dropout=0.5)

    def gradient(run):
        torch.cuda.manual_seed(1)
        x = sequence(requires_grad=True)
        output = run(x)
        output.sum().backward(retain_graph=True)
        return x.grad

    expected = gradient(lambda x: layers(x)[0])
    assert torch.equal(gradient(lambda x: layers(x)[0]), expected)
    recomputed = gradient(
        lambda x: checkpoint(lambda x: layers(x)[0], x, use_reentrant=False)
    )
    assert torch.equal(recomputed, expected)
    x = sequence()
    assert not torch.equal(layers(x)[0], layers(x)[0])


def test_replicas_of_data_parallel_compute_the_same_gradients():
    layers = lstm(2, 3, num_layers=2, batch_first=True)
    batch = torch.rand(4, 5, 2, device="cuda")
    expected = torch.autograd.grad(layers(batch)[0].sum(), list(layers.parameters()))
    output, _ = nn.DataParallel(layers)(batch)
    output.sum().backward()
    for weight, gradient in zip(layers.parameters(), expected, strict=True):
        torch.testing.assert_close(weight.grad, gradient)


@pytest.mark.parametrize(
    ("kind", "kernel"),
    [
        (nn.LSTMCell, "ThnnFusedLstmCellBackward0"),
        (nn.GRUCell, "ThnnFusedGruCellBackward0"),
        (nn.RNNCell, "TanhBackward0"),
    ],
)
@pytest.mark.parametrize("bias", [True, False])
def test_cells_take_fused_kernels(kind, kernel, bias):
    torch.manual_seed(0)
    on_cpu = kind(2, 3, bias=bias)
    on_gpu = copy.deepcopy(on_cpu).cuda()
    results = []
    for cell, device in ((on_cpu, "cpu"), (on_gpu, "cuda")):
        x = torch.ones(4, 2, device=device, requires_grad=True)
        states = cell(x)
        if kind is nn.LSTMCell:
            states = cell(x, states)[0]
        else:
            states = cell(x, states)
        states.sin().sum().backward()
        gradients = [weight.grad for weight in cell.parameters()]
        results.append([states, x.grad, *gradients])

    assert kernel_of(results[1][0]) == kernel
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected.cuda())


def test_cells_can_be_differentiated_twice():
    cell = nn.LSTMCell(2, 3).cuda().double()
    x = torch.rand(1, 2, device="cuda", dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: cell(x)[0], (x,))


def test_a_cell_checks_its_states_as_on_cuda():
    cell = nn.GRUCell(2, 3).cuda()
    x = torch.ones(1, 2, device="cuda")
    assert raised(lambda: cell(x, torch.ones(2, 3, device="cuda")), RuntimeError) == (
        "Input batch size 1 doesn't match hidden0 batch size 2"
    )
    lstm_cell = nn.LSTMCell(2, 3).cuda()
    state = torch.ones(1, 3)
    words = raised(lambda: lstm_cell(x, (state.cuda(), state)), RuntimeError)
    assert "wrapper_CUDA___thnn_fused_lstm_cell" in words


class First(nn.Module):
    """The results of recurrent layers, without the states."""

    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def forward(self, x):
        return self.layers(x)[0]


@pytest.mark.filterwarnings("ignore:`torch.jit.script")
def test_torchscript_knows_recurrent_layers():
    module = First(lstm())
    scripted = torch.jit.script(module)
    found = scripted(sequence())
    torch.testing.assert_close(found, module(sequence()))
    assert found.device == torch.device("cuda:0")


def test_what_layers_keep_for_backward_has_to_fit_on_the_card():
    layers = nn.LSTM(8, 1024, 4, device="cuda")
    batch = torch.empty(4000, 512, 8, device="cuda")
    raised(lambda: layers(batch), torch.OutOfMemoryError)


CUDNN_LSTM = (2, 4, 0, 1, False, 0.0, True, False, [], None)


def test_states_of_cudnn_are_on_the_device_of_the_input():
    layer = lstm(3, 4)
    hidden = torch.zeros(1, 2, 4, device="cuda:1")
    weights = list(layer.parameters())
    x = torch.rand(5, 2, 3, device="cuda:0")
    expected = "found input tensor at cuda:0 and hidden tensor at cuda:1"
    with pytest.raises(RuntimeError, match=expected):
        torch.ops.aten._cudnn_rnn(x, weights, 4, None, hidden, hidden, *CUDNN_LSTM)


def test_gradients_of_a_cell_are_on_the_device_of_its_state():
    here = torch.rand(2, 4, device="cuda:0")
    workspace = torch.rand(2, 16, device="cuda:1")
    expected = "got workspace is on cuda:1, different from other tensors on cuda:0"
    backward = torch.ops.aten._thnn_fused_lstm_cell_backward_impl
    with pytest.raises(RuntimeError, match=expected):
        backward(here, here, here, here, workspace, has_bias=True)
