"""The errors of NCCL and of PyTorch's group for it, in their words, with what mends them: those of
torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp and ProcessGroupWrapper.cpp, of src/init.cc (NCCL
2.27), and as printed in https://github.com/pytorch/pytorch/issues/47885,
https://github.com/Intellindust-AI-Lab/DEIMv2/issues/155 and
https://github.com/XPixelGroup/BasicSR/issues/737."""

from datetime import timedelta

from torch.distributed import DistBackendError

NCCL_VERSION = (2, 27, 5)  # that of PyTorch's own builds for CUDA 12


def nccl_error(kind: str, explained: str, last: str) -> DistBackendError:
    version = ".".join(map(str, NCCL_VERSION))
    where = f"torch/csrc/distributed/c10d/NCCLUtils.cpp, {kind}, NCCL version {version}"
    return DistBackendError(f"NCCL error in: {where}\n{explained}\nLast error:\n{last}")


def duplicate(rank: int, other: int, card: int, cards: int) -> DistBackendError:
    return nccl_error(
        "invalid usage (run with NCCL_DEBUG=WARN for details)",
        "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
        f"Duplicate GPU detected : rank {rank} and rank {other} both on CUDA device "
        f"{card + 1 << 12:x}\nEvery process needs a GPU of its own: call "
        'torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before the first collective, and '
        f"start no more processes on a machine than it has GPUs (here {cards}).",
    )


def gone(work: str, rank: int, pid: int) -> DistBackendError:
    return nccl_error(
        "remote process exited or there was a network error",
        "ncclRemoteError: A call failed possibly due to a network error or a remote process "
        "exiting prematurely.",
        f"Rank {rank} (process {pid}) has ended; this rank waits for it in {work}.",
    )


def timed_out(work: str, timeout: timedelta, missing: list, there: list) -> DistBackendError:
    milliseconds = round(timeout.total_seconds() * 1000)
    told = work.replace(")", f", Timeout(ms)={milliseconds})")
    absent = f"{ranks(missing, 'has', 'have')} not arrived."
    if there:
        absent = f"{ranks(there, 'is', 'are')} there; {absent.lower()}"
    ran = f"{told} ran for more than {milliseconds} milliseconds before timing out"
    return DistBackendError(f"Watchdog caught collective operation timeout: {ran}. {absent}")


def mismatch(texts: dict[int, str], timeout: timedelta) -> DistBackendError:
    asked = {text: [rank for rank in texts if texts[rank] == text] for text in texts.values()}
    each = ", but ".join(
        f"{ranks(those, 'is', 'are')} running collective: {text}" for text, those in asked.items()
    )
    return DistBackendError(
        f"Detected mismatch between collectives on ranks. {each}. Real GPUs would not say so: "
        f"NCCL would hang until its timeout of {timeout.total_seconds():g} seconds, or mix up the "
        "data; TORCH_DISTRIBUTED_DEBUG=DETAIL makes PyTorch check."
    )


def ranks(numbers: list[int], one: str, more: str) -> str:
    """`Rank 1 is`, `Ranks 0 and 2 are`, `Ranks 0, 1 and 3 are`."""
    if len(numbers) == 1:
        return f"Rank {numbers[0]} {one}"
    return f"Ranks {', '.join(map(str, numbers[:-1]))} and {numbers[-1]} {more}"
