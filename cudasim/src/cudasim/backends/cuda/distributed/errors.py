"""The errors of NCCL and of PyTorch's group for it, in their words, with what mends them: those of
torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp and ProcessGroupWrapper.cpp, of src/init.cc (NCCL
2.27), and as printed in https://github.com/pytorch/pytorch/issues/47885,
https://github.com/Intellindust-AI-Lab/DEIMv2/issues/155 and
https://github.com/XPixelGroup/BasicSR/issues/737."""

from datetime import timedelta

from torch.distributed import DistBackendError

from cudasim.words import WORDS

SAID = WORDS["NCCL"]
NCCL_VERSION = (2, 27, 5)  # that of PyTorch's own builds for CUDA 12


def nccl_error(kind: str, explained: str, last: str) -> DistBackendError:
    version = ".".join(map(str, NCCL_VERSION))
    return DistBackendError(SAID["error"].format(kind, version, explained, last))


def duplicate(rank: int, other: int, card: int, cards: int) -> DistBackendError:
    last = SAID["duplicate"].format(rank, other, card + 1 << 12, cards)
    return nccl_error(SAID["invalid usage"], SAID["usage"], last)


def gone(work: str, rank: int, pid: int) -> DistBackendError:
    return nccl_error(
        SAID["exited"], SAID["remote"], SAID["gone"].format(rank, pid, work)
    )


def timed_out(
    work: str, timeout: timedelta, missing: list, there: list
) -> DistBackendError:
    milliseconds = round(timeout.total_seconds() * 1000)
    told = work.replace(")", f", Timeout(ms)={milliseconds})")
    absent = f"{ranks(missing, 'has', 'have')} not arrived."
    if there:
        absent = f"{ranks(there, 'is', 'are')} there; {absent.lower()}"
    return DistBackendError(SAID["timeout"].format(told, milliseconds, absent))


def mismatch(texts: dict[int, str], timeout: timedelta) -> DistBackendError:
    asked = {
        text: [rank for rank in texts if texts[rank] == text] for text in texts.values()
    }
    each = ", but ".join(
        f"{ranks(those, 'is', 'are')} running collective: {text}"
        for text, those in asked.items()
    )
    seconds = timeout.total_seconds()
    return DistBackendError(SAID["mismatch"].format(each=each, seconds=seconds))


def ranks(numbers: list[int], one: str, more: str) -> str:
    """`Rank 1 is`, `Ranks 0 and 2 are`, `Ranks 0, 1 and 3 are`."""
    if len(numbers) == 1:
        return f"Rank {numbers[0]} {one}"
    return f"Ranks {', '.join(map(str, numbers[:-1]))} and {numbers[-1]} {more}"
