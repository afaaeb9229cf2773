"""Which of CUDA's kernels check the device of every argument, and under which name.

torchgen generates these kernels from `native_functions.yaml`, which PyTorch ships. This
module follows its rules (dest/register_dispatch_key.py). The file is read as text, as
PyTorch does not depend on a parser of YAML.
"""

import functools
import importlib.resources
import re

_COMMENT = re.compile(r" *#.*")
_KEY = re.compile(r"^  (\w+): (.*)$", re.MULTILINE)  # of an operator
_CUDA_KERNEL = re.compile(r"^    (.*, )?CUDA(, .*)?:", re.MULTILINE)  # under `dispatch`

Entry = dict[str, str]


def checking_kernel(name: str) -> str | None:
    """Return CUDA's kernel for the operator `name` if the kernel checks devices.

    `name` is as in `mm` or `aten::scatter_.src`.
    """
    return _checking_kernels().get(name.removeprefix("aten::"))


@functools.cache
def _checking_kernels() -> dict[str, str]:
    entries = _read_entries()
    kernels = {}
    for name, entry in entries.items():
        if entry.get("device_check") == "NoCheck":
            continue
        delegate = entry.get("structured_delegate")
        kernel_entry = entries.get(delegate, {}) if delegate else entry
        if "kernel" in kernel_entry:
            structured = delegate or entry.get("structured") == "True"
            kernels[name] = _kernel_name(name, bool(structured))
    return kernels


def _kernel_name(name: str, structured: bool) -> str:
    base, _, overload = name.partition(".")
    if overload.endswith("out"):
        base += "_out"
    if not structured:
        return f"wrapper_CUDA_{overload}_{base}"
    if not overload:
        return f"wrapper_CUDA_{base}"
    return f"wrapper_CUDA_{base}_{overload}"


def _read_entries() -> dict[str, Entry]:
    """Return the plain keys of each operator, and `kernel` if CUDA has one."""
    packaged = importlib.resources.files("torchgen") / "packaged" / "ATen" / "native"
    text = (packaged / "native_functions.yaml").read_text(encoding="utf-8")
    text = _COMMENT.sub("", text)

    entries = {}
    for block in text.split("- func: ")[1:]:
        name = block.partition("(")[0]
        entry = dict(_KEY.findall(block))
        if _CUDA_KERNEL.search(block):
            entry["kernel"] = "CUDA"
        entries[name] = entry
    return entries
