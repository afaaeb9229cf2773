"""Which stream was current when a thread made each node of its graphs.

Autograd runs the backward of a node on the stream of its forward
(https://docs.pytorch.org/docs/stable/notes/cuda.html#stream-semantics-of-backward-passes).
A thread numbers the nodes that it makes, in order (aten/src/ATen/SequenceNumber.h). So it
is enough to know at which number another stream became the current one, and an operation
costs nothing. The nodes of another thread are looked up by the same numbers.
"""

from bisect import bisect_right

from cudasim.torch_private.tensors import next_node_number

# Changes that are remembered at least; the oldest ones are forgotten.
KEPT = 10_000


class StreamLog:
    """The current streams of one GPU in one thread, by their ids; 0 is the default one."""

    def __init__(self) -> None:
        # From the node of a number on, the stream is that at the same position.
        self._numbers = [0]
        self._streams = [0]

    def change(self, stream: int) -> None:
        """Note that `stream` is the current one from now on."""
        number = next_node_number()
        if number == self._numbers[-1]:
            self._streams[-1] = stream
        elif stream != self._streams[-1]:
            self._numbers.append(number)
            self._streams.append(stream)
        if len(self._numbers) > 2 * KEPT:
            del self._numbers[:KEPT]
            del self._streams[:KEPT]

    def at(self, number: int) -> int:
        """Return the stream on which the node of a number was made."""
        position = bisect_right(self._numbers, number) - 1
        return self._streams[max(position, 0)]
