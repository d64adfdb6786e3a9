"""A lowered collective: explicit transfers with both ends, and what becomes of what arrives; it knows no sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from simfrontier.core.program import ChunkSum, CollectiveKind


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a collective of `size` ranks makes of a message of `num_chunks` chunks.

    But for an all-reduce the message is `size` equal pieces, one after the other.
    """

    kind: CollectiveKind
    size: int
    num_chunks: int

    def input(self, rank: int) -> range:
        """The part of a message that a rank's input is: its piece in an all-gather, else all."""
        return self._piece(rank) if self.kind == "all_gather" else range(self.num_chunks)

    def output(self, rank: int) -> range:
        """The part of a message that a rank's output is: its piece in a reduce-scatter, else all."""
        return self._piece(rank) if self.kind == "reduce_scatter" else range(self.num_chunks)

    def before(self, rank: int) -> Iterator[ChunkSum]:
        """The chunks of a rank's input."""
        return (ChunkSum(chunk, 1 << rank) for chunk in self.input(rank))

    def after(self, rank: int) -> Iterator[ChunkSum]:
        """The chunks of a rank's output."""
        match self.kind:
            case "all_gather":
                return (ChunkSum(chunk, 1 << owner) for owner in range(self.size) for chunk in self._piece(owner))
            case "all_to_all":
                return (ChunkSum(chunk, 1 << sender) for sender in range(self.size) for chunk in self._piece(rank))
            case "reduce_scatter" | "all_reduce":
                return (ChunkSum(chunk, (1 << self.size) - 1) for chunk in self.output(rank))

    def _piece(self, rank: int) -> range:
        each = self.num_chunks // self.size
        return range(rank * each, (rank + 1) * each)


@dataclass(frozen=True, slots=True)
class Transfer:
    """`count` chunks from `chunk` on of member `src`'s line go to the chunks from `to` on of member `dst`'s line.

    They take the place of what is there, or are added to it (`add`). src == dst is a copy within a member. `channel`
    numbers the ring, tree or stage that the transfer belongs to.
    """

    src: int
    dst: int
    chunk: int
    to: int
    count: int
    add: bool
    channel: int


@dataclass(frozen=True, kw_only=True)
class Lowered:
    """What the members of a group do in one message of a collective.

    Every member has a line of `num_chunks` chunks. The first `size * parts` are the message, of which piece m is the
    `parts` chunks from m * parts on:

    all_gather      member m begins with piece m, all end with all pieces
    reduce_scatter  members begin with all pieces, member m ends with piece m summed over the members
    all_reduce      members begin with all pieces and end with all of them summed
    all_to_all      members begin with all pieces; the result is as many chunks more, after the message's: its piece s
                    ends as piece m of member s's message, on member m

    Chunks beyond are room for what is on its way; `like[i]` is the message's chunk that the i-th of them is as large
    as. What was not said to be kept may be gone at the end: the message, the other pieces of a reduce-scatter.
    `transfers` stand in an order in which they may run one after the other; `after` says what each really waits for.
    """

    kind: CollectiveKind
    size: int
    parts: int
    transfers: tuple[Transfer, ...]
    like: tuple[int, ...] = ()
    least_elements: int = 1

    @property
    def num_message_chunks(self) -> int:
        return self.size * self.parts

    @property
    def meaning(self) -> Meaning:
        """What the collective does."""
        return Meaning(self.kind, self.size, self.num_message_chunks)

    @property
    def result_chunk(self) -> int:
        """The chunk at which the result begins."""
        return self.num_message_chunks if self.kind == "all_to_all" else 0

    def input(self, member: int) -> range:
        """The chunks of a member's line that are its input."""
        return self.meaning.input(member)

    def output(self, member: int) -> range:
        """The chunks of a member's line that are its output."""
        chunks = self.meaning.output(member)
        return range(chunks.start + self.result_chunk, chunks.stop + self.result_chunk)

    @property
    def num_chunks(self) -> int:
        return self.num_message_chunks * (2 if self.kind == "all_to_all" else 1) + len(self.like)

    @cached_property
    def after(self) -> tuple[tuple[int, ...], ...]:
        """Per transfer, the earlier ones that must have arrived before it may start: those that wrote what it reads,
        and those that wrote or read what it writes; none that one of the others waits for anyway.

        Additions to the same place do not wait for each other. Who adds floating-point numbers takes them in the order
        of the list as they arrive, so that sums come out the same every time.
        """
        block, num_blocks = self._blocks()
        lines = [[_Place() for _ in range(num_blocks)] for _ in range(self.size)]
        out = []
        for index, transfer in enumerate(self.transfers):
            waits: set[int] = set()
            source, target = lines[transfer.src], lines[transfer.dst]
            for place in source[block[transfer.chunk] : block[transfer.chunk + transfer.count]]:
                waits.update(place.writers)
                place.readers.append(index)
            for place in target[block[transfer.to] : block[transfer.to + transfer.count]]:
                waits.update(place.added(index) if transfer.add else place.replaced(index))
            waits.discard(index)  # of a transfer that writes what it reads, which no proof lets pass
            out.append(tuple(sorted(waits)))
        return tuple(out)

    def _blocks(self) -> tuple[dict[int, int], int]:
        """Where a transfer begins or ends a block begins; per such chunk the block's number, and how many there are.

        Chunks that always move together count as one block, so that `after` does not depend on how many they are."""
        ends = {0, self.num_chunks}
        for transfer in self.transfers:
            ends |= {transfer.chunk, transfer.chunk + transfer.count, transfer.to, transfer.to + transfer.count}
        return {chunk: number for number, chunk in enumerate(sorted(ends))}, len(ends) - 1

    def offsets(self, elements: int) -> list[int]:
        """Where each chunk of a line begins, and after the last where the line ends, in elements.

        `elements`: of one piece; for an all-reduce of the whole message. Pieces, and the parts of a piece, are as even
        as can be: of e elements in p parts the first e mod p hold one more. A piece with less than `least_elements` for
        every part has fewer parts; the chunks that are left over are empty.
        """
        pieces = _even(elements, self.size) if self.kind == "all_reduce" else [elements] * self.size
        widths = [width for piece in pieces for width in self._parted(piece)]
        every = widths * 2 if self.kind == "all_to_all" else list(widths)
        every += [widths[chunk] for chunk in self.like]
        out = [0]
        for width in every:
            out.append(out[-1] + width)
        return out

    def _parted(self, elements: int) -> list[int]:
        used = max(1, min(self.parts, elements // self.least_elements))
        return _even(elements, used) + [0] * (self.parts - used)


class _Place:
    """What has been done with one block of a line, by the numbers of the transfers."""

    __slots__ = ("base", "readers", "writers")

    def __init__(self) -> None:
        self.base: list[int] = []  # what every further addition waits for
        self.writers: list[int] = []  # what made the place what it is, beyond that
        self.readers: list[int] = []  # who has read that

    def replaced(self, index: int) -> list[int]:
        """Note that a transfer overwrites the place; what it waits for."""
        waits = self.readers or self.writers
        self.base = self.writers = [index]
        self.readers = []
        return waits

    def added(self, index: int) -> list[int]:
        """Note that a transfer adds to the place; what it waits for."""
        if self.readers:  # who read the place waited for all that had been added
            self.base, self.writers, self.readers = self.readers, [index], []
        elif self.writers is self.base:
            self.writers = [index]
        else:
            self.writers.append(index)
        return self.base


def _even(elements: int, parts: int) -> list[int]:
    each, more = divmod(elements, parts)
    return [each + (part < more) for part in range(parts)]
