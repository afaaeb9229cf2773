"""The private names of PyTorch that cudasim reads or replaces.

PyTorch promises none of these names, so any version may rename or remove them. The rest
of the package takes them from here, which makes this the place to change for a new
version. The names are grouped by what they are for:

- `dispatch`: dispatch keys, modes and transforms, by which operations reach cudasim
- `operators`: the classes and schemas of operators, and operators with private names
- `tensors`: tensors, storages, autograd, modules, optimizers, compilers, the profiler
- `devices`: the functions of `torch._C` behind `torch.accelerator`, `cuda` and `mps`
- `distributed`, `rpc`: processes and replicas; imported only where PyTorch was built with them
- `compiler`, `gradients`, `inductor`, `graph_trees`, `flex`: what `torch.compile`, its parts
  that trace gradients, generate code and launch CUDA graphs, and `flex_attention` are made of;
  imported only once these are

A name that cudasim reads has a public name here, `is_tracing = torch._C._is_tracing`, or
a function that returns it. A name that cudasim replaces in a simulation is an
`Attribute`, or one of the names of `Bindings`. The comment above it says what it is for.

To support another version of PyTorch, run `tests/test_private_names.py` with it. The
test prints each name that the version does not have, with its line in this package. Look
in the sources of PyTorch for what does the same now. If older versions have only the old
name, choose between the two here, so that no caller needs to know. The further steps,
and all that differs between the versions so far, are in `docs/development.md`.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

# The versions of PyTorch with which all names were tried.
TRIED = ("2.11", "2.12", "2.13", "2.14")

# Names that some of these versions, or some of their builds, do not have.
NOT_EVERYWHERE = {
    "_accelerator_emptyHostCache": "since PyTorch 2.12",
    "_accelerator_getAllocatorSettings": "since PyTorch 2.12",
    "_accelerator_getDefaultGenerator": "since PyTorch 2.14",
    "_cuda_CUDAAllocator_AllocatorState": "only in builds for CUDA",
    "_cuda_allocationTraceback": "since PyTorch 2.12",
    "_cuda_annotateMemory": "since PyTorch 2.14",
    "_cuda_cudaCachingAllocator_is_enabled": "since PyTorch 2.12",
    "_cuda_getCublasLtWorkspaceSize": "since PyTorch 2.13",
    "_cuda_getCublasWorkspaceSize": "since PyTorch 2.13",
    "_cuda_getCurrentSolverHandle": "since PyTorch 2.13",
    "_cuda_memoryMetadataSupported": "since PyTorch 2.14",
    "_cuda_resetCublasLtWorkspaceSize": "since PyTorch 2.13",
    "_cuda_resetCublasWorkspaceSize": "since PyTorch 2.13",
    "_cuda_setCublasLtWorkspaceSize": "since PyTorch 2.13",
    "_cuda_setCublasWorkspaceSize": "since PyTorch 2.13",
    "_cuda_tunableop_get_cublaslt_requested_algo_count": "since PyTorch 2.14",
    "_cuda_tunableop_set_cublaslt_requested_algo_count": "since PyTorch 2.14",
    "_get_device_properties": "only in builds for CUDA",
    "_mps_loadMetalllib": "since PyTorch 2.13",
    "_mps_loadMetallibFromPath": "since PyTorch 2.13",
    "_set_cached_tensors_enabled": "only in builds for CUDA",
}

# Methods that classes of ours have because PyTorch calls them.
CALLED_BY_PYTORCH = {
    "_rebuild_buckets": "of the Reducer of DistributedDataParallel",
    "_retain_pool": "of CUDAGraph, since PyTorch 2.14",
    "_should_skip_dynamo": "of TorchDispatchMode",
}


class Attribute(NamedTuple):
    """A private attribute that cudasim replaces.

    It unpacks to the first two arguments of `Patches.replace` and `Patches.wrap`.
    """

    owner: Any  # a module or a class
    name: str

    def read(self) -> Any:
        """Return the value it has now: PyTorch's own, or the one that replaces it."""
        return getattr(self.owner, self.name)


class Bindings:
    """Functions of `torch._C` whose names have the same prefix. cudasim replaces all.

    `names` are the rest of their names, separated by white space. Most of the functions
    for CUDA exist only in builds for CUDA. In other builds the Python code of PyTorch
    calls them all the same, so replacing them there adds them.
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
