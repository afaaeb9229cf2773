"""What is known of each operator, and which rule runs it.

There is one `Operator` record for each, made when the operator is first called. Other
modules register here, as they are imported, what runs for the operators they care about.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from cudasim.dispatch import foresight, random
from cudasim.torch_private.operators import (
    OpOverload,
    base_name,
    has_schema,
    inner_function,
    schema_of,
    to_copy,
)

# The attribute of an operator that holds its record.
RECORD = "_cudasim"

# Keyword arguments that neither name a device nor matter to any layer around a rule.
HARMLESS = frozenset(
    {"alpha", "approximate", "beta", "memory_format", "pin_memory", "value"}
)
# The same for a copy, around which there is no layer that looks at dtypes.
HARMLESS_FOR_COPIES = HARMLESS | {"dtype", "non_blocking"}

# (operator, its arguments) -> its result
Rule = Callable[[Callable, tuple, dict], Any]
# arguments -> whether a layer has nothing to do
Idle = Callable[[tuple], bool]


class Layer(NamedTuple):
    """A function that runs around the rules of some operators."""

    operators: frozenset  # operators, or base names that stand for all overloads
    function: Callable
    is_idle: Idle


class Substitute(NamedTuple):
    """A function that computes on CUDA GPUs in the place of the CPU's kernel."""

    function: Callable
    is_idle: Idle  # whether the CPU's kernel does what CUDA's does


class Check(NamedTuple):
    """A function that refuses arguments of some operators, whose devices were compared."""

    operators: frozenset  # as those of a layer
    function: Callable[[Callable, tuple, dict], None]
    is_idle: Idle


# The rules of operators that do not follow the general one of `placement`.
RULES: dict[Callable, Rule] = {}
# The same for kinds of operators: each returns the rule of an operator, or None. No
# operator is of two kinds.
RULE_FINDERS: list[Callable[[Callable], Rule | None]] = []
# What computes on a GPU in the place of the CPU's kernels, which are missing or differ.
SUBSTITUTES: dict[Callable, Substitute] = {}
# What is checked of some operators' arguments on a GPU, in the order of registration.
CHECKS: list[Check] = []
# The layers around rules, in the order in which they are registered.
LAYERS: list[Layer] = []
# The same for kinds of operators: each returns the layer of an operator, or None.
LAYER_FINDERS: list[Callable[[Callable], Layer | None]] = []
# The modules that register layers. Those of the first run innermost, next to the rule, and
# those of the last outermost; of the layers of one module the last runs outermost.
LAYER_MODULES = (
    "cudasim.dispatch.asserts",
    "cudasim.dispatch.determinism",
    "cudasim.dispatch.only_cuda",
    "cudasim.dispatch.rules",
    "cudasim.dispatch.sparse_products",
    "cudasim.dispatch.casts_within",
    "cudasim.dispatch.limits",
    "cudasim.dispatch.operand_types",
    "cudasim.dispatch.absent",
)


def rule(*operators: Callable) -> Callable:
    """Give `operators` the decorated rule instead of the general one."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(operators, function))
        return function

    return register


def substitute(*operators: Callable, idle: Idle = lambda args: False) -> Callable:
    """Let the decorated function compute `operators` on CUDA GPUs.

    They alone have these operators, or have kernels that differ from the CPU's, except
    where `idle` returns True for the arguments.

    The function is called as the operators are, after their devices were compared. Like a
    kernel of the CPU, it returns plain tensors, which are placed on the GPU afterwards, and
    draws random numbers from its argument `generator` or, without one, from the default
    generator.
    """

    def register(function: Callable) -> Callable:
        SUBSTITUTES.update(dict.fromkeys(operators, Substitute(function, idle)))
        return function

    return register


def layer(*operators: str | Callable, idle: Idle = lambda args: False) -> Callable:
    """Let the decorated function run as a layer around the rules of `operators`.

    It is given the rule so far, then what a rule is given. A name among `operators` stands
    for all overloads of one of PyTorch's operators and for its in-place form.

    Where all tensors are plain ones on the same GPU and `idle` returns True for the
    arguments, the function is only called if the operator raises an error.
    """

    def register(function: Callable) -> Callable:
        position_of(function)  # raises an error if it has none
        LAYERS.append(Layer(frozenset(operators), function, idle))
        return function

    return register


def check(*operators: str | Callable, idle: Idle = lambda args: False) -> Callable:
    """Let the decorated function check the arguments of `operators` on a GPU.

    Like CUDA's kernels it is called after the devices were compared, by `run` of
    `placement`. `operators` and `idle` are as in `layer`.
    """

    def register(function: Callable) -> Callable:
        CHECKS.append(Check(frozenset(operators), function, idle))
        return function

    return register


def position_of(function: Callable) -> int:
    """Return how far from the rule a layer runs, which its module decides."""
    module = function.__module__
    if module not in LAYER_MODULES:
        raise LookupError(
            f"{module} registers a layer: add it to LAYER_MODULES in {__name__}"
        )
    return LAYER_MODULES.index(module)


def name_of(func: Callable) -> str:
    """Return the `base_name` of one of PyTorch's operators, or "" for any other."""
    if isinstance(func, OpOverload) and func.namespace == "aten":
        return base_name(func)
    return ""


class Operator:
    """What is known of an operator, from its schema and from what is registered for it."""

    __slots__ = (
        "bound_factor",
        "call",
        "checks",
        "direct",
        "draws_random",
        "func",
        "harmless",
        "idle",
        "makes_tensors",
        "max_elements",
        "only_tensors",
        "out_names",
        "rule",
        "single_result",
        "substitute",
        "tensor_positions",
        "written",
    )

    def __init__(self, func: Callable) -> None:
        self.func = func  # keeps it alive, so that no other has its identity
        own_rule = _own_rule(func)
        layers = _layers_of(func)
        # None where the general rule alone runs.
        self.rule = _wrap(own_rule, layers)
        # What refuses its arguments, once their devices are known to agree.
        self.checks = _of_operator(CHECKS, func)
        # What computes on a CUDA GPU if the CPU has no such kernel; else None.
        self.substitute = SUBSTITUTES.get(func)
        # None where there is none of these three, which is the same as idle ones.
        around = [*layers, *self.checks]
        if self.substitute is not None:
            around.append(self.substitute)
        self.idle = _all_idle([function.is_idle for function in around])
        # Whether the mode may run it without looking at its rule.
        self.direct = False
        # The keyword arguments with which it may.
        self.harmless = HARMLESS_FOR_COPIES if func is to_copy else HARMLESS

        # Operators that take functions have no schema.
        if has_schema(func):
            self._read_arguments(func)
            self._read_results(func)
            if own_rule is not None:
                self.direct = False

    def _read_arguments(self, func: Callable) -> None:
        arguments = schema_of(func).arguments
        # The results that it is given as `out=`, and may enlarge.
        self.out_names = [argument.name for argument in arguments if argument.is_out]
        # The (position, name) of each argument that it changes.
        self.written = []
        for position, argument in enumerate(arguments):
            if argument.alias_info and argument.alias_info.is_write:
                self.written.append((position, argument.name))

        positional = [argument for argument in arguments if not argument.kwarg_only]
        has_lists = False
        # How many of the first arguments hold all its tensors, and whether that is all.
        self.tensor_positions = 0
        for number, argument in enumerate(positional, start=1):
            type_name = str(argument.type)
            if "Tensor" in type_name:
                self.tensor_positions = number
                has_lists = has_lists or "List" in type_name
        self.only_tensors = self.tensor_positions == len(positional)
        self.draws_random = random.kind(func) != random.PLAIN
        self.direct = not (self.draws_random or self.out_names or has_lists)

    def _read_results(self, func: Callable) -> None:
        results = schema_of(func).returns
        # One of PyTorch's operators has an inner function, which saves a call.
        self.call = inner_function(func) if type(func) is OpOverload else func
        self.single_result = len(results) == 1 and not self.out_names
        # Whether a result may be a new tensor rather than a view or a changed argument.
        self.makes_tensors = not results or any(
            result.alias_info is None for result in results
        )
        # (arguments, tensors among them) -> at most how many elements the results have
        self.max_elements = foresight.no_results
        if self.makes_tensors or self.out_names:
            self.max_elements = foresight.bound_of(func)
        # What the operands' numbers of elements are multiplied by for a quick bound.
        self.bound_factor = 0
        if self.makes_tensors:
            self.bound_factor = foresight.BOUND_FACTORS.get(
                self.max_elements, foresight.UNKNOWN_SIZE
            )


def _own_rule(func: Callable) -> Rule | None:
    if func in RULES:
        return RULES[func]
    for find_rule in RULE_FINDERS:
        own_rule = find_rule(func)
        if own_rule is not None:
            return own_rule
    return None


def _layers_of(func: Callable) -> list[Layer]:
    """Return the layers around the rule of an operator, innermost first."""
    layers = _of_operator(LAYERS, func)
    for find_layer in LAYER_FINDERS:
        found = find_layer(func)
        if found is not None:
            layers.append(found)
    layers.sort(key=lambda layer: position_of(layer.function))
    return layers


def _of_operator(registered: list, func: Callable) -> list:
    """Return those of the registered layers, or checks, that are for an operator."""
    name = name_of(func)
    return [
        entry
        for entry in registered
        if name in entry.operators or func in entry.operators
    ]


def _wrap(own_rule: Rule | None, layers: list[Layer]) -> Rule | None:
    """Return the rule of an operator with its layers around it; None if it has neither."""
    # `placement` imports this module.
    from cudasim.dispatch.placement import general

    wrapped = own_rule
    for around in layers:
        wrapped = functools.partial(around.function, wrapped or general)
    return wrapped


def _all_idle(conditions: list[Idle]) -> Idle | None:
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return lambda args: all(is_idle(args) for is_idle in conditions)


def operator_of(func: Callable) -> Operator:
    """Return the record of an operator."""
    operator = getattr(func, RECORD, None)
    if operator is None:
        operator = Operator(func)
        setattr(func, RECORD, operator)
    return operator


def written_by(func: Callable, args: tuple, kwargs: dict) -> list[Any]:
    """Return the arguments that a call changes, with None for one that was left out."""
    written = []
    for position, name in operator_of(func).written:
        value = args[position] if position < len(args) else kwargs.get(name)
        written.append(value)
    return written
