"""Which operations of a compiled graph are one kernel, and what that kernel does.

The rules are those by which Inductor fuses, in a simple form (`can_fuse` in
torch/_inductor/codegen/simd.py, and `realize` in torch/_inductor/lowering.py):

- Element-wise operations are one kernel with those that they read from or share inputs
  with, if they have the same number of elements. A smaller operand is computed on the way
  if nothing else reads it.
- A reduction is one kernel with what it reads and with what follows it, if those have an
  element for each element or for each row that it reduces, and with reductions of the
  same rows.
- Views are part of the kernel that reads them.
- Products, convolutions, attention, sorting and operators of other libraries stay kernels
  of their own.

A kernel reads each of its inputs once, or as often as its reductions do alone, and writes
the results that something else reads. Everything else stays in registers.
"""

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from cudasim.clock.costs import work_of
from cudasim.clock.work_rules import tensors
from cudasim.timing.formulas import Work
from cudasim.torch_private.dispatch import DisableTorchDispatch
from cudasim.torch_private.operators import (
    OpOverload,
    base_name,
    tree_leaves,
    tree_map_only,
    unsafe_view,
)

FUSED_KINDS = ("pointwise", "copy", "gather", "reduction")
NAMESPACES = ("aten", "prims")
# Operators of these kinds for which Inductor calls PyTorch's own kernels (`make_fallback`
# in torch/_inductor/lowering.py).
NOT_FUSED = frozenset(
    "_cdist_forward _cdist_backward bincount equal histc kthvalue median mode multinomial "
    "nanmedian nonzero nonzero_static".split()
)
# A row that is at most so long is held in registers (`should_use_persistent_reduction` in
# torch/_inductor/choices.py).
LONGEST_HELD = 1024
# Longer rows, if they are few, are reduced in two steps, and what reads all elements again
# is another kernel (`reduction_split_factor` in torch/_inductor/choices.py).
LONGEST_WHOLE = 8192
FEW_ROWS = 64
MAX_NAMES = 10  # operators in the name of a kernel (`kernel_name_max_ops`)


@dataclass(frozen=True)
class Space:
    """What an operation goes through: rows, and the elements of each if it reduces them."""

    rows: int
    length: int = 1

    @property
    def elements(self) -> int:
        return self.rows * self.length

    @property
    def is_split(self) -> bool:
        return self.length > LONGEST_WHOLE and self.rows < FEW_ROWS


@dataclass(eq=False)
class Kernel:
    """Operations of a graph that are one kernel."""

    device: torch.device
    space: Space
    reduces: bool
    nodes: list[Node]
    # Whether what reads all elements of its rows again is another kernel.
    ends_at_rows: bool = False
    name: str = ""

    @property
    def last(self) -> Node:
        return self.nodes[-1]


@dataclass(frozen=True)
class Operation:
    """What decides with which others an operation is one kernel."""

    device: torch.device
    space: Space
    reduces: bool
    keeps_elements: bool  # whether it has a result for each element that it reads


class Plan:
    """The kernels of a graph."""

    def __init__(self, graph: Graph, is_gpu: Callable) -> None:
        self.kernels: list[Kernel] = []
        self._kernel_of: dict[Node, Kernel] = {}
        for node in graph.nodes:
            operation = describe(node, is_gpu)
            if operation is not None:
                self._place(node, operation)
        self._name_kernels()

    def kernel_of(self, node: Node) -> Kernel | None:
        return self._kernel_of.get(node)

    def is_kept(self, value: Node, kernel: Kernel) -> bool:
        """Return whether a result of `kernel` is only read within it."""
        readers = readers_of(value)
        return all(self._kernel_of.get(reader) is kernel for reader in readers)

    def _place(self, node: Node, operation: Operation) -> None:
        for kernel in self._candidates(node):
            if self._fits(kernel, node, operation):
                self._join(kernel, node, operation)
                return
        kernel = Kernel(operation.device, operation.space, operation.reduces, [node])
        kernel.ends_at_rows = _ends_at_rows(operation)
        self.kernels.append(kernel)
        self._kernel_of[node] = kernel

    def _candidates(self, node: Node) -> list[Kernel]:
        """Return the kernels that `node` reads from, then those that read what it reads."""
        producers = []
        sharers = []
        for value in values_read(node):
            producers.append(self._kernel_of.get(producer_of(value)))
            sharers += [self._kernel_of.get(reader) for reader in readers_of(value)]
        found = [kernel for kernel in producers + sharers if kernel is not None]
        return list(dict.fromkeys(found))

    def _fits(self, kernel: Kernel, node: Node, operation: Operation) -> bool:
        if kernel.device != operation.device:
            return False
        if not _has_like_space(kernel, operation) and not (
            self._is_inlined(kernel, node, operation)
        ):
            return False
        return not self._is_circular(kernel, node)

    def _is_inlined(self, kernel: Kernel, node: Node, operation: Operation) -> bool:
        """Return whether `node` alone reads a small element-wise operand."""
        if kernel.reduces or kernel.space.elements > operation.space.elements:
            return False
        for value in values_read(node):
            if self._kernel_of.get(producer_of(value)) is kernel:
                if set(readers_of(value)) != {node}:
                    return False
        return all(
            self.is_kept(value, kernel) or set(readers_of(value)) == {node}
            for member in kernel.nodes
            for value in values_of(member)
        )

    def _is_circular(self, kernel: Kernel, node: Node) -> bool:
        """Return whether `node` needs a result that is made of one of `kernel`."""
        waiting = []
        for value in values_read(node):
            if self._kernel_of.get(producer_of(value)) is not kernel:
                waiting.append(producer_of(value))
        seen = set()
        while waiting:
            other = waiting.pop()
            if other in seen:
                continue
            seen.add(other)
            unit = self._kernel_of.get(other)
            if unit is kernel:
                return True
            members = unit.nodes if unit else [other]
            for member in members:
                waiting += [producer_of(value) for value in values_read(member)]
        return False

    def _join(self, kernel: Kernel, node: Node, operation: Operation) -> None:
        kernel.nodes.append(node)
        if operation.reduces:
            kernel.space = operation.space
            kernel.reduces = True
            kernel.ends_at_rows = kernel.ends_at_rows or _ends_at_rows(operation)
        elif not kernel.reduces:
            kernel.space = operation.space
        self._kernel_of[node] = kernel

    def _name_kernels(self) -> None:
        """Name the kernels as Inductor does, by the operators in them.

        See `define_kernel` in torch/_inductor/codegen/triton.py.
        """
        order = {}
        for kernel in self.kernels:
            for node in kernel.nodes:
                order[node] = len(order)
        for number, kernel in enumerate(self.kernels):
            names = set()
            for node in kernel.nodes:
                names.add(_operator_name(node))
                names.update(_operator_name(view) for view in views_read(node))
            words = sorted(names)[:MAX_NAMES]
            kernel.name = "_".join(["triton", _category(kernel), "fused", *words])
            kernel.name += f"_{number}"


def _category(kernel: Kernel) -> str:
    if not kernel.reduces:
        return "poi"
    return "per" if kernel.space.length <= LONGEST_HELD else "red"


def _operator_name(node: Node) -> str:
    return node.target.overloadpacket.__name__


def _ends_at_rows(operation: Operation) -> bool:
    return operation.space.is_split and not operation.keeps_elements


def _has_like_space(kernel: Kernel, operation: Operation) -> bool:
    """Return whether an operation goes through the same elements or rows as a kernel."""
    ours, theirs = kernel.space, operation.space
    if kernel.reduces and operation.reduces:
        return ours == theirs
    if kernel.reduces:
        sizes = [ours.rows]
        if not kernel.ends_at_rows:
            sizes.append(ours.elements)
        return theirs.rows in sizes
    if operation.reduces:
        return ours.rows in (theirs.rows, theirs.elements)
    return ours.rows == theirs.rows


# Reading a graph.


def is_view(node: Node) -> bool:
    """Return whether `node` only looks at its first argument in another way."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return False
    looks = node.target.is_view or node.target is unsafe_view
    return looks and bool(node.args) and isinstance(node.args[0], Node)


def is_item(node: Node) -> bool:
    """Return whether `node` is one of the results of another."""
    return node.op == "call_function" and node.target is operator.getitem


def producer_of(value: Node) -> Node:
    """Return the node that computes a value."""
    while is_item(value):
        value = value.args[0]
    return value


def values_of(node: Node) -> list[Node]:
    """Return the results of a node that something reads."""
    items = [user for user in node.users if is_item(user)]
    return items or [node]


def value_behind(node: Node) -> Node:
    """Return the value that a node is a view of, or the node itself."""
    while True:
        if is_view(node):
            node = node.args[0]
        elif is_item(node) and is_view(node.args[0]):  # as `split` makes them
            node = node.args[0].args[0]
        else:
            return node


def operands_of(node: Node) -> list[Node]:
    """Return the nodes that a node reads, but not one that it only writes."""
    if node.target is torch.ops.aten.copy_.default:
        return [leaf for leaf in tree_leaves(node.args[1:]) if isinstance(leaf, Node)]
    return node.all_input_nodes


def values_read(node: Node) -> list[Node]:
    return [value_behind(operand) for operand in operands_of(node)]


def views_read(node: Node) -> Iterator[Node]:
    """Yield the views through which a node reads its operands."""
    for operand in operands_of(node):
        while is_view(operand):
            yield operand
            operand = operand.args[0]


def readers_of(value: Node) -> Iterator[Node]:
    """Yield the nodes that read a value, through views too."""
    for user in value.users:
        is_transparent = is_view(user) or (is_item(user) and is_view(user.args[0]))
        if is_transparent:
            yield from readers_of(user)
        elif not is_item(user):
            yield user


def describe(node: Node, is_gpu: Callable[[Tensor], bool]) -> Operation | None:
    """Return what a node is for fusion; None if it stays a kernel of its own, or is none."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, OpOverload):
        return None
    if target.namespace not in NAMESPACES or is_view(node):
        return None
    if base_name(target) in NOT_FUSED:
        return None
    example = node.meta.get("val")
    if not _is_on_one_gpu(node, example, is_gpu):
        return None

    call = _concrete((node.args, node.kwargs, node))
    if call is None:
        return None
    args, kwargs, out = call
    work = work_of(target, args, kwargs, out)
    if work is None or work.kind not in FUSED_KINDS:
        return None
    if work.kind == "gather" and work.kernels > 1:
        return None
    device = next(tensors(example)).device
    return _operation(device, work, args, kwargs, out)


def _operation(
    device: torch.device, work: Work, args: tuple, kwargs: dict, out: Any
) -> Operation:
    sizes = [tensor.numel() for tensor in tensors(out)]
    if work.kind != "reduction":
        return Operation(device, Space(max(sizes)), False, True)
    elements = next(tensors(*args)).numel()
    rows = min(sizes)
    keeps_elements = max(sizes) == elements
    if rows == elements > 1:  # as softmax, along one of the dimensions
        rows = elements // _row_length(args, kwargs)
    length = elements // max(1, rows)
    return Operation(device, Space(rows, max(1, length)), True, keeps_elements)


def _row_length(args: tuple, kwargs: dict) -> int:
    """Return how many elements the dimension has that a call names."""
    x = next(tensors(*args))
    for value in (*args, kwargs.get("dim")):
        if type(value) is int and -x.dim() <= value < x.dim():
            return max(1, x.shape[value])
    return x.numel()


def _is_on_one_gpu(node: Node, example: Any, is_gpu: Callable[[Tensor], bool]) -> bool:
    devices = set()
    for operand in (node, *node.all_input_nodes):
        for tensor in tensors(operand.meta.get("val")):
            if operand is not node and tensor.dim() == 0 and not is_gpu(tensor):
                continue  # a number of the host
            if not is_gpu(tensor):
                return False
            devices.add(tensor.device)
    return len(devices) == 1 and next(tensors(example), None) is not None


class _UnknownSizeError(Exception):
    """A size is only known once the graph runs."""


def _concrete(tree: Any) -> Any:
    """Return what stands for nodes in `tree`, with sizes as they were while tracing.

    Returns None if a size depends on values. The tensors hold no data.
    """
    try:
        with DisableTorchDispatch():
            return tree_map_only(Node, _example, tree)
    except _UnknownSizeError:
        return None


def _example(node: Node) -> Any:
    example = node.meta.get("val")
    sizes = (torch.SymInt, torch.SymFloat, torch.SymBool)
    example = tree_map_only(sizes, _number, example)
    return tree_map_only(Tensor, _without_data, example)


def _without_data(tensor: Tensor) -> Tensor:
    if tensor.layout is not torch.strided:
        raise _UnknownSizeError
    shape = [_number(length) for length in tensor.shape]
    strides = [_number(stride) for stride in tensor.stride()]
    return torch.empty_strided(shape, strides, dtype=tensor.dtype, device="meta")


def _number(size: Any) -> Any:
    if isinstance(size, int | float):
        return size
    hint = size.node.hint
    if hint is None:
        raise _UnknownSizeError
    return hint
