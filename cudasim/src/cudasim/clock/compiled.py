"""Compiled graphs under modelled time: they run operation by operation, booked by kernels."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node

from cudasim.clock.costs import work_of
from cudasim.clock.fusion import (
    Kernel,
    Plan,
    is_view,
    operands_of,
    producer_of,
    value_behind,
    values_of,
)
from cudasim.clock.work_rules import size_of
from cudasim.timing.formulas import Work

IsOnGPU = Callable[[Tensor], bool]
# What a graph computes: results alone, results and what gradients need, or gradients.
ROLES = (INFERENCE, FORWARD, BACKWARD) = ("inference", "forward", "backward")


class Books(Protocol):
    """Where the work of a compiled graph is booked."""

    def hold(self) -> AbstractContextManager:
        """Book none of the operations in the block."""

    def launch(self, device: torch.device, name: str, work: Work) -> None:
        """Book a kernel that the compiler generated."""

    def check_guards(self, tensors: int, needs_gradients: bool) -> None:
        """Book what a call of compiled code costs the host before its first kernel.

        Its guards look at `tensors` arguments and parameters.
        """

    def one_launch(self, device: torch.device) -> AbstractContextManager:
        """Book all kernels in the block as one launch, that of a CUDA graph."""


def compile_fused(
    graph: GraphModule, inputs: Any, books: Books, is_on_gpu: IsOnGPU, as_graph: bool
) -> Callable:
    """Compile a graph, and that of its gradients, to be booked as Inductor's kernels.

    With `as_graph` the kernels of a graph are launched at once, as with the mode
    "reduce-overhead", unless they are on several GPUs.
    """
    from cudasim.torch_private import compiler as dynamo

    def compile_graph(role: str, module: GraphModule, _: Any) -> Callable:
        fused = FusedGraph(module, books, is_on_gpu, as_graph, role)
        return dynamo.take_list(partial(fused.launch))

    compilers = {role: partial(compile_graph, role) for role in ROLES}
    return dynamo.trace_with_autograd(graph, inputs, **compilers)


@dataclass
class _Launch:
    """What a kernel has done so far in a run."""

    flops: float = 0.0
    bytes: float = 0.0
    kernels: int = 1
    precision: str = "float32"
    loaded: set[Node] = field(default_factory=set)

    def work(self, reduces: bool) -> Work:
        kind = "reduction" if reduces else "pointwise"
        return Work(kind, self.flops, self.bytes, self.precision, self.kernels)


class FusedGraph(Interpreter):
    """A graph that runs operation by operation, and is booked kernel by kernel."""

    def __init__(
        self,
        module: GraphModule,
        books: Books,
        is_on_gpu: IsOnGPU,
        as_graph: bool,
        role: str,
    ) -> None:
        super().__init__(module)
        self._as_graph = as_graph
        self._role = role
        self._plan = Plan(module.graph, is_on_gpu)
        self._books = books
        self._launches: dict[Kernel, _Launch] = {}

    def launch(self, values: list) -> Any:
        """Run the graph with inputs from a list, which it empties."""
        if self._role != BACKWARD:
            tensors = sum(isinstance(value, Tensor) for value in values)
            self._books.check_guards(tensors, needs_gradients=self._role == FORWARD)
        devices = {kernel.device for kernel in self._plan.kernels}
        if self._as_graph and len(devices) == 1:
            with self._books.one_launch(devices.pop()):
                return self.boxed_run(values)
        return self.boxed_run(values)

    def run_node(self, node: Node) -> Any:
        kernel = self._plan.kernel_of(node)
        if kernel is None and not is_view(node):
            return super().run_node(node)
        with self._books.hold():
            if kernel is None:
                return super().run_node(node)
            args, kwargs = self.fetch_args_kwargs_from_env(node)
            out = self.call_function(node.target, args, kwargs)
            launch = self._launches.setdefault(kernel, _Launch())
            self._add(launch, node, kernel, args, kwargs, out)
        if node is kernel.last:
            del self._launches[kernel]
            work = launch.work(kernel.reduces)
            self._books.launch(kernel.device, kernel.name, work)
        return out

    def _add(
        self,
        launch: _Launch,
        node: Node,
        kernel: Kernel,
        args: tuple,
        kwargs: dict,
        out: Any,
    ) -> None:
        """Add what a node of a kernel reads and writes in memory, and its flops."""
        work = work_of(node.target, args, kwargs, out)
        if work is None:  # of tensors without elements, or data
            return
        in_registers = 0
        for operand in operands_of(node):
            value = value_behind(operand)
            is_own = self._plan.kernel_of(producer_of(value)) is kernel
            if is_own or value in launch.loaded:
                in_registers += size_of(self.env[operand])
            launch.loaded.add(value)
        read = work.bytes - size_of(out)
        launch.bytes += max(0.0, read - in_registers)
        launch.bytes += self._written(node, kernel, out)
        launch.flops += work.flops
        launch.kernels = max(launch.kernels, work.kernels)
        if work.precision == "float64":  # else a kernel computes in float32
            launch.precision = "float64"

    def _written(self, node: Node, kernel: Kernel, out: Any) -> int:
        """Return the bytes of the results that something outside the kernel reads."""
        if node.target is torch.ops.aten.copy_.default:
            return size_of(out)
        size = 0
        for value in values_of(node):
            if not self._plan.is_kept(value, kernel):
                result = out if value is node else out[value.args[1]]
                size += size_of(result)
        return size
