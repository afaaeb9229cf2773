"""What `torch.compile` is made of, once `torch._dynamo` is imported.

That import takes a second. It may be under way in a chain of other imports, so nothing else
of the compiler is imported here.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch._dynamo.compiled_autograd
import torch._dynamo.device_interface
import torch._dynamo.guards
import torch._dynamo.trace_rules
import torch._dynamo.utils
import torch._dynamo.variables.builder
import torch._dynamo.variables.functions
import torch._dynamo.variables.nn_module
import torch._dynamo.variables.optimizer
import torch._dynamo.variables.torch
import torch._dynamo.variables.torch_function
import torch.fx
import torch.utils._triton
from torch._dynamo.variables import ctx_manager as contexts
from torch.fx.experimental import proxy_tensor

from cudasim.torch_private import Attribute

trace_rules = torch._dynamo.trace_rules
forget_compiled = torch._dynamo.reset_code_caches

# What `torch.compile` calls for the backend "inductor".
INDUCTOR = Attribute(torch._TorchCompileInductorWrapper, "__call__")
# Within it, `make_fx` runs operations whose operands are constants.
RUN_ON_CONSTANTS = Attribute(proxy_tensor, "unset_fake_temporarily")
# What begins to compile a run of autograd's engine, whose first arguments are tensors.
COMPILE_ENGINE = Attribute(
    torch._dynamo.compiled_autograd.AutogradCompilerInstance, "begin_capture"
)
# What calls methods of an optimizer while its step is traced.
OPTIMIZER_METHOD = Attribute(
    torch._dynamo.variables.optimizer.OptimizerVariable, "call_method"
)
# What traces the `__torch_function__` of a mode, of which `with torch.device(...)` is one.
CALL_MODE = Attribute(
    torch._dynamo.variables.torch_function.TorchFunctionModeVariable,
    "call_torch_function",
)
# What lists the functions that modes see, and keeps the list.
OVERRIDABLE = Attribute(torch._dynamo.variables.torch, "get_overridable_functions")
# What asks Triton for its driver.
TRITON_DRIVER = Attribute(torch.utils._triton, "triton_backend")
# What the compiler takes for the `__call__` of a module that it may look into.
MODULE_CALL = Attribute(torch._dynamo.variables.nn_module, "unpatched_nn_module_call")
# What `torch.cuda.device` and its like call in compiled code: functions that these classes
# took as the compiler was imported. Not every version of PyTorch has all.
DEVICE_EXCHANGES = tuple(
    Attribute(owner, name)
    for owner, name in (
        (torch._dynamo.device_interface.CudaInterface, "exchange_device"),
        (torch._dynamo.device_interface.CudaInterface, "maybe_exchange_device"),
        (contexts.CUDADeviceVariable, "_exchange_fn"),
        (contexts.CUDADeviceVariable, "_maybe_exchange_fn"),
        (getattr(contexts, "AcceleratorDeviceIndexVariable", None), "_exchange_fn"),
        (
            getattr(contexts, "AcceleratorDeviceIndexVariable", None),
            "_maybe_exchange_fn",
        ),
    )
    if hasattr(owner, name)
)
# What makes the guard of a tensor: when compiled code serves it.
TENSOR_MATCH = Attribute(torch._dynamo.guards.GuardBuilder, "TENSOR_MATCH")


def trace_with_autograd(
    graph: torch.fx.GraphModule,
    inputs: Any,
    inference: Callable,
    forward: Callable,
    backward: Callable,
) -> Callable:
    """Compile a graph, and that of its gradients, of PyTorch's own operators.

    They are the graphs of the backend `aot_eager`, but name the GPU that was current as
    they were traced, as Inductor's code does. `inference` compiles one that needs no
    gradients.
    """
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    def compile_named(compile_graph: Callable, module: Any, values: Any) -> Callable:
        # `with torch.cuda.device(1)` is not part of the graph.
        for node in module.graph.nodes:
            device = node.kwargs.get("device")
            result = node.meta.get("val")
            if isinstance(device, torch.device) and isinstance(result, torch.Tensor):
                if device.type == result.device.type and device.index is None:
                    node.update_kwarg("device", result.device)
        module.recompile()
        return compile_graph(module, values)

    backend = aot_autograd(
        fw_compiler=partial(compile_named, forward),
        bw_compiler=partial(compile_named, backward),
        inference_compiler=partial(compile_named, inference),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )
    return backend(graph, inputs)


def take_list(function: Callable[[list], Any]) -> Callable[[list], Any]:
    """Let autograd pass the inputs of a graph as a list, which the graph may empty."""
    function._boxed_call = True
    return function


def uses_cuda_graphs(compiler: Any, options: dict[str, Any]) -> bool:
    """Return whether Inductor's `compiler`, with the options of a call, launches graphs.

    The modes "reduce-overhead" and "max-autotune" ask for it, or one of the settings.
    """
    from torch._inductor import config

    chosen = compiler.config | (options.get("config_patches") or {})
    return chosen.get("triton.cudagraphs", config.triton.cudagraphs)


def leave_alone(folder: Path) -> None:
    """Let the compiler run the functions of a folder as they are written.

    That holds for the rest of the process: no other code is in this package's folder.
    """
    name = str(folder)
    if name not in trace_rules.SKIP_DIRS:
        trace_rules.SKIP_DIRS.append(name)
        trace_rules._recompile_re()


def run_graph(*args: Any, **options: Any) -> Callable:
    """Return what runs a graph as it is."""
    from torch._dynamo.backends.debugging import boxed_nop

    return boxed_nop(*args, **options)


def allow_constants(kind: type) -> Callable[[], None]:
    """Let graphs hold values of a type as constants; return what takes that back."""
    builder = torch._dynamo.variables.builder
    types = torch._dynamo.utils.common_constant_types
    handlers = builder.SourcelessBuilder._type_handlers
    types.add(kind)
    handlers[kind] = handlers[torch.device]
    builder.VariableBuilder._type_dispatch_impl.cache_clear()

    def forbid() -> None:
        types.discard(kind)
        handlers.pop(kind, None)
        builder.VariableBuilder._type_dispatch_impl.cache_clear()

    return forbid


def is_in_graphs(function: Any) -> bool:
    """Return whether the compiler writes calls of `function` into its graphs."""
    if not isinstance(function, Callable) or not hasattr(function, "__name__"):
        return False
    return trace_rules.lookup(function) is trace_rules.TorchInGraphFunctionVariable


def allow_in_graphs(function: Any) -> None:
    trace_rules._allowed_callable_ids.add(id(function))


def forbid_in_graphs(function: Any) -> None:
    trace_rules._allowed_callable_ids.remove(id(function))


def call_method(
    method: Callable, mode: Any, translator: Any, function: Any, *args: Any
) -> Any:
    """Trace `method` of a mode in place of what is its `__torch_function__` now."""
    variable = torch._dynamo.variables.functions.UserMethodVariable(method, mode)
    call = torch._dynamo.variables.torch_function.call_torch_function
    return call(translator, variable, function, *args)


def exchange_function(variable: Any, functions: dict[Any, Callable]) -> Any:
    """Return the compiler's variable of a function, or of what `functions` has for it."""
    kind = trace_rules.TorchInGraphFunctionVariable
    if isinstance(variable, kind) and variable.value in functions:
        return kind(functions[variable.value])
    return variable


def add_guard(builder: Any, guard: Any, device: torch.device) -> None:
    """Add to a tensor's guard that it is on `device`."""
    code = f"{builder.arg_ref(guard)}.device == {device!r}"
    parts = torch._dynamo.guards.get_verbose_code_parts(code, guard)

    def is_there(tensor: Any) -> bool:
        return tensor.device == device

    builder.get_guard_manager(guard).add_lambda_guard(is_there, parts, guard.user_stack)


def tensors_of(graph: torch.fx.GraphModule, inputs: Any) -> Iterator[torch.Tensor]:
    """Return the inputs and the results in a graph, as far as they are tensors."""
    for value in inputs:
        if isinstance(value, torch.Tensor):
            yield value
    for node in graph.graph.nodes:
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor):
            yield value
