"""`torch.compile`, `torch.export` and TorchScript.

The compiler traces simulated tensors as it traces those of a card: it guards their device,
and calls the backend that was chosen. Inductor alone generates no code for them. Its graphs
run by `aot_eager`, which a warning says once. Under modelled time they are booked as the
kernels that Inductor would generate.
"""

import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from cudasim.clock.compiled import compile_fused
from cudasim.device.gpu import GPU
from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.booking import book_kernel
from cudasim.dispatch.devices import resolve
from cudasim.importing import after_import
from cudasim.notices import SimulationWarning
from cudasim.patches.guards import registry
from cudasim.patching import Patches, changed, checks, replaces
from cudasim.session import session
from cudasim.timing.formulas import Work, guard_seconds
from cudasim.torch_private import dispatch
from cudasim.torch_private import tensors as private
from cudasim.torch_private.devices import EXCHANGE_DEVICE
from cudasim.torch_private.operators import efficient_zeros
from cudasim.words import WORDS

MESSAGES = WORDS["compiler"]
# The compiler, which most programs never import, and its parts that trace gradients,
# generate code and launch CUDA graphs.
DYNAMO = "torch._dynamo"
GRADIENTS = "torch._functorch.aot_autograd"
INDUCTOR = "torch._inductor.compile_fx"
GRAPH_TREES = "torch._inductor.cudagraph_trees"
# What only builds with CUDA have. `torch._inductor` imports it for CUDA graphs, which are
# never made here.
ONLY_IN_CUDA_BUILDS = {
    private.ALLOCATOR_STATE: type("AllocatorState", (), {}),
    private.CACHE_TENSORS: lambda enabled: None,
}


def patch_compile(patches: Patches) -> None:
    for attribute, value in ONLY_IN_CUDA_BUILDS.items():
        if not hasattr(*attribute):
            patches.replace(*attribute, value)
    # Fake tensors first make a plain one: PyTorch 2.11 does so where no mode sees it.
    patches.replace(dispatch.fake_tensor, "init_gpu_context", lambda device: None)
    # As where no GPU is available: constants are not moved while code is traced.
    patches.replace(
        dispatch.fake_tensor.FakeTensorMode, "avoid_device_init", property(_true)
    )

    _warn_once.cache_clear()
    if DYNAMO in sys.modules:
        from cudasim.torch_private import compiler as dynamo

        # What was compiled so far does not ask on which simulated device a tensor is.
        dynamo.forget_compiled()
    for module, prepare in (
        (DYNAMO, _prepare),
        (GRADIENTS, _prepare_gradients),
        (INDUCTOR, _prepare_inductor),
        (GRAPH_TREES, _prepare_graph_trees),
    ):
        give_up = after_import(module, partial(prepare, patches))
        patches.finally_do(give_up)


def _true(self: Any) -> bool:
    return True


@cache  # once in a simulation
def _warn_once(message: str) -> None:
    warnings.warn(f"cudasim: {message}", SimulationWarning, stacklevel=4)


def _prepare(patches: Patches) -> None:
    """Let the compiler trace simulated tensors."""
    from cudasim.torch_private import compiler as dynamo

    patches.finally_do(dynamo.forget_compiled)
    patches.forget(dynamo.trace_rules)
    dynamo.leave_alone(Path(__file__).parents[1])
    _allow_replaced(patches)
    if session.type.is_cuda:
        for attribute in dynamo.DEVICE_EXCHANGES:  # taken before the simulation began
            patches.replace(*attribute, staticmethod(EXCHANGE_DEVICE.read()))
    # Under modelled time it is one that costs time.
    setattr(*dynamo.MODULE_CALL, inspect.unwrap(torch.nn.Module.__call__))
    patches.replace(*dynamo.MODULE_CALL, torch.nn.Module.__call__)
    patches.wrap(*dynamo.TENSOR_MATCH, guard_device)
    patches.wrap(*dynamo.RUN_ON_CONSTANTS, run_on_constants)
    patches.wrap(*dynamo.INDUCTOR, compile_on_gpu)
    patches.wrap(*dynamo.OPTIMIZER_METHOD, call_optimizer)
    patches.forget(dynamo.OVERRIDABLE.owner)
    patches.wrap(*dynamo.OVERRIDABLE, overridable_functions)
    patches.wrap(*dynamo.CALL_MODE, call_mode)
    patches.wrap(*dynamo.COMPILE_ENGINE, compile_engine)
    patches.replace(*dynamo.TRITON_DRIVER, find_triton)


def _prepare_gradients(patches: Patches) -> None:
    """Let graphs be traced with the gradients of simulated tensors."""
    from cudasim.torch_private import gradients

    patches.wrap(*gradients.TRACE, trace_gradients)
    patches.wrap(*gradients.FUNCTIONALIZE, name_gpu)


def _prepare_inductor(patches: Patches) -> None:
    from cudasim.torch_private import inductor

    patches.wrap(*inductor.COMPILE_AHEAD, compile_ahead)


def _prepare_graph_trees(patches: Patches) -> None:
    from cudasim.torch_private import graph_trees

    patches.wrap(*graph_trees.MAKE_GRAPHS, run_as_graph)
    patches.replace(*graph_trees.FIND_TREES, lambda *args, **kwargs: NoTrees())


def run_as_graph(
    original: Callable, model: Callable, *args: Any, device_index: int, **kwargs: Any
) -> Callable:
    """Stand for the CUDA graphs of a compiled graph, as the backend "cudagraphs" makes them.

    It runs operation by operation, and under modelled time is one launch. Its results have
    memory of their own, which no later run overwrites.
    """
    device = torch.device(session.type.name, device_index)
    books = ClockBooks()

    def launch(values: list) -> Any:
        with books.one_launch(device) if session.clock else nullcontext():
            return model(values)

    return launch


class NoTrees:
    """Stands for the trees of graphs of a GPU, of which there are none."""

    def __bool__(self) -> bool:
        return False

    def set_to_running_backward(self) -> None:
        """Do nothing: no later run overwrites what forward left for gradients."""


def find_triton() -> None:
    """Raise the error of Triton without a driver, which a simulated GPU has not either.

    Inductor looks for it also where it compiles for the CPU.
    """
    raise RuntimeError("0 active drivers ([]). There should only be one.")


def compile_ahead(original: Callable, graph: Any, inputs: Any, *args, **options) -> Any:
    values = [*inputs, *graph.parameters(), *graph.buffers()]
    if _gpu_among(values) is not None:
        raise NotImplementedError(MESSAGES["ahead"])
    return original(graph, inputs, *args, **options)


def compile_engine(original: Callable, self: Any, inputs: Any, *args, **options) -> Any:
    if _gpu_among(inputs) is not None:
        raise NotImplementedError(MESSAGES["compiled autograd"])
    return original(self, inputs, *args, **options)


def _allow_replaced(patches: Patches) -> None:
    """Let what replaces PyTorch's functions stand in graphs where those would.

    A function may stand under several names, of which the compiler knows one.
    """
    from cudasim.torch_private import compiler as dynamo

    in_graphs = set()
    for before, now in patches.replaced():
        if dynamo.is_in_graphs(before) or dynamo.is_in_graphs(now):
            in_graphs.add(id(before))
    for before, now in patches.replaced():
        if id(before) not in in_graphs:
            continue
        for function in (before, now):  # the program may have taken either by name
            if not dynamo.is_in_graphs(function):
                dynamo.allow_in_graphs(function)
                patches.finally_do(dynamo.forbid_in_graphs, function)


@contextmanager
def run_on_constants(original: Callable) -> Iterator[Any]:
    """Run operations on the constants of a graph, which may be on a GPU, on real tensors."""
    mode = type(session.mode)() if session.mode else nullcontext()  # of this thread
    with original() as fake_mode, mode:
        yield fake_mode


def trace_gradients(
    original: Callable, stack: Any, function: Any, inputs: Any, *args
) -> Any:
    """Remember on which GPU a graph begins."""
    session.thread.traced_device = _gpu_among(inputs)
    return original(stack, function, inputs, *args)


def name_gpu(
    original: Callable,
    self: Any,
    func: Any,
    types: Any,
    args: Any = (),
    kwargs: Any = None,
) -> Any:
    """Make on a GPU what C++ makes for a tensor there, while a graph is traced.

    C++ reads `cpu` as the device of such a tensor, and names that for the zeros of a
    gradient, or to convert one back to its type. Where no operand is on a GPU it is that
    of the operation before. Python also names `pin_memory`.
    """
    kwargs = dict(kwargs or {})
    device = kwargs.get("device")
    is_named = device is not None and device.type == "cpu"
    by_program = "pin_memory" in kwargs or session.thread.to_host
    operands = list(tensors_in(args))
    if operands:
        session.thread.traced_device = _gpu_among(operands)
    if is_named and not by_program and session.thread.traced_device is not None:
        kwargs["device"] = session.thread.traced_device
        if (
            func is efficient_zeros
        ):  # which PyTorch only makes on devices that are there
            func = torch.ops.aten.zeros.default
    return original(self, func, types, args, kwargs)


def _gpu_among(values: Any) -> torch.device | None:
    """Return the device of the first tensor on a GPU."""
    for value in values:
        if isinstance(value, torch.Tensor) and _is_on_gpu(value):
            return value.device
    return None


def call_optimizer(
    original: Callable, self: Any, translator: Any, name: str, *args
) -> Any:
    """Make the state of an optimizer on its GPUs, for which the compiler leaves the modes."""
    leaves_modes = name == "_init_group" and not dispatch.count_dispatch_modes()
    with type(session.mode)() if leaves_modes and session.mode else nullcontext():
        return original(self, translator, name, *args)


def overridable_functions(original: Callable) -> set:
    """Show modes also the factories that a program took before the simulation."""
    functions = original()
    for early, factory in session.factories.items():
        if factory in functions:  # PyTorch 2.11 leaves some out, such as `rand`
            functions.add(early)
    return functions


def call_mode(
    original: Callable, self: Any, translator: Any, function: Any, *args
) -> Any:
    """Trace PyTorch's own `with torch.device(...)`, which adds the device to the graph.

    What stands in its place here is not traced, as nothing of cudasim is. Its own knows the
    factories of the simulation alone, not those that a program took before.
    """
    from cudasim.torch_private import compiler as dynamo

    context = dispatch.default_device.DeviceContext
    if not isinstance(self.value, context):
        return original(self, translator, function, *args)
    own = inspect.unwrap(context.__torch_function__)
    factory = dynamo.exchange_function(function, session.factories)
    return dynamo.call_method(own, self, translator, factory, *args)


def guard_device(original: Callable, self: Any, guard: Any, value: Any = None) -> None:
    """Let what was compiled for a tensor serve tensors on its device alone.

    The compiler's own guard reads the device from C++, which says `cpu`.
    """
    from cudasim.torch_private import compiler as dynamo

    original(self, guard, value)
    tensor = value if isinstance(value, torch.Tensor) else self.get(guard)
    dynamo.add_guard(self, guard, tensor.device)


def compile_on_gpu(
    original: Callable, self: Any, graph: Any, inputs: Any, **options
) -> Callable:
    """Compile a graph by Inductor for the CPU, or by `aot_eager` for simulated GPUs."""
    from cudasim.torch_private import compiler as dynamo

    types = {tensor.device.type for tensor in dynamo.tensors_of(graph, inputs)}
    if session.type.name not in types:
        return original(self, graph, inputs, **options)
    _warn_once(MESSAGES["no code"])
    if session.clock is None:
        run = dynamo.run_graph
        return dynamo.trace_with_autograd(
            graph, inputs, inference=run, forward=run, backward=run
        )
    as_graph = dynamo.uses_cuda_graphs(self, options)
    return compile_fused(graph, inputs, ClockBooks(), _is_on_gpu, as_graph)


def _is_on_gpu(tensor: torch.Tensor) -> bool:
    return tensor.device.type == session.type.name


class ClockBooks:
    """Books the kernels of compiled code on the virtual clock."""

    def hold(self) -> AbstractContextManager:
        return changed(session.thread, in_kernel=True)

    def launch(self, device: torch.device, name: str, work: Work) -> None:
        book_kernel(session.gpu(device.index), name, work)

    def check_guards(self, tensors: int, needs_gradients: bool) -> None:
        clock = session.clock
        clock.pay(guard_seconds(tensors, needs_gradients, clock.host))

    def one_launch(self, device: torch.device) -> AbstractContextManager:
        key = session.stream_key(device.index)
        if key in session.capturing:  # which launches nothing
            return nullcontext()
        return session.clock.graph(*key)


@checks(torch.export, "export")
def export(name: str, *args, **kwargs) -> None:
    """Refuse an export in which C++ would end the process."""
    if registry() is None:
        raise NotImplementedError(MESSAGES["unexported"])


@replaces(private.torchscript_files, "validate_map_location")
def validate_map_location(
    original: Callable, map_location: Any = None
) -> torch.device | None:
    """Name the GPU for `torch.jit.load`: C++ takes one without an index for the CPU."""
    device = original(map_location)
    gpu = resolve(device)
    return gpu.device if isinstance(gpu, GPU) else device


def patch_torchscript(patches: Patches) -> None:
    """Let TorchScript, which knows PyTorch's functions by identity, know what replaces them."""
    names = private.torchscript_names()
    for before, now in patches.replaced():
        name = names.get(id(before))
        if name:
            patches.replace_item(names, id(now), name)
