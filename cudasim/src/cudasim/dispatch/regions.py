"""Regions: which bytes of a memory a tensor covers, and whether two tensors share any.

Slices of one tensor are told apart exactly. Where that would take a search, as for strides
of which neither divides the other, the regions count as shared.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.overrides import has_torch_function_unary

from cudasim.dispatch.tags import storage_of
from cudasim.torch_private.dispatch import (
    DisableTorchFunction,
    in_transform,
    is_transformed,
    unwrap,
)


class Rows(NamedTuple):
    """Equal rows of bytes at equal distances."""

    count: int  # 2 or more
    pitch: int  # bytes from the start of a row to the start of the next


class Region(NamedTuple):
    """Bytes of a memory: all from `begin` to `end`, or only `rows` of them.

    The first of `rows` are the widest. The next ones lie within each of them. No row is
    longer than its pitch.
    """

    begin: int
    end: int
    rows: tuple[Rows, ...] = ()

    def overlaps(self, other: "Region") -> bool:
        """Return whether the regions share bytes; True where that is hard to say."""
        if self.end <= other.begin or other.end <= self.begin:
            return False
        pitches = [region.rows[0].pitch for region in (self, other) if region.rows]
        if not pitches:
            return True
        pitch = max(pitches)
        ours, theirs = self._divide(pitch), other._divide(pitch)
        if ours is None or theirs is None:
            return True

        # A row of theirs can meet two of ours: where it begins, and the one after that.
        count, row = ours
        other_count, other_row = theirs
        distance = (other.begin - self.begin) // pitch
        for steps in (distance, distance + 1):
            if -other_count < steps < count:
                if row._moved(steps * pitch).overlaps(other_row):
                    return True
        return False

    def covers(self, other: "Region") -> bool:
        """Return whether all bytes of `other` are in this region; False if hard to say."""
        return (
            self.begin <= other.begin
            and other.end <= self.end
            and (not self.rows or self.rows == other.rows)
        )

    def _divide(self, pitch: int) -> "tuple[int, Region] | None":
        """Return how many rows the region has at the distance `pitch`, and the first row.

        The last row may be shorter. Return None if the region has no such rows.
        """
        size = self.end - self.begin
        if size <= pitch:
            return 1, self
        if not self.rows or pitch % self.rows[0].pitch:
            return None
        (count, own_pitch), *inner = self.rows
        length = size - (count - 1) * own_pitch
        # Each of the rows holds this many of our own.
        held = pitch // own_pitch
        if held > 1:
            inner = [Rows(held, own_pitch), *inner]
            length += (held - 1) * own_pitch
        row = Region(self.begin, self.begin + length, tuple(inner))
        return -(-count // held), row

    def _moved(self, distance: int) -> "Region":
        return Region(self.begin + distance, self.end + distance, self.rows)


def region_of(tensor: Tensor, start: int) -> Region | None:
    """Return the region of `tensor`, whose memory begins at `start`; None if it is empty."""
    if has_torch_function_unary(tensor):
        # As in C++, subclasses and function modes do not see what is read here.
        with DisableTorchFunction():
            return region_of(tensor, start)
    if in_transform():
        while is_transformed(tensor):
            tensor = unwrap(tensor)
    if tensor.numel() == 0:
        return None
    if tensor.layout is not torch.strided:
        return Region(start, start + storage_of(tensor).nbytes())

    unit = tensor.element_size()
    begin = start + tensor.storage_offset() * unit
    if tensor.is_contiguous():
        return Region(begin, begin + tensor.numel() * unit)

    levels = []
    for stride, count in zip(tensor.stride(), tensor.shape, strict=True):
        if count > 1 and stride > 0:
            levels.append(Rows(count, stride * unit))
    return _region_of_rows(begin, unit, levels)


def _region_of_rows(begin: int, unit: int, levels: list[Rows]) -> Region:
    """Return the region of elements of `unit` bytes that lie in rows of rows."""
    length = unit
    rows: list[Rows] = []  # the narrowest first
    for count, pitch in sorted(levels, key=lambda level: level.pitch):
        if pitch < length:
            rows = []  # they overlap each other, as in `unfold`: take what is between, too
        elif rows and pitch == rows[-1].count * rows[-1].pitch:
            rows[-1] = Rows(rows[-1].count * count, rows[-1].pitch)
        elif rows or pitch > length:
            rows.append(Rows(count, pitch))
        length += (count - 1) * pitch
    return Region(begin, begin + length, tuple(reversed(rows)))
