"""Ranks that share a GPU, disagree, come late or have ended: every rank is told, at once."""

import re

import pytest
from programs import run_ranks, write

HEAD = """
    import os, sys, time
    from datetime import timedelta
    import torch, torch.distributed as dist
    import torch.distributed._functional_collectives as functional
    rank = int(os.environ["RANK"])
    def say(text):  # in one piece, whatever the other process says
        os.write(1, f"rank {rank}: {text}\\n".encode())
    def told(name, call):
        try:
            call()
        except Exception as error:
            say(f"{name}: {type(error).__name__}: {str(error).replace(chr(10), ' / ')}")
        else:
            say(f"{name}: nothing")
"""

SHARED = """
    shared = torch.device("cuda:0")
    torch.cuda.set_device(shared)
    def begin():
        dist.init_process_group("nccl", device_id=shared)
        dist.destroy_process_group()
    if "eager" in sys.argv:
        told("begin", begin)
        sys.exit()
    dist.init_process_group("nccl")
    x = torch.ones(4, device=shared)
    told("send", lambda: dist.recv(x, 0) if rank else dist.send(x, 1))
    told("barrier", dist.barrier)
    told("reduce", lambda: dist.all_reduce(x))
    told("apart", lambda: dist.all_reduce(torch.ones(4, device=torch.device("cuda", rank))))
    told("alone", lambda: dist.all_reduce(x, group=[dist.new_group([n]) for n in (0, 1)][rank]))
    dist.destroy_process_group()
"""

# No name holds the group: it ends in `destroy_process_group`, and its thread with it. A group that
# outlives that lets gloo's thread drop a tensor while the interpreter ends, and PyTorch aborts.
DISAGREEING = """
    here = torch.device("cuda", rank)
    torch.cuda.set_device(here)
    dist.init_process_group("nccl")
    ones = lambda *shape, **kwargs: torch.ones(*shape, device=here, **kwargs)
    told("shape", lambda: dist.all_reduce(ones(4 + rank)))
    told("type", lambda: dist.all_reduce(ones(4, dtype=(torch.float32, torch.int32)[rank])))
    told("order", lambda: dist.all_reduce(ones(4)) if rank else dist.broadcast(ones(4), 0))
    told("root", lambda: dist.broadcast(ones(4), rank))
    told("barrier", lambda: dist.barrier() if rank else dist.all_reduce(ones(4)))
    told("functional", lambda: functional.all_reduce(ones(4 + rank), "sum", dist.group.WORLD))
    told("rows", lambda: functional.all_gather_tensor(ones(4 + rank, 2), 0, dist.group.WORLD))
    told("same", lambda: dist.all_reduce(ones((2, 3)[rank], (3, 2)[rank])))  # six numbers each
    told("list", lambda: dist.all_gather([ones(1), ones(2)], ones(1 + rank)))  # as they should be
    told("apart", lambda: dist.all_gather([ones(1), ones(2 + rank)], ones(1 + rank)))
    for number in range(200):  # more than are kept in the store
        dist.all_reduce(x := ones(1))
    told("after", lambda: dist.all_reduce(ones(4)))
    dist.destroy_process_group()
"""

MISSING = """
    here = torch.device("cuda", rank)
    torch.cuda.set_device(here)
    late = sys.argv[1] == "late"
    dist.init_process_group("nccl", timeout=timedelta(seconds=2 if late else 100))
    x = torch.ones(4, device=here)
    dist.all_reduce(x)
    if rank == 1 and late:
        while not os.path.exists("told"):
            time.sleep(0.1)
    elif rank == 1:
        os._exit(0)
    else:
        told("waits", lambda: dist.recv(x, 1) if "recv" in sys.argv else dist.all_reduce(x))
        open("told", "w").close()
        sys.exit(3)
"""


def launch(tmp_path, text, *arguments, gpus="2", **variables):
    """Return the result of each of two ranks, and {(rank, name): what it was told}."""
    script = write(tmp_path / "ranks.py", HEAD + text)
    command = ["-m", "cudasim", "--gpus", gpus, script, *arguments]
    results = run_ranks(*command, cwd=tmp_path, **variables)
    messages = {}
    for result in results:
        for line in result.stdout.splitlines():
            rank, name, text = line.removeprefix("rank ").split(": ", 2)
            messages[int(rank), name] = text
    return results, messages


def duplicate(rank, bus=1000):
    return (
        "DistBackendError: NCCL error in: torch/csrc/distributed/c10d/NCCLUtils.cpp, invalid usage "
        "(run with NCCL_DEBUG=WARN for details), NCCL version 2.27.5 / ncclInvalidUsage: This "
        "usually reflects invalid usage of NCCL library. / Last error: / Duplicate GPU detected : "
        f"rank {rank} and rank {1 - rank} both on CUDA device {bus}"
    )


@pytest.mark.parametrize(
    ("way", "names"), [("lazy", ["send", "barrier", "reduce"]), ("eager", ["begin"])]
)
def test_two_ranks_on_one_gpu(tmp_path, way, names):
    _, messages = launch(tmp_path, SHARED, way)
    for rank in (0, 1):
        for name in names:
            assert messages.pop((rank, name)).startswith(duplicate(rank))
    assert set(messages.values()) <= {"nothing"}  # apart, and alone


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        (SHARED, {"CUDASIM_DISTRIBUTED_CHECKS": "0"}),
        # One machine that plays two servers, each with GPUs of its own. Source:
        # https://rocm.docs.amd.com/projects/rccl/en/develop/api-reference/env-variables.html
        ('    os.environ["NCCL_HOSTID"] = f"server {rank}"' + SHARED, {}),
    ],
)
def test_without_the_roll_call_and_on_two_servers_they_pass(tmp_path, text, variables):
    _, messages = launch(tmp_path, text, **variables)
    assert set(messages.values()) == {"nothing"}


FIRST = """
    os.environ["CUDA_VISIBLE_DEVICES"] = sys.argv[1 + rank]
    dist.init_process_group("nccl")
    told("reduce", lambda: dist.all_reduce(torch.ones(2, device="cuda:0")))
    dist.destroy_process_group()
"""


@pytest.mark.parametrize("cards", ["01", "11"])
def test_gpus_that_each_process_sees_as_its_first(tmp_path, cards):
    results, messages = launch(tmp_path, FIRST, *cards)
    assert [result.returncode for result in results] == [0, 0], results
    if cards == "11":
        assert messages[0, "reduce"].startswith(duplicate(0, 2000))
    else:
        assert set(messages.values()) == {"nothing"}


# What each rank is said to run, where they disagree.
MISMATCHES = {
    "shape": ("ALLREDUCE, TensorShape=[4]", "ALLREDUCE, TensorShape=[5]"),
    "type": ("TensorDtypes=Float", "TensorDtypes=Int"),
    "order": ("OpType=BROADCAST", "OpType=ALLREDUCE"),
    "root": ("Root=0", "Root=1"),
    "barrier": ("OpType=ALLREDUCE", "OpType=BARRIER)"),
    "functional": ("TensorShape=[4]", "TensorShape=[5]"),
    "rows": (
        "_ALLGATHER_BASE, TensorShape=[4, 2]",
        "_ALLGATHER_BASE, TensorShape=[5, 2]",
    ),
    "apart": ("TensorShape=[1], [2]", "TensorShape=[1], [3]"),
}


def test_ranks_that_ask_for_different_collectives(tmp_path):
    results, messages = launch(tmp_path, DISAGREEING)
    assert [result.returncode for result in results] == [0, 0], results
    head = "DistBackendError: Detected mismatch between collectives on ranks. Rank 0 is running "
    for name, (by_0, by_1) in MISMATCHES.items():
        message = messages[0, name]
        assert messages[1, name] == message
        assert message.startswith(head)
        first, second = message.split(", but Rank 1 is running collective: ")
        assert by_0 in first, message
        assert by_1 in second, message
        assert "NCCL would hang until its timeout of 600 seconds" in second
    for name in ("same", "list", "after"):
        assert messages[0, name] == messages[1, name] == "nothing"


@pytest.mark.parametrize(
    ("way", "number", "work", "who"),
    [
        ("collective", 2, "ALLREDUCE", "Rank 0 is there; rank 1"),
        ("recv", 1, "RECV", "Rank 1"),
    ],
)
def test_a_rank_that_never_arrives(tmp_path, way, number, work, who):
    results, messages = launch(tmp_path, MISSING, "late", way)
    assert messages[0, "waits"] == (
        f"DistBackendError: Watchdog caught collective operation timeout: WorkNCCL(SeqNum={number},"
        f" OpType={work}, NumelIn=4, NumelOut=4, Timeout(ms)=2000) ran for more than 2000 "
        f"milliseconds before timing out. {who} has not arrived."
    )
    assert results[0].returncode == 3


@pytest.mark.parametrize("way", ["collective", "recv"])
def test_a_rank_that_has_ended(tmp_path, way):
    results, messages = launch(tmp_path, MISSING, "ended", way)
    error = r"ncclRemoteError: A call failed .* / Last error: / Rank 1 \(process \d+\) has ended"
    assert re.search(error, messages[0, "waits"])
    assert results[0].returncode == 3
