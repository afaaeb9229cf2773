"""Whether the tensors that a CUDA graph reads are still there when it is replayed.

This is `check_input_liveness` of `torch.cuda.graph`. The rules and the words are those of
torch/utils/_cuda_debug.py in PyTorch 2.13. That module waits for storages to die, which a graph
keeps alive here.
"""

import textwrap
import traceback
from weakref import ref

from torch import Tensor

from cudasim.device.pools import PoolId
from cudasim.dispatch import held
from cudasim.dispatch.pinning import is_pinned
from cudasim.dispatch.tags import TAG, gpu_of, storage_of
from cudasim.notices import PACKAGE
from cudasim.torch_private.tensors import address_of
from cudasim.words import WORDS

MESSAGES = WORDS["liveness"]
MOST = 5  # tensors that the error describes


class Input:
    """A tensor that a graph reads and has not made."""

    def __init__(self, tensor: Tensor) -> None:
        storage = storage_of(tensor)
        self.address = tensor.data_ptr()
        self.pool = _pool_of(tensor)
        self.creation = _program_stack()  # as the capture first saw it
        self.deletion: str | None = None
        self._storage = ref(storage)
        self._storage_address = storage.data_ptr()
        self._key = address_of(storage)
        # The storage lives on in the graph, so the tensor tells when the program drops it.
        self._tensor = ref(tensor, self._note_deletion)

    def is_alive(self) -> bool:
        storage = self._storage()
        if storage is None or storage.data_ptr() != self._storage_address:
            return False
        return not held.is_held(self._key) or held.other_users(self._key) > 0

    def _note_deletion(self, tensor: ref) -> None:
        """Keep the code that drops the tensor, unless others use its storage."""
        if held.is_held(self._key) and held.other_users(self._key) <= 1:  # this one
            self.deletion = _program_stack()

    def describe(self, number: int) -> str:
        return (
            MESSAGES["tensor"].format(number, self.address)
            + _section("created", self.creation)
            + _section("deleted", self.deletion)
        )


class Inputs:
    """The tensors that a graph reads and has not made, by their addresses."""

    def __init__(self) -> None:
        self._inputs: dict[int, Input] = {}
        self._results: set[int] = set()  # addresses of what the graph has made

    def note(self, operands: list[Tensor], results: list[Tensor]) -> None:
        """Note what an operation of the graph has read and made, if it ran on a GPU."""
        if not any(map(gpu_of, operands)):
            return
        for tensor in operands:
            address = tensor.data_ptr()
            if not address or address in self._results or address in self._inputs:
                continue
            if gpu_of(tensor) is not None or is_pinned(tensor):
                self._inputs[address] = Input(tensor)
        for tensor in results:
            if gpu_of(tensor) is not None and tensor.data_ptr() not in self._inputs:
                self._results.add(tensor.data_ptr())

    def check(self, pool: PoolId) -> None:
        """Raise PyTorch's RuntimeError if a tensor is gone that is not from the graph's `pool`."""
        dead = []
        for tensor in self._inputs.values():
            if tensor.pool != pool and not tensor.is_alive():
                dead.append(tensor)
        if not dead:
            return

        text = MESSAGES["dead"].format(len(dead))
        for number, tensor in enumerate(dead[:MOST], 1):
            text += tensor.describe(number)
        if len(dead) > MOST:
            text += MESSAGES["more"].format(len(dead) - MOST)
        raise RuntimeError(text + _section("replayed", _program_stack()))


def _pool_of(tensor: Tensor) -> PoolId | None:
    """Return the id of the pool that the memory of a tensor on a GPU is from."""
    tag = getattr(storage_of(tensor), TAG, None)
    block = tag and tag.gpu and tag.block
    return block.pool.id if block else None


def _program_stack() -> str:
    """Return the lines that run now, without this package's."""
    frames = traceback.extract_stack()
    kept = [frame for frame in frames if not frame.filename.startswith(PACKAGE)]
    return "".join(traceback.format_list(kept))


def _section(title: str, stack: str | None) -> str:
    if not stack:
        return ""
    return f"  {MESSAGES[title]}:\n{textwrap.indent(stack.strip(), '    ')}\n"
