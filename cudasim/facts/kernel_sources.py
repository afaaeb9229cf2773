"""The names of CUDA's kernels and the types that they take, from PyTorch's sources in C++.

A kernel says its name and its types in a macro: `AT_DISPATCH_ALL_TYPES_AND2(kHalf, kBool,
dtype, "abs_cuda", ...)`. This module follows each operator from `native_functions.yaml` to
the first such macro that it reaches: by the function that the file names for CUDA, by the stubs
that this function calls, and by the functions next to it in the same file. It reads text and
understands no C++, so what it finds is a list to check, not a proof. `CORRECTIONS` holds what
it misses or gets wrong, as read by hand in the files that are named there.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from cudasim.dispatch.dtypes import CPP_NAMES, short_name
from cudasim.dispatch.kernel_names import TABLE as KERNEL_TABLE
from cudasim.torch_private.operators import without_in_place

NATIVE = Path("aten/src/ATen/native")
# Where CUDA's kernels are. What calls their stubs is in `NATIVE` itself.
CUDA_FOLDERS = ("cuda", "cuda/linalg", "transformers/cuda")

INTEGRAL = ["Byte", "Char", "Int", "Long", "Short"]
FLOATING = ["Double", "Float"]
COMPLEX = ["ComplexDouble", "ComplexFloat"]
UNSIGNED = ["UInt16", "UInt32", "UInt64"]
FLOAT8 = ["Float8_e5m2", "Float8_e5m2fnuz", "Float8_e4m3fn", "Float8_e4m3fnuz"]

# What the name of a macro begins with, the longest first -> the types that it stands for.
MACROS = {
    "FLOATING_AND_COMPLEX_TYPES": FLOATING + COMPLEX,
    "FLOATING_TYPES_AND_HALF": [*FLOATING, "Half"],
    "FLOATING_TYPES": FLOATING,
    "ALL_TYPES_AND_COMPLEX": INTEGRAL + FLOATING + COMPLEX,
    "ALL_TYPES": INTEGRAL + FLOATING,
    "INTEGRAL_TYPES": INTEGRAL,
    "COMPLEX_TYPES": COMPLEX,
    "V2": [],
}
# The same for names among the types of a macro.
GROUPS = {
    "AT_FLOATING_TYPES": FLOATING,
    "AT_COMPLEX_TYPES": COMPLEX,
    "AT_INTEGRAL_TYPES": INTEGRAL,
    "AT_ALL_TYPES": INTEGRAL + FLOATING,
    "AT_ALL_TYPES_AND_COMPLEX": INTEGRAL + FLOATING + COMPLEX,
    "AT_BAREBONES_UNSIGNED_TYPES": UNSIGNED,
    "AT_INTEGRAL_TYPES_V2": INTEGRAL + UNSIGNED,
    "AT_FLOAT8_TYPES": FLOAT8,
}

# Operator -> the name of its kernel, where the reader finds none or the wrong one.
CORRECTIONS = {
    # generated from `ufunc_inner_loop` (torchgen/dest/ufunc.py)
    "add": "ufunc_add_CUDA",
    "dist": "ufunc_add_CUDA",
    "rsub": "ufunc_add_CUDA",
    "sub": "ufunc_add_CUDA",
    # Activation.cpp, ActivationEluKernel.cu, ActivationGeluKernel.cu
    "celu": "elu_cuda",
    "gelu": "GeluCUDAKernelImpl",
    "binary_cross_entropy_with_logits": "log_sigmoid_forward_cuda",
    "hardtanh": "clamp_scalar_cuda",
    "log_sigmoid_forward": "log_sigmoid_forward_cuda",
    "relu": "clamp_scalar_cuda",
    # BatchLinearAlgebra.cpp
    "linalg_cholesky_ex": "cholesky_cuda",
    "linalg_householder_product": "orgqr_cuda",
    "linalg_qr": "geqrf_cuda",
    "linalg_solve_triangular": "triangular_solve_cuda",
    # BinaryMulKernel.cu
    "allclose": "mul_cuda",
    "deg2rad": "mul_cuda",
    "rad2deg": "mul_cuda",
    # Blas.cpp
    "_addmm_activation": "addmm_cuda",
    "_trilinear": "baddbmm_cuda",
    "addbmm": "addmm_cuda",
    "addmm": "addmm_cuda",
    "baddbmm": "baddbmm_cuda",
    "bmm": "baddbmm_cuda",
    "mm": "addmm_cuda",
    "mv": "addmv_impl_cuda",
    # CompareEQKernel.cu, CompareKernels.cu
    "equal": "compare_eq_ne_cuda",
    "eq": "compare_eq_ne_cuda",
    "ne": "compare_eq_ne_cuda",
    "ge": "compare_cuda",
    "gt": "compare_cuda",
    "le": "compare_cuda",
    "lt": "compare_cuda",
    # DistributionTemplates.h
    "normal": "normal_kernel_cuda",
    "rand": "check_uniform_bounds",
    "randn_like": "normal_kernel_cuda",
    "uniform": "check_uniform_bounds",
    # GridSampler.cu, LogcumsumexpKernel.cu
    "grid_sampler_2d": "grid_sampler_2d_cuda",
    "grid_sampler_3d": "grid_sampler_3d_cuda",
    "logcumsumexp": "logcumsumexp_cuda",
    # Embedding.cu, by way of `index_select`
    "embedding": "index_select_cuda",
    # IndexKernel.cu, Nonzero.cu
    "_to_sparse": "nonzero_cuda",
    "count_nonzero": "compare_eq_ne_cuda",
    "_unsafe_masked_index": "masked_fill_",
    "index_put": "index_put",
    "masked_scatter": "masked_scatter_",
    "masked_select": "index_cuda",
    # layer_norm_kernel.cu, group_norm_kernel.cu
    "native_group_norm": "GroupNormKernelImpl",
    "native_layer_norm": "LayerNormKernelImpl",
    # Normalization.cu
    "_batch_norm_with_update": "batch_norm_stats_cuda",
    "_native_batch_norm_legit": "batch_norm_stats_cuda",
    "native_batch_norm": "batch_norm_stats_cuda",
    # ReduceLogicKernel.cu, ReduceMomentKernel.cu, ReduceNormKernel.cu
    "all": "and_cuda",
    "any": "or_cuda",
    "linalg_vector_norm": "norm_cuda",
    "mean": "mean_cuda",
    "norm": "norm_cuda",
    "std": "std_cuda",
    "std_mean": "std_cuda",
    "var": "std_cuda",
    "var_mean": "std_cuda",
    # ReduceOps.cpp, by way of `sum`
    "trace": "sum_cuda",
    # ScatterGatherKernel.cu
    "gather": "cuda_scatter_gather_base_kernel_func",
    "scatter": "cuda_scatter_gather_base_kernel_func",
    "scatter_add": "cuda_scatter_gather_base_kernel_func",
    "scatter_reduce": "cuda_scatter_gather_base_kernel_func",
    # SoftMax.cu
    "_log_softmax": "host_softmax",
    "_log_softmax_backward_data": "host_softmax_backward",
    "_safe_softmax": "host_softmax",
    "_softmax": "host_softmax",
    "_softmax_backward_data": "host_softmax_backward",
    # Sort.cpp, Sorting.cpp, TensorModeKernel.cpp, TensorTopK.cu
    "median": "median_out_impl",
    "mode": "cuda_mode",
    "nanmedian": "median_out_impl",
    "sort": "sort",
    "topk": "topk_out_cuda",
    # native/TensorCompare.cpp, the same on every device
    "isinf": "isinf",
}
# What these run depends on their arguments. The name of the CPU's kernel tells which.
AMBIGUOUS = set(
    "aminmax bernoulli clamp clamp_max clamp_min div floor_divide logsumexp lu_unpack max "
    "min multinomial polygamma soft_margin_loss".split()
)


class Kernel(NamedTuple):
    """A kernel of CUDA: its name in errors, and the types that it takes, by names of C++."""

    name: str
    types: list[str]
    # Whether the type to which TensorIterator promotes all operands chooses the code.
    promotes: bool


class Source(NamedTuple):
    """The text of a function in C++, and the functions of its file by name."""

    body: str
    neighbors: dict[str, str]


FUNCTION = re.compile(
    r"^ *(?:template *<.*>\s*)?(?:static |inline |C10_NOINLINE )*"
    r"(?:TORCH_IMPL_FUNC *\((?P<implementation>\w+)\)"
    r"|(?:void|Tensor ?&?|std::tuple<[^;{}()]*>) ?(?P<name>\w+) ?\()",
    re.MULTILINE,
)
STUB = re.compile(r"REGISTER_(?:CUDA_)?DISPATCH\(\s*(\w+),\s*&?(?:\w+::)*(\w+)")
DISPATCH = re.compile(r"\bAT_DISPATCH_([A-Z0-9_]+)\(")
PROMOTED = ".common_dtype()"
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
NAME = re.compile(r'"(\w+)"')
OPERATOR = re.compile(r"^- func: (?P<operator>[\w.]+)\(")
DELEGATE = re.compile(r"^  structured_delegate: (?P<delegate>[\w.]+)")
CUDA = re.compile(r"^    (?:\w+, )*CUDA(?:, \w+)*: (?P<function>\w+)")


class Sources:
    """PyTorch's sources of CUDA's kernels."""

    def __init__(self, root: Path) -> None:
        """Read the sources of which `root` is the folder."""
        self.functions: dict[str, Source] = {}
        self.stubs: dict[str, str] = {}
        # The types of each kernel of CUDA.
        self.types: dict[str, set[str]] = {}
        # The kernels that promote, and those that do not, at least in one of their macros.
        self.promoting: set[str] = set()
        self.not_promoting: set[str] = set()
        for folder in CUDA_FOLDERS:
            self._read_folder(root / NATIVE / folder, is_cuda=True)
        self._read_folder(root / NATIVE, is_cuda=False)

    def _read_folder(self, folder: Path, is_cuda: bool) -> None:
        for path in sorted(folder.glob("*.[ch]*")):
            self._read_file(path, is_cuda)

    def _read_file(self, path: Path, is_cuda: bool) -> None:
        text = COMMENT.sub("", path.read_text(encoding="utf-8", errors="replace"))
        starts = list(FUNCTION.finditer(text))
        bodies: dict[str, str] = {}
        for number, start in enumerate(starts, start=1):
            end = starts[number].start() if number < len(starts) else len(text)
            body = text[start.start() : end]
            if "{" in body:  # it is no mere declaration
                name = start["implementation"] or start["name"]
                bodies[name] = bodies.get(name, "") + body
        neighbors = {}
        if is_cuda:
            # The other files hold functions that have nothing to do with each other.
            neighbors = bodies
            for kernel in kernels_in(text):
                self.types.setdefault(kernel.name, set()).update(kernel.types)
                group = self.promoting if kernel.promotes else self.not_promoting
                group.add(kernel.name)
        for name, body in bodies.items():
            self.functions.setdefault(name, Source(body, neighbors))
        for stub, function in STUB.findall(text):
            self.stubs.setdefault(stub, function)

    def kernels_for(self, operator: str, function: str) -> Iterator[Kernel]:
        """Yield the kernels of an operator, of which `function` is the kernel for CUDA."""
        short = operator.removeprefix("special_")
        for stub in (f"{operator}_stub", f"{short}_stub"):
            yield from self.kernels_of(self.stubs.get(stub, ""))
        yield from self.kernels_of(function)

    def kernels_of(self, function: str, depth: int = 3) -> Iterator[Kernel]:
        """Yield the kernels that a function runs, the nearest first."""
        source = self.functions.get(function)
        if source is None:
            return
        yield from kernels_in(source.body)
        if not depth:
            return
        for name in dict.fromkeys(re.findall(r"\w+", source.body)):
            if name in self.stubs:
                yield from self.kernels_of(self.stubs[name], depth - 1)
            elif name in source.neighbors and name != function:
                yield from self.kernels_of(name, depth - 1)


def kernels_in(body: str) -> Iterator[Kernel]:
    """Yield what each macro in the text of a function says."""
    for macro in DISPATCH.finditer(body):
        prefix = next((known for known in MACROS if macro[1].startswith(known)), None)
        if prefix is None:
            continue
        arguments = split_arguments(body[macro.end() :])
        names = [argument for argument in arguments if NAME.fullmatch(argument)]
        # The macros of compiled text have names such as "sin_name".
        if not names or names[0].endswith('_name"'):
            continue
        position = arguments.index(names[0])
        types = arguments[: position - 1]
        if prefix == "V2":
            types = arguments[position + 2 :]
        chosen_by = _value_of(arguments[position - 1], body[: macro.start()])
        promotes = chosen_by.endswith(PROMOTED)
        yield Kernel(names[0].strip('"'), MACROS[prefix] + _expand(types), promotes)


def _value_of(expression: str, code_before: str) -> str:
    """Return what a variable was last assigned; any other expression as it is."""
    if not expression.isidentifier():
        return expression
    values = re.findall(rf"\b{expression} = ([^;]+);", code_before)
    return values[-1] if values else expression


def split_arguments(text: str) -> list[str]:
    """Return the arguments of a macro; `text` begins after its opening parenthesis."""
    arguments = [""]
    depth = 0
    for character in text:
        if character in ")]}":
            depth -= 1
        if depth < 0:
            break
        if character == "," and not depth:
            arguments.append("")
            continue
        if character in "([{":
            depth += 1
        arguments[-1] += character
    return [argument.strip() for argument in arguments]


def _expand(types: list[str]) -> list[str]:
    expanded = []
    for name in types:
        group = name.removeprefix("AT_EXPAND(").rstrip(")")
        scalar_type = re.sub(r"^k(?=[A-Z])", "", name.rpartition("::")[2])
        expanded += GROUPS.get(group, [scalar_type])
    return expanded


def functions_for_cuda(root: Path) -> dict[str, str]:
    """Return the function that runs each operator on CUDA, from `native_functions.yaml`."""
    functions: dict[str, str] = {}
    delegates: dict[str, str] = {}
    operator = ""
    text = (root / NATIVE / "native_functions.yaml").read_text(encoding="utf-8")
    for line in text.splitlines():
        if match := OPERATOR.match(line):
            operator = match["operator"]
        elif match := DELEGATE.match(line):
            delegates[operator] = match["delegate"]
        elif match := CUDA.match(line):
            functions[operator] = match["function"]
    for operator, delegate in delegates.items():
        if delegate in functions:
            functions[operator] = functions[delegate]
    return functions


# Names in the sources of 2.6 that the libraries of PyTorch 2.13 for CUDA do not contain
# (`strings libtorch_cuda.so libtorch_cuda_linalg.so`). They contain all others.
GONE = frozenset(
    """
    _local_scalar_dense_hip _tunable_scaled_gemm cholesky_cuda cholesky_cuda_potri
    cholesky_inverse_out_cuda cholesky_solve_cuda foreach_tensor_norm_cuda_scalar_type
    gels_magma geqrf_magma linalg_eig_out_cuda linalg_eigh_magma lu_solve_batched_magma
    lu_solve_looped_magma reflection_pad1d_out_template svd_cuda
    tanh_backward_complex_cuda where_cuda
    """.split()
)


def make_table(root: Path) -> dict[str, Any]:
    """Return the kernels of the `operators`, and the types that all `kernels` take.

    Those that are `promoting` take the common type of their operands.
    """
    sources = Sources(root)
    operators: dict[str, str] = {}
    for overload, function in functions_for_cuda(root).items():
        operator = without_in_place(overload.partition(".")[0])
        nearest = next(sources.kernels_for(operator, function), None)
        if nearest is not None and operator not in AMBIGUOUS:
            operators.setdefault(operator, nearest.name)
    operators |= CORRECTIONS

    known = {}
    for operator, kernel in sorted(operators.items()):
        if kernel not in GONE:
            known[operator] = kernel
    names = sorted(sources.types.keys() - GONE)
    kernels = {name: _known(sources.types[name]) for name in names}
    promoting = sources.promoting - sources.not_promoting - GONE
    return {"operators": known, "promoting": sorted(promoting), "kernels": kernels}


def _known(types: set[str]) -> list[str]:
    """Return the names in Python of the types that Python has."""
    names = {cpp_name: short_name(dtype) for dtype, cpp_name in CPP_NAMES.items()}
    return sorted(names[name] for name in types if name in names)


def renew(root: Path) -> None:
    """Write the table for the sources in `root`."""
    version = (root / "version.txt").read_text(encoding="utf-8").strip()
    table = make_table(root)
    count = len(table["operators"])
    print(f"{KERNEL_TABLE.name}: {count} operators, sources of {version}")
    text = json.dumps({"sources": version, **table}, indent=1)
    KERNEL_TABLE.write_text(f"{text}\n", encoding="utf-8")
