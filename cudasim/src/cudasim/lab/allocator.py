"""A small model of PyTorch's caching allocator for CUDA, to experiment with.

PyTorch takes memory from the driver in *segments*, and cuts blocks for tensors out of
them. The rules are those of c10/cuda/CUDACachingAllocator.cpp, PyTorch 2.11 to 2.14:

1. A request is rounded up to a multiple of 512 bytes.
2. Requests of up to 1 MiB and larger requests use separate segments, which form two
   *pools*.
3. A request takes the smallest free block of its pool that is large enough. The rest of
   the block becomes a free block, in the small pool always, and in the large pool if it
   has more than 1 MiB. Otherwise the request takes the whole block.
4. If no block is large enough, the allocator takes a new segment from the driver: 2 MiB
   for a small request, 20 MiB for one below 10 MiB, and for a larger one its size,
   rounded up to a multiple of 2 MiB.
5. A block that is freed joins its free neighbours. Its segment stays until
   `empty_cache()` returns the empty segments to the driver.

With expandable segments, each pool has one segment, which grows in pieces of 2 MiB
(small) or 20 MiB (large). Any rest becomes a block, and `empty_cache()` returns every
empty piece. The model has one stream, and its card is never full.
"""

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from cudasim.device import sizes
from cudasim.device.settings import Settings
from cudasim.device.sizes import MIB, round_up

RANGE = (
    2**42
)  # bytes of addresses that an expandable segment may fill: more than any card
EMPTY_CACHE = "empty_cache"

# A step of a script: ('A', 5) creates the tensor A of 5 MiB, ('A', 0) deletes it, and
# ('empty_cache', 0) or 'empty_cache' empties the cache.
Step = tuple[str, float] | str


class Block(NamedTuple):
    """A piece of a segment: its size in bytes, and its tensor's name, or None if it is free."""

    size: int
    name: str | None = None

    @property
    def is_free(self) -> bool:
        return self.name is None


class Segments(list[list[Block]]):
    """A list of segments, each a list of blocks, ordered independently of their addresses."""

    def __init__(self, segments: Iterable[Iterable[Block]]) -> None:
        blocks = [list(segment) for segment in segments]
        super().__init__(sorted(blocks, key=_order))

    @property
    def reserved(self) -> int:
        """The total size of all segments in bytes."""
        return sum(block.size for segment in self for block in segment)

    @property
    def allocated(self) -> int:
        """The total size of the blocks in use, in bytes."""
        return sum(
            block.size for segment in self for block in segment if not block.is_free
        )

    def lines(self) -> list[str]:
        """Return one line of text for each segment, in MiB, with free blocks in brackets."""
        return [_line(segment) for segment in self]

    def __repr__(self) -> str:
        return "\n".join(self.lines()) or "no segments"


def _order(segment: list[Block]) -> list[tuple[int, str]]:
    return [(block.size, block.name or "") for block in segment]


def _line(segment: list[Block]) -> str:
    total = sum(block.size for block in segment)
    parts = []
    for block in segment:
        size = f"{block.size / MIB:.4g}"
        parts.append(f"[{size}]" if block.is_free else f"{block.name} {size}")
    return f"{total / MIB:g} MiB = {' + '.join(parts)}"


@dataclass
class _Piece:
    """A block of the model; one that is not mapped is mere addresses, without memory."""

    size: int
    name: str | None = None
    mapped: bool = True

    @property
    def is_free(self) -> bool:
        return self.mapped and self.name is None

    def can_join(self, neighbour: "_Piece") -> bool:
        is_unused = self.name is None and neighbour.name is None
        return is_unused and self.mapped == neighbour.mapped


@dataclass(order=True)
class _Segment:
    """A range of addresses, filled with pieces from the first to the last."""

    address: int
    size: int
    small: bool = field(compare=False)
    pieces: list[_Piece] = field(compare=False)

    def split(self, index: int, size: int) -> None:
        """Cut a piece in two, of which the first has `size` bytes."""
        piece = self.pieces[index]
        if size < piece.size:
            rest = _Piece(piece.size - size, piece.name, piece.mapped)
            self.pieces.insert(index + 1, rest)
            piece.size = size

    def join(self) -> None:
        """Join free neighbours, and neighbours without memory."""
        joined: list[_Piece] = []
        for piece in self.pieces:
            if joined and piece.can_join(joined[-1]):
                joined[-1].size += piece.size
            else:
                joined.append(piece)
        self.pieces = joined

    def room_from(self, index: int) -> int:
        """Return the bytes from this piece on that are not in use."""
        room = 0
        for piece in self.pieces[index:]:
            if piece.name is not None:
                break
            room += piece.size
        return room


class _Place(NamedTuple):
    """Where a free block is; the smallest block comes first, then the lowest address."""

    size: int
    address: int
    segment: _Segment
    position: int


class Allocator:
    """A model of the caching allocator of one GPU.

    >>> gpu = Allocator()
    >>> gpu.allocate("A", 19.5)
    >>> gpu.reserved // 2**20
    20

    The options correspond to those of PYTORCH_ALLOC_CONF: `roundup` to
    `roundup_power2_divisions`, `max_split` to `max_split_size_mb`, and `expandable` to
    `expandable_segments`. Raises ValueError for a value that PyTorch refuses.
    """

    def __init__(
        self, roundup: int = 0, max_split: int | None = None, expandable: bool = False
    ) -> None:
        self._settings = Settings(settings_text(roundup, max_split, expandable))
        self._segments: list[_Segment] = []  # by address

    def allocate(self, name: str, mib: float) -> None:
        """Allocate a block of `mib` MiB for a tensor called `name`.

        Raises ValueError if the name is in use, or if `mib` is not positive.
        """
        if self._find(name) is not None:
            raise ValueError(f"'{name}' is allocated already; free it first")
        if mib <= 0:
            raise ValueError(f"'{name}': a block has more than {mib} MiB")
        size = self._settings.round(int(mib * MIB))
        small = size <= sizes.SMALL
        place = self._smallest(size, small) or self._grow(size, small)
        if self._splits(place.size - size, size, small):
            place.segment.split(place.position, size)
        place.segment.pieces[place.position].name = name

    def free(self, name: str) -> None:
        """Free the block of the tensor `name`. Raises KeyError if there is no such tensor."""
        segment = self._find(name)
        if segment is None:
            raise KeyError(name)
        for piece in segment.pieces:
            if piece.name == name:
                piece.name = None
        segment.join()

    def empty_cache(self) -> None:
        """Return the memory that holds no tensor to the driver."""
        for segment in self._segments:
            if self._settings.expandable:
                self._unmap(segment)
        self._segments = [each for each in self._segments if not _is_unused(each)]

    def play(self, script: Iterable[Step]) -> "Allocator":
        """Run the steps of a script, and return the allocator itself.

        `('A', 5)` allocates `A` with 5 MiB, `('A', 0)` frees it, and `'empty_cache'`
        empties the cache.
        """
        play_on(self, script)
        return self

    @property
    def segments(self) -> Segments:
        """The current segments, each with its blocks."""
        runs: list[list[Block]] = []
        for segment in self._segments:
            run: list[Block] = []
            for piece in segment.pieces:
                if piece.mapped:
                    run.append(Block(piece.size, piece.name))
                elif run:  # PyTorch, too, reports what is apart as two segments
                    runs.append(run)
                    run = []
            if run:
                runs.append(run)
        return Segments(runs)

    @property
    def reserved(self) -> int:
        """The bytes taken from the driver, as in `torch.cuda.memory_reserved`."""
        return self.segments.reserved

    @property
    def allocated(self) -> int:
        """The bytes of the blocks in use, as in `torch.cuda.memory_allocated`."""
        return self.segments.allocated

    def __repr__(self) -> str:
        reserved, allocated = self.reserved / MIB, self.allocated / MIB
        head = f"{reserved:g} MiB reserved, {allocated:.4g} MiB allocated"
        return "\n".join([head, *self.segments.lines()])

    def draw(self, title: str = "") -> None:
        """Draw the segments as rows of blocks. Used blocks are filled, free ones hatched."""
        from cudasim.lab.drawing import draw_segments

        draw_segments({title: self.segments})

    # Rules 3 and 5

    def _find(self, name: str) -> _Segment | None:
        for segment in self._segments:
            if any(piece.name == name for piece in segment.pieces):
                return segment
        return None

    def _smallest(self, size: int, small: bool) -> _Place | None:
        """Return the smallest free block with enough room (get_free_block)."""
        places = []
        for segment in self._segments:
            if segment.small == small:
                places += _free_places(segment, size)
        if not places:
            return None
        places.sort(key=lambda place: place[:2])
        place = places[0]
        if self._settings.expandable:
            place = _least_growable(places)
        limit = self._settings.max_split
        if size < limit <= place.size:  # a block this large is kept whole
            return None
        if size >= limit and place.size >= size + sizes.LARGE_SEGMENT:
            return None
        return place

    def _splits(self, rest: int, size: int, small: bool) -> bool:
        """Return whether what is left becomes a block of its own (should_split)."""
        if small or self._settings.expandable:
            return rest >= sizes.BLOCK
        return rest > sizes.SMALL and size < self._settings.max_split

    # Rule 4

    def _grow(self, size: int, small: bool) -> _Place:
        """Take memory from the driver, and return a free block with room for `size`."""
        if self._settings.expandable:
            return self._expand(size, small)
        if small:
            taken = sizes.SMALL_SEGMENT
        elif size < sizes.HUGE:
            taken = sizes.LARGE_SEGMENT
        else:
            taken = round_up(size, sizes.ROUNDING)
        segment = self._new_segment(taken, small, [_Piece(taken)])
        return _Place(taken, segment.address, segment, 0)

    def _new_segment(self, size: int, small: bool, pieces: list[_Piece]) -> _Segment:
        """Add a segment at the lowest address that is free: the driver decides where."""
        address = 0
        for segment in self._segments:
            if segment.address - address >= size:
                break
            address = segment.address + segment.size
        segment = _Segment(address, size, small, pieces)
        insort(self._segments, segment)
        return segment

    # Expandable segments

    def _expand(self, size: int, small: bool) -> _Place:
        """Put memory behind addresses until a block has room (try_allocate_expandable_block)."""
        segment = next((each for each in self._segments if each.small == small), None)
        if segment is None:
            segment = self._new_segment(RANGE, small, [_Piece(RANGE, mapped=False)])
        index = _first_with_room(segment, size)
        if not segment.pieces[index].mapped:
            _map(segment, index, size)
        while segment.pieces[index].size < size:
            _map(segment, index + 1, size - segment.pieces[index].size)
        return _Place(segment.pieces[index].size, 0, segment, index)

    def _unmap(self, segment: _Segment) -> None:
        """Take away the memory of whole pages that hold nothing (unmap_block)."""
        page = _page(segment)
        begin = 0
        kept: list[_Piece] = []
        for piece in segment.pieces:
            end = begin + piece.size
            first, last = round_up(begin, page), end // page * page
            if piece.is_free and first < last:
                parts = [(begin, first, True), (first, last, False), (last, end, True)]
                kept += [_Piece(b - a, mapped=m) for a, b, m in parts if a < b]
            else:
                kept.append(piece)
            begin = end
        segment.pieces = kept
        segment.join()


class _Plays(Protocol):
    """What can play a script: the model, or a real allocator."""

    def allocate(self, name: str, mib: float) -> None: ...
    def free(self, name: str) -> None: ...
    def empty_cache(self) -> None: ...


def play_on(allocator: _Plays, script: Iterable[Step]) -> None:
    """Run the steps of a script on an allocator."""
    for step in script:
        name, mib = (step, 0) if isinstance(step, str) else step
        if name == EMPTY_CACHE:
            allocator.empty_cache()
        elif mib:
            allocator.allocate(name, mib)
        else:
            allocator.free(name)


def settings_text(roundup: int, max_split: int | None, expandable: bool) -> str:
    """Return the options in the form of PYTORCH_ALLOC_CONF."""
    entries = []
    if expandable:
        entries.append("expandable_segments:True")
    if max_split is not None:
        entries.append(f"max_split_size_mb:{max_split}")
    if roundup:
        entries.append(f"roundup_power2_divisions:{roundup}")
    return ",".join(entries)


def _is_unused(segment: _Segment) -> bool:
    """Return whether a segment is one free block, or addresses alone."""
    return len(segment.pieces) == 1 and segment.pieces[0].name is None


def _free_places(segment: _Segment, size: int) -> list[_Place]:
    places = []
    address = segment.address
    for index, piece in enumerate(segment.pieces):
        if piece.is_free and piece.size >= size:
            places.append(_Place(piece.size, address, segment, index))
        address += piece.size
    return places


def _least_growable(places: list[_Place]) -> _Place:
    """Go on to the next block as long as it can grow less, to keep the end for the large."""
    place = places[0]
    for other in places[1:]:
        if _growable(other) >= _growable(place):
            break
        place = other
    return place


def _growable(place: _Place) -> int:
    """Return the size of a block with the addresses behind it that have no memory yet."""
    behind = place.segment.pieces[place.position + 1 : place.position + 2]
    return place.size + sum(piece.size for piece in behind if not piece.mapped)


def _first_with_room(segment: _Segment, size: int) -> int:
    """Return the first piece from which `size` bytes can be had by putting memory behind it."""
    pieces = segment.pieces
    for index, piece in enumerate(pieces):
        if piece.mapped:
            continue
        first = index - 1 if index and pieces[index - 1].is_free else index
        if segment.room_from(first) >= size:
            return first
    raise MemoryError("no addresses are left")


def _map(segment: _Segment, index: int, size: int) -> None:
    """Put memory behind the first `size` bytes of a piece, in whole pages (map_block)."""
    piece = segment.pieces[index]
    segment.split(index, min(round_up(size, _page(segment)), piece.size))
    piece.mapped = True
    segment.join()


def _page(segment: _Segment) -> int:
    return sizes.SMALL_SEGMENT if segment.small else sizes.LARGE_SEGMENT
