"""Ranks that share a GPU, disagree, come late or have ended: every rank is told, at once."""

import re
import signal

import pytest
import torch
from programs import reports, run_script_as_ranks

from cudasim.backends.cuda.distributed.errors import nccl_version
from cudasim.installed import minor_version


def duplicate(rank, bus=1000):
    version = ".".join(map(str, nccl_version()))
    return (
        "DistBackendError: NCCL error in: torch/csrc/distributed/c10d/NCCLUtils.cpp, invalid usage "
        f"(run with NCCL_DEBUG=WARN for details), NCCL version {version} / ncclInvalidUsage: This "
        "usually reflects invalid usage of NCCL library. / Last error: / Duplicate GPU detected : "
        f"rank {rank} and rank {1 - rank} both on CUDA device {bus}"
    )


@pytest.mark.parametrize(
    ("way", "names"), [("lazy", ["send", "barrier", "reduce"]), ("eager", ["begin"])]
)
def test_two_ranks_on_one_gpu(tmp_path, way, names):
    results = run_script_as_ranks("ranks_sharing.py", way, cwd=tmp_path)
    texts = reports(results)
    for rank in (0, 1):
        for name in names:
            text = texts.pop((rank, name))
            assert text.startswith(duplicate(rank))
    assert set(texts.values()) <= {"nothing"}  # apart, and alone


@pytest.mark.parametrize("way", ["collective", "message"])
def test_both_ranks_on_one_gpu_are_told_though_the_store_ends(tmp_path, way):
    # NCCL's own: once ranks have found each other, they need no store.
    results = run_script_as_ranks("ranks_hosting.py", way, cwd=tmp_path)
    texts = reports(results)
    for rank in (0, 1):
        assert texts[rank, "meet"].startswith(duplicate(rank))


@pytest.mark.parametrize(
    ("servers", "checks"), [("one server", "0"), ("two servers", None)]
)
def test_without_the_roll_call_and_on_two_servers_they_pass(tmp_path, servers, checks):
    variables = {"CUDASIM_DISTRIBUTED_CHECKS": checks}
    results = run_script_as_ranks(
        "ranks_sharing.py", servers, cwd=tmp_path, **variables
    )
    texts = reports(results)
    assert len(texts) == 10  # five of each rank
    assert set(texts.values()) == {"nothing"}


@pytest.mark.parametrize("cards", ["01", "11"])
def test_gpus_that_each_process_sees_as_its_first(tmp_path, cards):
    results = run_script_as_ranks("ranks_hiding.py", *cards, cwd=tmp_path)
    assert [result.returncode for result in results] == [0, 0], results
    texts = reports(results)
    if cards == "11":
        assert texts[0, "reduce"].startswith(duplicate(0, 2000))
    else:
        assert set(texts.values()) == {"nothing"}


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
    "apart": ("TensorShape=[1], [2]", "TensorShape=[3], [2]"),
}


def test_ranks_that_ask_for_different_collectives(tmp_path):
    results = run_script_as_ranks("ranks_disagreeing.py", cwd=tmp_path)
    assert [result.returncode for result in results] == [0, 0], results
    texts = reports(results)
    head = "DistBackendError: Detected mismatch between collectives on ranks. Rank 0 is running "
    for name, (by_0, by_1) in MISMATCHES.items():
        error = texts[0, name]
        assert texts[1, name] == error
        assert error.startswith(head)
        first, second = error.split(", but Rank 1 is running collective: ")
        assert by_0 in first, error
        assert by_1 in second, error
        assert "NCCL would hang until its timeout of 600 seconds" in second

    for name in ("same", "list", "after"):
        assert texts[0, name] == texts[1, name] == "nothing"


def test_detailed_checks_are_those_of_pytorch(tmp_path):
    results = run_script_as_ranks(
        "ranks_in_detail.py", cwd=tmp_path, TORCH_DISTRIBUTED_DEBUG="DETAIL"
    )
    assert [result.returncode for result in results] == [0, 0], results
    texts = reports(results)
    for rank in (0, 1):
        for name in ("size", "type", "shape", "kind", "barrier", "gather"):
            by_pytorch = texts[rank, f"cpu {name}"].replace("device=cpu", "device=cuda")
            assert "Collectives differ in the following aspects" in by_pytorch
            error, *notes = texts[rank, f"cuda {name}"].split(" / ")
            assert error == by_pytorch
            assert bool(notes) == (name == "barrier")
        assert texts[rank, "cpu equal"] == texts[rank, "cuda equal"] == "nothing"
        # PyTorch does not compare roots.
        assert texts[rank, "cuda root"].endswith("seconds, or mix up the data.")
        assert texts[rank, "trained"] == "nothing"


# What begins each line about a work of rank 0 (`WorkNCCL::logPrefix`).
WORK = "[Rank 0]"
if minor_version(torch.__version__) >= (2, 14):
    WORK = "[PG GUID 0(default_pg) Rank 0]"


@pytest.mark.parametrize(
    ("way", "number", "work", "who"),
    [
        ("collective", 2, "ALLREDUCE", "Rank 0 is there; rank 1"),
        ("recv", 1, "RECV", "Rank 1"),
        # Only collectives have a number: what made the communicator has none.
        ("collective bound", 2, "ALLREDUCE", "Rank 0 is there; rank 1"),
        ("recv bound", 1, "RECV", "Rank 1"),
    ],
)
def test_a_rank_that_never_arrives(tmp_path, way, number, work, who):
    results = run_script_as_ranks(
        "ranks_missing.py",
        "late",
        *way.split(),
        cwd=tmp_path,
        TORCH_NCCL_BLOCKING_WAIT="1",
    )
    error = reports(results)[0, "waits"]
    head, elapsed, tail = re.fullmatch(
        r"(.* ran for )(\d+)( milliseconds.*)", error
    ).groups()
    assert head == (
        f"DistBackendError: {WORK} Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum={number}, OpType={work}, NumelIn=4, NumelOut=4, Timeout(ms)=2000) "
        "ran for "
    )
    assert 2000 <= int(elapsed) < 10_000
    assert tail == f" milliseconds before timing out. / {who} has not arrived."
    assert results[0].returncode == 3


def test_the_watchdog_ends_a_rank_that_waits_too_long(tmp_path):
    results = run_script_as_ranks(
        "ranks_missing.py", "late", "collective", cwd=tmp_path
    )
    waiting = results[0]
    assert waiting.returncode == -signal.SIGABRT
    assert not reports(results)
    group = "[PG ID 0 PG GUID 0(default_pg) Rank 0]"
    *_, what, reason = waiting.stderr.split("terminate called", 1)[1].splitlines()[:3]
    assert what.startswith(
        f"  what():  {group} Process group watchdog thread terminated with exception: "
        f"{WORK} Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, "
    )
    assert reason == "Rank 0 is there; rank 1 has not arrived."
    assert f"[rank0]: {WORK} Watchdog caught" in waiting.stderr
    assert f"[rank0]: {WORK} Some NCCL operations have failed" in waiting.stderr
    assert f"[rank0]: {WORK} To avoid data inconsistency" in waiting.stderr


@pytest.mark.parametrize("way", ["collective", "recv"])
def test_a_rank_that_has_ended(tmp_path, way):
    results = run_script_as_ranks("ranks_missing.py", "ended", way, cwd=tmp_path)
    error = r"ncclRemoteError: A call failed .* / Last error: / Rank 1 \(process \d+\) has ended"
    assert re.search(error, reports(results)[0, "waits"])
    assert results[0].returncode == 3


# As in torch/csrc/distributed/rpc/tensorpipe_agent.cpp (`getDevicesForRemote`).
NO_MAP = (
    "TensorPipe RPC backend only supports CPU tensors by default, please move your tensors to CPU "
    "before sending them over RPC, or call `set_device_map` on `TensorPipeRpcBackendOptions` to "
    "explicitly configure device mapping. {} device mapping is not available for destination {}, "
    "but found tensor on device: {}"
)


def test_calls_of_other_processes_send_no_tensors_of_gpus(tmp_path):
    results = run_script_as_ranks("ranks_calling.py", cwd=tmp_path)
    assert [result.returncode for result in results] == [0, 0], results
    texts = reports(results)
    assert len(texts) == 7
    for (rank, name), text in texts.items():
        if name.startswith("request"):
            assert text == "RuntimeError: " + NO_MAP.format("Request", "w1", "cuda:0")
        elif name.startswith("response"):
            assert NO_MAP.format("Response", "w0", "cuda:1") in text
        else:
            assert (rank, text) == (0, "nothing")


def test_calls_between_gpus_are_refused_from_the_start(tmp_path):
    results = run_script_as_ranks("ranks_calling.py", "mapped", cwd=tmp_path)
    texts = reports(results)
    assert len(texts) == 2
    for text in texts.values():
        assert text.startswith("NotImplementedError: cudasim does not simulate RPC")


# As https://github.com/pytorch/pytorch prints them, but for the number of the line.
LOGGED = re.compile(
    r"\[rank(\d)\]:\[W\d+ [\d:.]+ ProcessGroupNCCL\.cpp\] Warning: (.*) "
    r"\(function operator\(\)\)"
)
SINGLE = (
    "An unbatched P2P op (send/recv) was called on this ProcessGroup with size 2.  "
)
LAZY = f"{SINGLE}In lazy initialization mode, this will result"
EAGER = "[PG ID 0 PG GUID 0(default_pg) Rank {}] " + SINGLE + "In eager initialization"
ORDER = "Detected non-contiguous tensor in P2P operations. "
LEFT = "WARNING: destroy_process_group() was not called before program exit, "


@pytest.mark.parametrize(("way", "single"), [("lazy", LAZY), ("eager", EAGER)])
def test_warnings_of_cpp_are_logged_once(tmp_path, way, single):
    results = run_script_as_ranks("ranks_warned.py", way, cwd=tmp_path)
    for rank, result in enumerate(results):
        assert result.returncode == 0, result
        expected = [ORDER, single.format(rank)]
        if rank == 0:  # the first of a machine
            expected.append(LEFT)
        logged = LOGGED.findall(result.stderr)
        assert {who for who, _ in logged} == {str(rank)}
        for (_, text), begin in zip(logged, expected, strict=True):
            assert text.startswith(begin)


def test_the_level_of_the_log_silences_warnings(tmp_path):
    results = run_script_as_ranks(
        "ranks_warned.py", "lazy", cwd=tmp_path, TORCH_CPP_LOG_LEVEL="ERROR"
    )
    assert not any(LOGGED.search(result.stderr) for result in results)
