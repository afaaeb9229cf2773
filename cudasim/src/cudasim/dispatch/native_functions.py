"""Which of CUDA's kernels check the device of every argument, and by which name: as torchgen
(dest/register_dispatch_key.py) makes them of `native_functions.yaml`, which PyTorch ships."""

import functools
import importlib.resources
import re


def checking_kernel(name: str) -> str | None:
    """CUDA's kernel for the operator `name` (`mm`, `aten::scatter_.src`), if it checks devices."""
    return _kernels().get(name.removeprefix("aten::"))


@functools.cache
def _kernels() -> dict[str, str]:
    packaged = importlib.resources.files("torchgen") / "packaged" / "ATen" / "native"
    text = (packaged / "native_functions.yaml").read_text(encoding="utf-8")
    entries, kernels = _entries(text), {}
    for name, entry in entries.items():
        delegate = entry.get("structured_delegate")
        on_cuda = "kernel" in (entries.get(delegate, {}) if delegate else entry)
        if not on_cuda or entry.get("device_check") == "NoCheck":
            continue
        base, _, overload = name.partition(".")
        base += "_out" if overload.endswith("out") else ""
        if delegate or entry.get("structured") == "True":
            kernels[name] = "wrapper_CUDA_" + "_".join(filter(None, (base, overload)))
        else:
            kernels[name] = f"wrapper_CUDA_{overload}_{base}"
    return kernels


def _entries(text: str) -> dict[str, dict[str, str]]:
    """What the file says of each operator: its plain keys, and `kernel` if CUDA has one."""
    entries = {}
    for entry in re.sub(r" *#.*", "", text).split("- func: ")[1:]:
        entries[entry.partition("(")[0]] = keys = dict(
            re.findall(r"(?m)^  (\w+): (.*)$", entry)
        )
        if re.search(r"(?m)^    (.*, )?CUDA(, .*)?:", entry):  # a line of `dispatch`
            keys["kernel"] = "CUDA"
    return entries
