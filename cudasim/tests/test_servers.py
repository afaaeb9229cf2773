"""One machine that plays several servers: NCCL_HOSTID names each, and each has GPUs of its own.

Source: https://rocm.docs.amd.com/projects/rccl/en/develop/api-reference/env-variables.html
"""

import pytest
from programs import run_ranks, write

BOTH_ON_ONE_GPU = """
    import os
    rank = os.environ["RANK"]
    if name := os.environ.get("SERVER"):
        os.environ["NCCL_HOSTID"] = name.format(rank=rank)
    import torch, torch.distributed as dist
    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    x = torch.ones(2, device="cuda:0")
    dist.all_reduce(x)
    os.write(1, f"rank {rank}: {x.tolist()}\\n".encode())
    dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("server", "works"), [("server-{rank}", True), ("server", False), (None, False)]
)
def test_ranks_share_a_gpu_only_where_they_are_on_different_servers(tmp_path, server, works):
    write(tmp_path / "both.py", BOTH_ON_ONE_GPU)
    started = ["-m", "cudasim", "--gpus", "2", "both.py"]
    got = run_ranks(*started, cwd=tmp_path, SERVER=server, NCCL_HOSTID=None)
    for rank, ended in enumerate(got):
        if works:
            assert ended.stdout == f"rank {rank}: [2.0, 2.0]\n", ended.stderr
        else:
            assert ended.returncode == 1 and "Duplicate GPU detected" in ended.stderr
