"""Which kernels PyTorch has for CUDA, and which of them check the device of every argument.

torchgen generates these kernels from `native_functions.yaml`, which PyTorch ships. So the
answers are those of the torch in use, whatever its version, and also where it was built
without CUDA. This module follows torchgen's rules (model.py, dest/register_dispatch_key.py).
The file is read as text, as PyTorch does not depend on a parser of YAML.
"""

import functools
import importlib.resources
import re
from typing import NamedTuple

_COMMENT = re.compile(r" *#.*")
_KEY = re.compile(r"^  (\w+): (.*)$", re.MULTILINE)  # of an operator
_BACKENDS = re.compile(r"^    ([\w, ]+):", re.MULTILINE)  # under `dispatch`
# The backends whose kernels serve all forms of an operator (STRUCTURED_DISPATCH_KEYS).
_OF_ALL_FORMS = {"CPU", "CUDA", "MPS", "MTIA", "XPU"}
# An operator with this key has a kernel generated for both from the same formula.
_FORMULA = "  ufunc_inner_loop:"
_BACKENDS_OF_FORMULAS = ("CPU", "CUDA")


class Entry(NamedTuple):
    """What the file says of an operator."""

    keys: dict[str, str]  # those with a plain value
    backends: frozenset[str]  # those that have a kernel of their own

    @property
    def delegate(self) -> str | None:
        """The operator that computes for this one, of which it is another form."""
        return self.keys.get("structured_delegate")


@functools.cache
def backends_of(name: str) -> frozenset[str]:
    """Return the backends for which PyTorch has a kernel of the operator `name`.

    They are dispatch keys, as `CUDA` and `SparseCPU`, also those of composite kernels. A
    `name` is as in `mm` or `aten::scatter_.src`.
    """
    entry = _entry_of(name.removeprefix("aten::"))
    if entry is None:
        return frozenset()
    delegate = _entry_of(entry.delegate) if entry.delegate else None
    if delegate is None:
        return entry.backends
    return entry.backends | (delegate.backends & _OF_ALL_FORMS)


@functools.cache
def checking_kernel(name: str, backend: str = "CUDA") -> str | None:
    """Return the kernel of a backend for the operator `name` if it checks devices.

    The `backend` is `CUDA`, or `SparseCUDA` and the like for sparse tensors.
    """
    name = name.removeprefix("aten::")
    entry = _entry_of(name)
    if entry is None or entry.keys.get("device_check") == "NoCheck":
        return None
    if backend in entry.backends and backend != "CUDA":
        return _kernel_name(name, structured=False).replace("CUDA", backend, 1)
    kernel_entry = _entry_of(entry.delegate) if entry.delegate else entry
    if kernel_entry is None or "CUDA" not in kernel_entry.backends:
        return None
    is_structured = entry.delegate or entry.keys.get("structured") == "True"
    return _kernel_name(name, bool(is_structured))


def _kernel_name(name: str, structured: bool) -> str:
    base, _, overload = name.partition(".")
    if overload.endswith("out"):
        base += "_out"
    if not structured:
        return f"wrapper_CUDA_{overload}_{base}"
    if not overload:
        return f"wrapper_CUDA_{base}"
    return f"wrapper_CUDA_{base}_{overload}"


def _entry_of(name: str) -> Entry | None:
    """Return the entry of an operator; None for one that is not generated from the file."""
    text = _texts().get(name)
    if text is None:
        return None
    text = _COMMENT.sub("", text)
    backends = set()
    for names in _BACKENDS.findall(text):
        backends.update(name.strip() for name in names.split(","))
    if _FORMULA in text:
        backends.update(_BACKENDS_OF_FORMULAS)
    return Entry(dict(_KEY.findall(text)), frozenset(backends))


@functools.cache
def _texts() -> dict[str, str]:
    """Return the text of each operator's entry.

    Only those that are asked for are taken apart, as that takes longer than reading.
    """
    packaged = importlib.resources.files("torchgen") / "packaged" / "ATen" / "native"
    text = (packaged / "native_functions.yaml").read_text(encoding="utf-8")
    texts = {}
    for block in text.split("\n- func: ")[1:]:
        name, _, _ = block.partition("(")
        texts[name] = block
    return texts
