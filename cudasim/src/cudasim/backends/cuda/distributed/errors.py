"""The errors of NCCL and of PyTorch's group for it, in their words.

What solves them is in a note (`BaseException.add_note`), as it is ours.

They are those of torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp and
ProcessGroupWrapper.cpp, of NCCL's src/init.cc and
src/misc/argcheck.cc, and as printed in
https://github.com/pytorch/pytorch/issues/47885,
https://github.com/Intellindust-AI-Lab/DEIMv2/issues/155 and
https://github.com/XPixelGroup/BasicSR/issues/737.
"""

from datetime import timedelta

import torch
from torch.distributed import DistBackendError

from cudasim.backends.cuda.nvidia_smi import bus_number
from cudasim.installed import minor_version
from cudasim.words import WORDS

MESSAGES = WORDS["NCCL"]
# Those that versions of PyTorch require of NCCL in their builds for CUDA 13.
NCCL_VERSIONS = {
    (2, 11): (2, 28, 9),
    (2, 12): (2, 29, 7),
    (2, 14): (2, 30, 7),
}


def nccl_version() -> tuple[int, int, int]:
    """Return the version of NCCL that the installed PyTorch has on a card."""
    installed = minor_version(torch.__version__)
    known = [version for version in NCCL_VERSIONS if version <= installed]
    return NCCL_VERSIONS[max(known)]


def nccl_error(
    kind: str, explanation: str, last: str, file: str = "NCCLUtils.cpp"
) -> DistBackendError:
    """Return an error that NCCL has returned to PyTorch's `file`."""
    version = ".".join(map(str, nccl_version()))
    message = MESSAGES["error"]
    return DistBackendError(message.format(file, kind, version, explanation, last))


def invalid_argument(last: str) -> DistBackendError:
    """Return the error of a collective whose arguments NCCL itself refuses."""
    kind = MESSAGES["invalid argument"]
    return nccl_error(kind, MESSAGES["argument"], last, "ProcessGroupNCCL.cpp")


def invalid_root(word: str, root: int, size: int) -> DistBackendError:
    """Return the error of a function, by `word`, with a root or peer that no rank has."""
    function = word.capitalize()
    return invalid_argument(MESSAGES["root"].format(function, root, size))


def aborted(rank: int) -> DistBackendError:
    """Return the error of `rank` as it uses a communicator that was aborted or destroyed."""
    return DistBackendError(MESSAGES["aborted"].format(rank))


def to_self(word: str) -> DistBackendError:
    """Return the error of a `send` or `recv` of a rank with itself, outside of a batch."""
    last = MESSAGES["send to self" if word == "send" else "recv from self"]
    kind = MESSAGES["invalid usage"]
    return nccl_error(kind, MESSAGES["usage"], last, "ProcessGroupNCCL.cpp")


def duplicate(rank: int, other: int, card: int, cards: int) -> DistBackendError:
    """Return the error of two ranks on one card, of which the machine has `cards`."""
    bus = bus_number(card) << 12
    last = MESSAGES["duplicate"].format(rank, other, bus)
    error = nccl_error(MESSAGES["invalid usage"], MESSAGES["usage"], last)
    error.add_note(MESSAGES["own GPU"].format(cards))
    return error


def gone(work: str, rank: int, pid: int) -> DistBackendError:
    """Return the error of a rank whose process has ended."""
    last = MESSAGES["gone"].format(rank, pid, work)
    return nccl_error(MESSAGES["exited"], MESSAGES["remote"], last)


def timed_out(
    prefix: str,
    work: str,
    waited: float,
    timeout: timedelta,
    missing: list[int],
    arrived: list[int],
) -> DistBackendError:
    """Return the error of ranks that have not come in `waited` seconds.

    As every line about a work, it begins with `prefix`.
    """
    timeout_ms = round(timeout.total_seconds() * 1000)
    work = work.replace(")", f", Timeout(ms)={timeout_ms})")
    reason = f"{ranks(missing, 'has', 'have')} not arrived."
    if arrived:
        reason = f"{ranks(arrived, 'is', 'are')} there; {reason.lower()}"
    message = MESSAGES["timeout"].format(prefix, work, int(waited * 1000))
    error = DistBackendError(message)
    error.add_note(reason)
    return error


def mismatch(
    fingerprints: dict[int, str], timeout: timedelta, is_wrapped: bool
) -> DistBackendError:
    """Return the error of ranks that ask for different things.

    If the group `is_wrapped`, PyTorch's own check has let them pass.
    """
    ranks_by_text: dict[str, list[int]] = {}
    for rank, text in fingerprints.items():
        ranks_by_text.setdefault(text, []).append(rank)
    parts = []
    for text, numbers in ranks_by_text.items():
        parts.append(f"{ranks(numbers, 'is', 'are')} running collective: {text}")
    different = ", but ".join(parts)
    error = DistBackendError(MESSAGES["mismatch"].format(different))
    note = MESSAGES["hang"].format(timeout.total_seconds())
    error.add_note(f"{note}." if is_wrapped else note + MESSAGES["detail"])
    return error


def ranks(numbers: list[int], singular: str, plural: str) -> str:
    """Return `Rank 1 is`, `Ranks 0 and 2 are` or `Ranks 0, 1 and 3 are`."""
    if len(numbers) == 1:
        return f"Rank {numbers[0]} {singular}"
    *others, last = numbers
    return f"Ranks {', '.join(map(str, others))} and {last} {plural}"
