"""Worker w0 calls functions of worker w1, with tensors of the CPU and of a GPU.

With the argument `mapped`, w0 asks for a map between their GPUs.
"""

import sys

import torch
from ranks import rank, report
from torch.distributed import rpc


def double(x):
    return 2 * x.cpu()


def ones_on_gpu():
    return torch.ones(2, device="cuda:1")


def device_of(reference):
    return str(reference.local_value().device)


def double_values(x):
    assert rpc.rpc_sync("w1", double, (x,)).tolist() == [2, 2]
    assert rpc.rpc_sync("w1", torch.add, (x, 1)).tolist() == [2, 2]
    assert rpc.remote("w1", double, (x,)).to_here().tolist() == [2, 2]


def keep_on_gpu():
    reference = rpc.remote("w1", ones_on_gpu)
    assert rpc.rpc_sync("w1", device_of, (reference,)) == "cuda:1"


def call():
    on_gpu = torch.ones(2, device="cuda:0")
    report("cpu", lambda: double_values(torch.ones(2)))
    report("kept", keep_on_gpu)
    report("request function", lambda: rpc.rpc_sync("w1", double, (on_gpu,)))
    report("request builtin", lambda: rpc.rpc_async("w1", torch.add, (on_gpu, 1)))
    report("request named", lambda: rpc.remote("w1", double, kwargs={"x": on_gpu}))
    report("response", lambda: rpc.rpc_sync("w1", ones_on_gpu))
    report("response fetched", lambda: rpc.remote("w1", ones_on_gpu).to_here())


maps = {"w1": {0: 1}} if "mapped" in sys.argv and rank == 0 else None
options = rpc.TensorPipeRpcBackendOptions(device_maps=maps, rpc_timeout=60)


def begin():
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)


if "mapped" in sys.argv:
    report("begin", begin)
    sys.exit()
begin()
if rank == 0:
    call()
rpc.shutdown()
