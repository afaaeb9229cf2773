"""Which of CUDA's kernels check the device of every argument, and by which name.

PyTorch generates these checks from `native_functions.yaml`, which it ships with torchgen.
A kernel of CUDA without `device_check: NoCheck` compares its tensors in the order of its
schema, and names itself `wrapper_CUDA_...` (torchgen/dest/register_dispatch_key.py). The
file is read when the first disagreement is found, and never where there is none.
"""

import functools
import importlib.util
from pathlib import Path


def checking_kernel(name: str) -> str | None:
    """CUDA's kernel for the operator `name` (`mm`, `scatter_.src`), if it checks devices."""
    return _kernels().get(name)


@functools.cache
def _kernels() -> dict[str, str]:
    """Operator -> the name of CUDA's kernel, for those that check devices."""
    found = importlib.util.find_spec("torchgen")
    if found is None or not found.submodule_search_locations:
        return {}
    folder = Path(found.submodule_search_locations[0])
    path = folder / "packaged" / "ATen" / "native" / "native_functions.yaml"
    if not path.is_file():
        return {}
    entries = _entries(path.read_text(encoding="utf-8"))
    kernels = {}
    for name, entry in entries.items():
        delegate = entry.get("structured_delegate")
        structured = delegate is not None or entry.get("structured") == "True"
        on_cuda = (entries.get(delegate, {}) if delegate else entry).get("cuda")
        if not on_cuda or entry.get("device_check") == "NoCheck":
            continue
        base, _, overload = name.partition(".")
        out = "_out" if overload.endswith("out") else ""
        if structured:
            kernels[name] = "wrapper_CUDA_" + "_".join(filter(None, [base + out, overload]))
        else:
            kernels[name] = f"wrapper_CUDA_{overload}_{base}{out}"
    return kernels


def _entries(text: str) -> dict[str, dict]:
    """What the file says of each operator: its plain keys, and whether it has a CUDA kernel."""
    entries: dict[str, dict] = {}
    entry: dict = {}
    for line in text.splitlines():
        content = line.partition("#")[0].rstrip()
        key, colon, value = content.strip().partition(":")
        if content.startswith("- func:"):
            entry = entries[value.strip().partition("(")[0]] = {}
        elif not colon:
            continue
        elif content.startswith("    "):  # a line of `dispatch`: keys, and their kernel
            if "CUDA" in key.split(", "):
                entry["cuda"] = True
        elif content.startswith("  "):
            entry[key] = value.strip()
    return entries
