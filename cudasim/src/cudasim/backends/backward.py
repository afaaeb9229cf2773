"""Streams in backward: each node runs on the stream of its forward.

The engine makes that stream current, lets it wait for those of the gradients that come in,
and the caller's for all of them in the end (`Engine::evaluate_function` and
`exec_post_processing` in torch/csrc/autograd/engine.cpp, `InputBuffer::add` in
input_buffer.cpp). Here each stream waits for the one before. The gradient of a leaf is
accumulated on the stream on which the graph first used it, when C++ makes its node.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from torch.autograd.graph import Node

from cudasim.backends.streams import Event, Stream
from cudasim.clock.watching import backward_nodes
from cudasim.patching import Patches, changed
from cudasim.session import session
from cudasim.torch_private import tensors as private


class NodeStreams:
    """Makes the streams of nodes current, one after another, while the engine runs.

    The engine in C++ calls nothing here, so `follow` is called by all that asks for the
    current stream.
    """

    def __init__(self, outputs: Any) -> None:
        self._outputs = outputs
        self._thread = session.thread
        self._of_caller = dict(self._thread.streams)
        self._number: int | None = None  # of the node whose stream is current

    def follow(self) -> None:
        """Make the stream of the node current that runs now, or the caller's in none."""
        node = private.current_node()
        if node is None:
            number = None
        else:
            number = private.number_of(node)
            if number == private.ACCUMULATES:
                number = self._first_uses.get(node)
        if number == self._number:
            return
        self._number = number
        if number is None:
            self.come_back()
            return
        with changed(self._thread, follow_node=None):
            for index, log in list(self._thread.stream_logs.items()):
                self._switch(index, log.at(number))

    @cached_property
    def _first_uses(self) -> dict[Node, int]:
        """The number of the first node that used each leaf, by the leaf's own node."""
        numbers: dict[Node, int] = {}
        for node in backward_nodes(self._outputs):
            number = private.number_of(node)
            for leaf, _ in node.next_functions:
                if leaf is not None and private.number_of(leaf) == private.ACCUMULATES:
                    numbers[leaf] = min(number, numbers.get(leaf, number))
        return numbers

    def come_back(self) -> None:
        """Let the caller's streams go on, after those of the nodes."""
        with changed(self._thread, follow_node=None):
            for index in list(self._thread.stream_logs):
                self._switch(index, self._of_caller.get(index, 0))

    def _switch(self, index: int, stream: int) -> None:
        before = session.current_stream(index)
        if stream != before:
            _order(index, before, stream)
            session.set_stream(index, stream)


def _order(index: int, first: int, second: int) -> None:
    """Let stream `second` of a GPU wait for stream `first`."""
    event = Event(session.gpu(index).device)
    event.record(Stream(stream_id=first, device_index=index))
    event.wait(Stream(stream_id=second, device_index=index))


def run_engine(original: Callable, outputs: Any, *args: Any, **kwargs: Any) -> Any:
    """Start the engine, in which streams follow the nodes if a program has used several."""
    thread = session.thread
    if not thread.stream_logs:
        return original(outputs, *args, **kwargs)
    outer = thread.follow_node
    if outer is not None:  # this pass begins within the backward of another
        outer()

    streams = NodeStreams(outputs)
    before = dict(thread.streams)
    thread.follow_node = streams.follow
    try:
        results = original(outputs, *args, **kwargs)
        streams.come_back()
    except BaseException:
        thread.streams.update(before)
        raise
    finally:
        thread.follow_node = outer
    return results


def patch_backward(patches: Patches) -> None:
    patches.wrap(*private.RUN_BACKWARD, run_engine)
