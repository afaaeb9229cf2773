"""Messages of a rank to itself, of which gloo has none."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from cudasim.backends.cuda.distributed import errors
from cudasim.torch_private.distributed import finished_work


class MessagesToSelf:
    """The messages of one rank of a group to itself.

    NCCL passes them on within a batch, the first that is sent to the first that is
    awaited. Outside of a batch, and if one is left over, it refuses them
    (`scheduleP2pTasksToPlan` in its src/enqueue.cc).
    """

    def __init__(self) -> None:
        self.sent: list[Tensor] = []
        self.awaited: list[Tensor] = []
        self.is_batch = False

    def pass_on(self, word: str, tensor: Tensor) -> torch.ScriptObject:
        """Note a `send` or `recv` of a batch, and return its work, which is done."""
        if not self.is_batch:
            raise errors.to_self(word)
        tensors = self.sent if word == "send" else self.awaited
        tensors.append(tensor)
        return finished_work([tensor])

    @contextmanager
    def batch(self) -> Iterator[None]:
        self.is_batch = True
        try:
            yield
            if len(self.sent) != len(self.awaited):
                is_send = len(self.sent) > len(self.awaited)
                raise errors.to_self("send" if is_send else "recv")
            for message, target in zip(self.sent, self.awaited, strict=True):
                target.view(-1).copy_(message.view(-1))
        finally:
            self.is_batch = False
            self.sent.clear()
            self.awaited.clear()
