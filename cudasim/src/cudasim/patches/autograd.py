"""Gradients: where they begin, where they end, and the errors of the engine.

C++ believes every tensor to be on the CPU, so devices are compared here, as
torch/csrc/autograd/engine.cpp does it. Its engine has a thread for each GPU (`thread_init`),
in which that GPU is the current one: for the backward of a node whose results were there
(`Node::device` in function.h), and for the program's hooks that run with it.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import wraps
from types import EllipsisType, NoneType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction, Function

from cudasim.clock.watching import backward_nodes
from cudasim.device.gpu import GPU
from cudasim.dispatch.dtypes import scalar_type
from cudasim.dispatch.tags import CPU, device_of, gpu_of, put, storage_of
from cudasim.patches.moves import copy_to
from cudasim.patching import replaces
from cudasim.session import session
from cudasim.torch_private import tensors as private
from cudasim.words import WORDS

# The attribute of a node of a graph that holds the GPUs of its arguments and results.
PLACES = "_cudasim_places"
# The attribute of what a hook has packed: the GPU of the tensor that it was.
PACKED_ON = "_cudasim_packed_on"
NOT_A_TENSOR = object()  # stands for the GPU of such an argument
# The entry of a node's metadata that holds the GPU on which its results have to be.
EXPECTED_ON = "cudasim: expected on"
# How C++ names types: by dispatch keys and dtypes, of which it translates some.
LAYOUT_KEYS = {torch.strided: "", torch.sparse_coo: "Sparse"}
TRANSLATED_KEYS = {"CPU": "torch", "CUDA": "torch.cuda"}
TRANSLATED_DTYPES = ("Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")
# The nodes of graphs that may change the device.
CROSSINGS = ("ToCopyBackward0", "CopyBackwards")
BACKWARDS = [
    name for name in ("apply", "apply_boxed") if hasattr(BackwardCFunction, name)
]


def _as_tuple(value: Any) -> tuple:
    return value if isinstance(value, tuple) else (value,)


def _on_gpus(values: Iterable) -> list:
    return [
        gpu_of(value) if isinstance(value, Tensor) else NOT_A_TENSOR for value in values
    ]


def _first_gpu(values: Iterable) -> GPU | None:
    """Return the GPU of the first tensor among `values` that is on one."""
    for value in values:
        gpu = gpu_of(value) if isinstance(value, Tensor) else None
        if gpu is not None:
            return gpu
    return None


def _run_on(gpu: GPU | None, function: Callable, *args: Any) -> Any:
    """Call a function of the program in backward, with `gpu` as the current one.

    The stream is that of the node. None leaves the current GPU.
    """
    thread = session.thread
    if thread.follow_node is not None:
        thread.follow_node()
    before = thread.index
    if gpu is not None:
        thread.index = gpu.index
    try:
        return function(*args)
    finally:
        thread.index = before


def _moved_to(source: Any, target: Tensor) -> Any:
    """Return `source` where `target` is, if its gradient has to find the way back.

    Anything else is returned as it is.
    """
    if not isinstance(source, Tensor):
        return source
    if not source.requires_grad or not torch.is_grad_enabled():
        return source
    gpu = gpu_of(target)
    return source if gpu is gpu_of(source) else copy_to(source, gpu, {})


# The engine's words where the tensors with which PyTorch traces are on a GPU: it looks for a
# stream of that, or a queue (torch/csrc/autograd/engine.cpp).
FOR_REAL_GPUS = (
    "Cannot access accelerator device",
    "device_ready_queues_.size()",
    "hasPrimaryContext expects a valid device index",
)


@replaces(Tensor, "copy_")
def copy_(original: Callable, self: Tensor, *args, **kwargs) -> Tensor:
    if args:
        args = (_moved_to(args[0], self), *args[1:])
    elif "src" in kwargs:
        kwargs["src"] = _moved_to(kwargs["src"], self)
    return original(self, *args, **kwargs)


@replaces(Tensor, "__setitem__")
def setitem(original: Callable, self: Tensor, index: Any, value: Any) -> None:
    """Copy, as `copy_` does, if the index is a view; else only a number may be elsewhere."""
    if isinstance(value, Tensor):
        kinds = (int, slice, NoneType, EllipsisType)
        is_view = all(type(part) in kinds for part in _as_tuple(index))
        if is_view or value.dim() == 0:
            value = _moved_to(value, self)
    original(self, index, value)


@replaces(*private.MAKE_GRADS)
def make_grads(original: Callable, outputs: Iterable, *args, **kwargs) -> tuple:
    """Begin a backward pass with gradients that have to be where their outputs are."""
    outputs = tuple(outputs)
    gradients = original(outputs, *args, **kwargs)
    homes = _on_gpus(outputs)
    pairs = zip(homes, gradients, strict=True)
    return tuple(
        _at_home(home, gradient, index, "invalid gradient")
        for index, (home, gradient) in enumerate(pairs)
    )


def _at_home(home: Any, gradient: Any, index: int, message: str) -> Any:
    """Return `gradient` if it is on the GPU `home`, as a number always can be.

    Raises RuntimeError, which begins with `message`, for one that is elsewhere.
    """
    if home is NOT_A_TENSOR or not isinstance(gradient, Tensor):
        return gradient
    if gpu_of(gradient) is home or gradient.is_meta:
        return gradient
    if storage_of(gradient) is None:  # batched by `is_grads_batched`
        return gradient
    if gradient.dim() == 0:
        return copy_to(gradient, home, {})

    expected = home.device if home else CPU
    raise RuntimeError(
        f"{message} at index {index} - expected device {expected} "
        f"but got {device_of(gradient)}"
    )


@replaces(Tensor, "register_hook", overridable=True)
# C++'s own class of nodes cannot be changed.
@replaces(BackwardCFunction, "register_hook", "register_prehook")
def register_hook(original: Callable, self: Any, hook: Callable) -> Any:
    """Run a hook on the GPU of its node, and check the type of the gradients it returns.

    C++ does that in `check_variable_result`, which does not ask for the GPU's index. A
    gradient on another GPU is refused once the next node has passed it on.
    """

    @wraps(hook)
    def checked(gradients: Any, *more: tuple) -> Any:
        # What comes last are the gradients of the node's results.
        gpu = _first_gpu(_as_tuple(more[-1] if more else gradients))
        results = _run_on(gpu, hook, gradients, *more)
        pairs = zip(_as_tuple(gradients), _as_tuple(results), strict=False)
        for index, (before, after) in enumerate(pairs):
            if not isinstance(before, Tensor) or not isinstance(after, Tensor):
                continue
            home = gpu_of(before)
            if home is None and gpu_of(after) is None:
                continue  # C++ compares them
            _check_type(hook, before, after)
            if gpu_of(after) is not home:
                node = private.current_node()
                if more:  # the hook runs after its node
                    node, _ = node.next_functions[index]
                _expect_gradients(node, home)
        return results

    return original(self, checked)


def _check_type(hook: Callable, before: Tensor, after: Tensor) -> None:
    """Refuse the result of a hook that has another type than the gradient it was given."""
    was, got = _type_name(before), _type_name(after)
    if was != got:
        name = getattr(hook, "__name__", "<unknown>")
        raise RuntimeError(WORDS["devices"]["hook"].format(name, was, got))


def _type_name(tensor: Tensor) -> str:
    """Return the type of `tensor` as an error from C++ names it.

    See `TensorBase::toString` in aten/src/ATen/core/Tensor.cpp, and the types that
    torch/csrc/Exceptions.cpp translates.
    """
    gpu = gpu_of(tensor)
    key = gpu.type.key if gpu else "CPU"
    layout = LAYOUT_KEYS.get(tensor.layout, "SparseCsr")
    dtype = scalar_type(tensor.dtype)
    if key not in TRANSLATED_KEYS or dtype not in TRANSLATED_DTYPES:
        return f"{layout}{key}{dtype}Type"

    module = TRANSLATED_KEYS[key]
    if layout == "Sparse":
        return f"{module}.sparse.{dtype}Tensor"
    # Of a compressed layout a part is translated.
    return f"{layout}{module}.{dtype}Tensor"


def _expect_gradients(node: Any, home: GPU) -> None:
    """Refuse what a node of C++ returns on another GPU than `home`, as `validate_outputs`.

    A `Function` of the program checks its gradients itself (`apply_backward`), and what
    accumulates the gradient of a leaf takes it from any GPU (accumulate_grad.h).
    """
    if node is None or isinstance(node, BackwardCFunction):
        return
    if type(node).__name__ in CROSSINGS or EXPECTED_ON in node.metadata:
        return

    name = node.name()

    def check(gradients: tuple, _: tuple) -> tuple:
        message = f"Function {name} returned an invalid gradient"
        return tuple(
            _at_home(home, gradient, index, message)
            for index, gradient in enumerate(gradients)
        )

    node.metadata[EXPECTED_ON] = home  # as the next hook may move the gradient again
    node.register_hook(check)


@replaces(Tensor, "register_post_accumulate_grad_hook")
def register_last_hook(original: Callable, self: Tensor, hook: Callable) -> Any:
    """Run a hook, once a gradient is accumulated, on the GPU of its tensor."""

    @wraps(hook)
    def run(parameter: Tensor) -> Any:
        return _run_on(gpu_of(parameter), hook, parameter)

    return original(self, run)


@replaces(torch.autograd.graph.saved_tensors_hooks, "__init__")
def init_hooks(
    original: Callable, self: Any, pack_hook: Callable, unpack_hook: Callable
) -> None:
    """Unpack a saved tensor on its GPU, which is nearly always that of the node.

    If what was packed takes no attribute, as a number does not, it is unpacked where the
    last operation ran. Graphs in the place of hooks are the compiler's.
    """
    if isinstance(unpack_hook, torch.fx.GraphModule):
        original(self, pack_hook, unpack_hook)
        return

    @wraps(pack_hook)
    def pack(tensor: Tensor) -> Any:
        packed = pack_hook(tensor)
        with suppress(AttributeError):
            setattr(packed, PACKED_ON, gpu_of(tensor))
        return packed

    @wraps(unpack_hook)
    def unpack(packed: Any) -> Any:
        if private.backward_id() == -1:
            return unpack_hook(packed)
        gpu = getattr(packed, PACKED_ON, session.thread.operation.last_gpu)
        return _run_on(gpu, unpack_hook, packed)

    original(self, pack, unpack)


@replaces(Function, "apply")
def apply_function(original: Callable, cls: type, *args, **kwargs) -> Any:
    """Note, on a `Function`'s node, on which devices its gradients have to be."""
    out = original(cls, *args, **kwargs)
    results = _as_tuple(out)
    for result in results:
        node = result.grad_fn if isinstance(result, Tensor) else None
        if isinstance(node, private.backward_class(cls)):
            setattr(node, PLACES, (_on_gpus(args), _on_gpus(results)))
            break
    return out


@replaces(BackwardCFunction, *BACKWARDS)
def apply_backward(original: Callable, self: Any, *args) -> Any:
    """Run the backward of a `Function`, whose gradients have to be where its inputs were."""
    input_gpus, output_gpus = getattr(self, PLACES, ((), ()))
    for gradient, gpu in zip(args, output_gpus, strict=False):
        if gpu is NOT_A_TENSOR or not isinstance(gradient, Tensor):
            continue
        if gpu_of(gradient) is None:
            put(gradient, gpu)  # zeros that C++ made for a result that was not used

    node_gpu = next((gpu for gpu in output_gpus if isinstance(gpu, GPU)), None)
    found = _run_on(node_gpu, original, self, *args)
    if not input_gpus:
        return found
    return _check_gradients(self, list(_as_tuple(found)), input_gpus)


def _check_gradients(node: Any, gradients: list, input_gpus: list) -> tuple:
    message = f"Function {type(node).__name__} returned an invalid gradient"
    index = -1  # among the tensors, as the engine counts
    pairs = zip(input_gpus, node.needs_input_grad, strict=False)
    for position, (home, needed) in enumerate(pairs):
        if home is not NOT_A_TENSOR:
            index += 1
        if needed and position < len(gradients):
            gradients[position] = _at_home(home, gradients[position], index, message)
    return tuple(gradients)


@replaces(*private.RUN_BACKWARD)
def run_engine(original: Callable, outputs: Any, *args, **kwargs) -> Any:
    """Start the engine. Its errors name types of tensors, which are made those of GPUs."""
    try:
        return original(outputs, *args, **kwargs)
    except RuntimeError as error:
        message = str(error)
        if any(words in message for words in FOR_REAL_GPUS):
            text = WORDS["compiler"]["traced gradients"]
            raise NotImplementedError(text) from error
        names_type = "modified by an inplace operation: [torch." in message
        if names_type and _stays_on_gpus(outputs):
            module = outputs[0].type().rpartition(".")[0]
            error.args = (message.replace("[torch", f"[{module}", 1),)
        raise


def _stays_on_gpus(outputs: Iterable) -> bool:
    """Tell whether all outputs are on GPUs, and nothing in their graph changes the device."""
    for output in outputs:
        if not isinstance(output, Tensor) or gpu_of(output) is None:
            return False
    return all(type(step).__name__ not in CROSSINGS for step in backward_nodes(outputs))
