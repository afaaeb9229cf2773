"""`torch.cuda`, and what only CUDA has: NCCL, DataParallel, shared memory, `nvidia-smi`, NVML."""

import torch.distributed
import torch.distributed.rpc

from cudasim.backends.cuda.api import patch_api
from cudasim.backends.cuda.comm import patch_comm
from cudasim.backends.cuda.nvml import patch_nvml
from cudasim.backends.cuda.publishing import publish
from cudasim.backends.cuda.triton import patch_triton
from cudasim.patching import Patches

if torch.distributed.is_available():  # there are builds without it
    from cudasim.backends.cuda.distributed import patch_distributed
if torch.distributed.rpc.is_available():
    from cudasim.backends.cuda.distributed.rpc import patch_rpc


def patch_cuda(patches: Patches) -> None:
    patch_api(patches)
    publish(patches)
    patch_nvml(patches)
    patch_comm(patches)
    patch_triton(patches)
    if torch.distributed.is_available():
        patch_distributed(patches)
    if torch.distributed.rpc.is_available():
        patch_rpc(patches)
