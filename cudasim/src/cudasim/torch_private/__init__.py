"""The private names of PyTorch that cudasim reads or replaces.

PyTorch promises none of these names, and a new version may rename any of them. So
`patches` and `backends` take them from here, where they are grouped by what they are for.
The modules that still name some themselves are listed as `WAITING` in
`tests/test_private_names.py`; there they stand at the top of each module.

- `dispatch`: dispatch modes, tracing, fake tensors, transforms, operators
- `tensors`: tensors, storages, autograd, modules, optimizers, compilers, the profiler
- `devices`: the functions of `torch._C` behind `torch.accelerator`, `cuda` and `mps`
- `distributed`: processes and replicas; imported only where PyTorch was built with them

A name that is read is an assignment, `is_tracing = torch._C._is_tracing`. A name that is
replaced is an `Attribute`, or one of the names of `Bindings`.

To support another version of PyTorch, run `tests/test_private_names.py` with it. It
lists the names that are gone and finds private names that are used outside of this
package.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

# The versions of PyTorch with which all names were tried.
TRIED = ("2.11", "2.12", "2.13", "2.14")

# Names that some of these versions, or some of their builds, do not have.
NOT_EVERYWHERE = {
    "_accelerator_getDefaultGenerator": "since PyTorch 2.14",
    "_get_device_properties": "only in builds for CUDA",
}

# Methods that classes of ours have because PyTorch calls them.
CALLED_BY_PYTORCH = {
    "_rebuild_buckets": "of the Reducer of DistributedDataParallel",
    "_retain_pool": "of CUDAGraph, since PyTorch 2.14",
}


class Attribute(NamedTuple):
    """A private attribute that cudasim replaces; unpack it for `replace` and its kin."""

    owner: Any  # a module or a class
    name: str

    def read(self) -> Any:
        """Return what stands there now: PyTorch's own, or what replaces it."""
        return getattr(self.owner, self.name)


class Bindings:
    """Functions of `torch._C` whose names begin alike, of which cudasim replaces all.

    They are known by what follows their `prefix`. A build without CUDA has most of them
    only once they are replaced: its Python code calls them all the same.
    """

    def __init__(self, prefix: str, names: str) -> None:
        self._prefix = prefix
        self._names = names.split()

    def __iter__(self) -> Iterator[Attribute]:
        return map(self.attribute, self._names)

    def attribute(self, name: str) -> Attribute:
        """Return the function called `name`, which has to be one of those listed."""
        if name not in self._names:
            raise KeyError(f"{self._prefix}{name} is not listed in torch_private")
        return Attribute(torch._C, self._prefix + name)
