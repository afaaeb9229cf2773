"""Operators of PyTorch: their classes, schemas and kernels, and those with private names.

Their arguments are trees of lists and dicts with tensors as leaves.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch._ops
import torch.fx.interpreter
import torch.utils._pytree

# The classes of operators: one overload, all overloads of a name, and an operator whose
# arguments are functions.
OpOverload = torch._ops.OpOverload
OpOverloadPacket = torch._ops.OpOverloadPacket
HigherOrderOperator = torch._ops.HigherOrderOperator

# The code that runs where Python calls an operator by its name.
CALL_OF_OPERATOR = OpOverload.__call__.__code__
# The file of what interprets graphs, operator by operator.
INTERPRETER = torch.fx.interpreter.__file__

# The types of arguments in a schema that take a tensor, and a number of any kind.
TensorType = torch._C.TensorType
NumberType = torch._C.NumberType

# Trees of arguments.
tree_leaves = torch.utils._pytree.tree_leaves
tree_map_only = torch.utils._pytree.tree_map_only


def has_schema(operator: Callable) -> bool:
    """Return whether `operator` has a schema; those that take functions have none."""
    return hasattr(operator, "_schema")


def schema_of(operator: Callable) -> torch.FunctionSchema:
    """Return the schema of an operator: its name, its arguments and its results."""
    return operator._schema


def base_name(operator: OpOverload) -> str:
    """Return an operator's name without its namespace and its overload.

    It is the same for the in-place form: `add` for `add_.Tensor`. The tables of operators
    by name are spelled so.
    """
    return without_in_place(operator.overloadpacket.__name__)


def without_in_place(name: str) -> str:
    """Return a name without the `_` of in-place forms; `__lshift__` keeps its own."""
    return name if name.endswith("__") else name.removesuffix("_")


def inner_function(operator: OpOverload) -> Callable:
    """Return the function that an operator calls. To call it directly saves a call."""
    return operator._op


def call_kernel(
    operator: OpOverload, key: torch._C.DispatchKey, args: tuple, kwargs: dict
) -> Any:
    """Run the kernel that an operator has for a dispatch key."""
    return operator._op_dk(key, *args, **kwargs)


# The kernels that programs register with `torch.library`: sets of keys such as
# "aten/add.Tensor/CUDA", of one library and of all that exist.
all_kernels = torch.library._impls


def kernels_of(library: torch.library.Library) -> set[str]:
    """Return the keys of the kernels that `library` has registered."""
    return library._op_impls


def destroy(library: torch.library.Library) -> None:
    """Take back all kernels that `library` has registered."""
    library._destroy()


# Operators of ATen whose names begin with an underscore.

# Making, copying and reading.
efficient_zeros = torch.ops.aten._efficientzerotensor.default
to_copy = torch.ops.aten._to_copy.default
pin_memory = torch.ops.aten._pin_memory.default
to_dense = torch.ops.aten._to_dense.default
read_number = torch.ops.aten._local_scalar_dense.default
unsafe_view = torch.ops.aten._unsafe_view.default

# Indexing, as autograd and the compiler call it.
unsafe_index = torch.ops.aten._unsafe_index.Tensor
unsafe_index_put = torch.ops.aten._unsafe_index_put.default
index_put_impl = torch.ops.aten._index_put_impl_.default

pack_padded_sequence = torch.ops.aten._pack_padded_sequence.default

# Lists of tensors.
foreach_add = torch.ops.aten._foreach_add.Tensor
foreach_add_ = torch.ops.aten._foreach_add_.Tensor
foreach_mul = torch.ops.aten._foreach_mul.Tensor
foreach_mul_ = torch.ops.aten._foreach_mul_.Tensor
foreach_div = torch.ops.aten._foreach_div.Tensor
foreach_div_ = torch.ops.aten._foreach_div_.Tensor
foreach_copy_ = torch.ops.aten._foreach_copy_.default

# Products of matrices: of integers, of sparse matrices, and of scaled numbers of 8 bits.
int_mm = torch.ops.aten._int_mm.default
scaled_mm = torch.ops.aten._scaled_mm.default
scaled_mm_out = torch.ops.aten._scaled_mm.out
scaled_mm_v2 = (
    torch.ops.aten._scaled_mm_v2.default,
    torch.ops.aten._scaled_mm_v2.out,
)
# The same for groups of rows or columns.
scaled_grouped_mm = torch.ops.aten._scaled_grouped_mm.default
scaled_grouped_mm_v2 = (torch.ops.aten._scaled_grouped_mm_v2.default,)
# Products with whole numbers of 4 bits, in the order in which CUDA packs them.
int4_pack = torch.ops.aten._convert_weight_to_int4pack.default
int4_mm = torch.ops.aten._weight_int4pack_mm.default

# Semi-structured sparsity: by cuSPARSELt, and by CUTLASS.
cslt_compress = torch.ops.aten._cslt_compress.default
cslt_mm = torch.ops.aten._cslt_sparse_mm.default
cslt_mm_search = torch.ops.aten._cslt_sparse_mm_search.default
to_semi_structured = torch.ops.aten._to_sparse_semi_structured.default
semi_structured_mm = torch.ops.aten._sparse_semi_structured_mm.default
semi_structured_addmm = torch.ops.aten._sparse_semi_structured_addmm.default

# Products with weights of four bits, and how these are packed.
int4_pack = torch.ops.aten._convert_weight_to_int4pack.default
int4_mm = torch.ops.aten._weight_int4pack_mm.default

# Convolutions of each channel by itself.
conv_depthwise2d = torch.ops.aten._conv_depthwise2d.default
conv_depthwise2d_out = torch.ops.aten._conv_depthwise2d.out


class Softmax(NamedTuple):
    """The kernels of a kind of softmax, and the name of the functions that choose them."""

    name: str
    forward: OpOverload
    backward: OpOverload


softmax = Softmax(
    "softmax",
    torch.ops.aten._softmax.default,
    torch.ops.aten._softmax_backward_data.default,
)
log_softmax = Softmax(
    "log_softmax",
    torch.ops.aten._log_softmax.default,
    torch.ops.aten._log_softmax_backward_data.default,
)


# Normalization by the root of the mean square.
fused_rms_norm = torch.ops.aten._fused_rms_norm.default
fused_rms_norm_backward = torch.ops.aten._fused_rms_norm_backward.default

# A layer of a transformer and its attention, without gradients.
encoder_layer = torch.ops.aten._transformer_encoder_layer_fwd.default
multi_head_attention = torch.ops.aten._native_multi_head_attention.default


class attention:
    """The kernels of attention: CUDA's, also of packed sequences, and the CPU's."""

    choice = torch.ops.aten._fused_sdp_choice.default
    flash = torch.ops.aten._scaled_dot_product_flash_attention.default
    flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_backward.default
    efficient = torch.ops.aten._scaled_dot_product_efficient_attention.default
    efficient_backward = (
        torch.ops.aten._scaled_dot_product_efficient_attention_backward.default
    )
    cudnn = torch.ops.aten._scaled_dot_product_cudnn_attention.default
    cudnn_backward = torch.ops.aten._scaled_dot_product_cudnn_attention_backward.default
    packed_flash = torch.ops.aten._flash_attention_forward.default
    packed_flash_backward = torch.ops.aten._flash_attention_backward.default
    packed_efficient = torch.ops.aten._efficient_attention_forward.default
    packed_efficient_backward = torch.ops.aten._efficient_attention_backward.default
    on_cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    on_cpu_backward = (
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    )


class recurrent:
    """The kernels of recurrent layers: cuDNN's, those of cells on CUDA, and the CPU's."""

    cudnn = torch.ops.aten._cudnn_rnn.default
    cudnn_backward = torch.ops.aten._cudnn_rnn_backward.default
    cudnn_flatten = torch.ops.aten._cudnn_rnn_flatten_weight.default
    lstm_cell = torch.ops.aten._thnn_fused_lstm_cell.default
    lstm_cell_backward = torch.ops.aten._thnn_fused_lstm_cell_backward_impl.default
    gru_cell = torch.ops.aten._thnn_fused_gru_cell.default
    gru_cell_backward = torch.ops.aten._thnn_fused_gru_cell_backward.default
