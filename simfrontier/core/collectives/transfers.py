"""Lowered collectives: explicit transfers, each with a source, a target and a flag whether it overwrites or adds; they
are independent of the message size.

A recipe names the algorithm by which a group carries a collective, the orders of its members and the number of slices;
the algorithm turns it into transfers (`lower`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Final

from annotated_types import Ge

from simfrontier.base.io import Names
from simfrontier.base.limits import Limit
from simfrontier.core.program import ALGORITHMS, ChunkSum, CollectiveKind

TRANSFERS: Final = Limit(most=1_000_000, what="transfers")  # 300 bytes each; a ring of 128 ranks in 8 channels: 260,096


@dataclass(frozen=True, slots=True)
class Meaning:
    """Effect of a collective of `size` ranks on a message of `num_chunks` chunks.

    Except in an all-reduce, the message consists of `size` equal pieces, one after the other.
    """

    kind: CollectiveKind
    size: int
    num_chunks: int

    def input(self, rank: int) -> range:
        """Return the chunks of the message that are a rank's input: its piece in an all-gather, else the whole
        message."""
        return self._piece(rank) if self.kind == "all_gather" else range(self.num_chunks)

    def output(self, rank: int) -> range:
        """Return the chunks of the message that are a rank's output: its piece in a reduce-scatter, else the whole
        message."""
        return self._piece(rank) if self.kind == "reduce_scatter" else range(self.num_chunks)

    def before(self, rank: int) -> Iterator[ChunkSum]:
        """Yield the contents of the chunks of a rank's input, before the collective."""
        return (ChunkSum(chunk, 1 << rank) for chunk in self.input(rank))

    def after(self, rank: int) -> Iterator[ChunkSum]:
        """Yield the contents of the chunks of a rank's output, after the collective."""
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
    """Transfer of `count` chunks from the buffer of rank `src` (from chunk `chunk` on) to the buffer of rank `dst`
    (from chunk `to` on); ranks are numbered within the group.

    The chunks replace those of the target buffer, or are added to them (`add`). src == dst is a copy within a rank.
    `channel` numbers the ring, tree or stage that the transfer belongs to.
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
    """Transfers between the ranks of a group for one message of a collective. Below, member m is the m-th rank of the
    group.

    Every member has a buffer of `num_chunks` chunks. The first `size * parts` chunks are the message, in which piece m
    is the `parts` chunks from m * parts on:

    all_gather      member m begins with piece m, all end with all pieces
    reduce_scatter  members begin with all pieces, member m ends with piece m summed over the members
    all_reduce      members begin with all pieces and end with all of them summed
    all_to_all      members begin with all pieces; the result is as many chunks more, after the message's: its piece s
                    ends as piece m of member s's message, on member m

    The remaining chunks are a staging area, of which the i-th chunk has the size of chunk `like[i]` of the message.
    Contents that are not part of the output may be lost: the message of an all-to-all, the other pieces of a
    reduce-scatter. `transfers` are in an order in which they may run one after the other; `after` has the actual
    dependencies of each transfer.
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
        """Effect of the collective on its message."""
        return Meaning(self.kind, self.size, self.num_message_chunks)

    @property
    def result_chunk(self) -> int:
        """Index of the first chunk of the result in a rank's buffer."""
        return self.num_message_chunks if self.kind == "all_to_all" else 0

    def input(self, member: int) -> range:
        """Return the chunks of a rank's buffer that are its input."""
        return self.meaning.input(member)

    def output(self, member: int) -> range:
        """Return the chunks of a rank's buffer that are its output."""
        chunks = self.meaning.output(member)
        return range(chunks.start + self.result_chunk, chunks.stop + self.result_chunk)

    @property
    def num_chunks(self) -> int:
        return self.num_message_chunks * (2 if self.kind == "all_to_all" else 1) + len(self.like)

    @cached_property
    def after(self) -> tuple[tuple[int, ...], ...]:
        """Indices, for each transfer, of the earlier transfers that must have arrived before it may start: those that
        wrote what it reads, and those that wrote or read what it writes, except for those that are implied by another
        dependency.

        Additions to the same chunk do not wait for each other. An executor adds floating-point numbers in the order of
        the list as they arrive, so that sums are reproducible.
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
        """Return the block number of each chunk at which a block begins, which is where some transfer begins or ends;
        and the number of blocks.

        Chunks that always move together count as one block, so that `after` does not depend on their number.
        """
        ends = {0, self.num_chunks}
        for transfer in self.transfers:
            ends |= {transfer.chunk, transfer.chunk + transfer.count, transfer.to, transfer.to + transfer.count}
        return {chunk: number for number, chunk in enumerate(sorted(ends))}, len(ends) - 1

    def offsets(self, elements: int) -> list[int]:
        """Return the offset of each chunk of a rank's buffer and, last, the end of the buffer, in elements.

        `elements`: number of elements of one piece; for an all-reduce, of the whole message. Pieces, and the parts of a
        piece, are as even as possible: of e elements in p parts, each of the first e mod p parts has one element more.
        A piece with fewer than `least_elements` per part has fewer parts; the remaining chunks are empty.
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
    """Writes and reads of one block of a buffer, by the indices of the transfers."""

    __slots__ = ("base", "readers", "writers")

    def __init__(self) -> None:
        self.base: list[int] = []  # transfers that every further addition waits for
        self.writers: list[int] = []  # transfers that wrote the content, after those
        self.readers: list[int] = []  # transfers that have read it

    def replaced(self, index: int) -> list[int]:
        """Record that a transfer overwrites the block; return the indices of the transfers for which it must wait."""
        waits = self.readers or self.writers
        self.base = self.writers = [index]
        self.readers = []
        return waits

    def added(self, index: int) -> list[int]:
        """Record that a transfer adds to the block; return the indices of the transfers for which it must wait."""
        if self.readers:  # readers have waited for all additions so far
            self.base, self.writers, self.readers = self.readers, [index], []
        elif self.writers is self.base:
            self.writers = [index]
        else:
            self.writers.append(index)
        return self.base


def _even(elements: int, parts: int) -> list[int]:
    each, more = divmod(elements, parts)
    return [each + (part < more) for part in range(parts)]


# ── recipes ──


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Choices that determine the transfers of a collective in one group.

    algorithm  name, one of `collectives.algorithms`
    orders     per channel the members (numbered 0 to n-1 in the group's order), node after node, so that each node's
               members are `per_node` neighbours in the list; rings close it
    per_node   number of members on each node; n if the group is on one node
    slices     number of successive parts into which a channel cuts its chunks
    least_elements  minimum number of elements of a part of a message's piece: small messages use fewer channels
    """

    algorithm: Annotated[str, Names(*ALGORITHMS)]
    orders: tuple[tuple[int, ...], ...]
    per_node: int
    slices: Annotated[int, Ge(1)] = 1
    least_elements: Annotated[int, Ge(1)] = 1

    @property
    def size(self) -> int:
        return len(self.orders[0])

    @property
    def num_nodes(self) -> int:
        return self.size // self.per_node

    @property
    def parts(self) -> int:
        """Number of parts into which a rank's piece of the message is cut: slices per channel, times channels."""
        return len(self.orders) * self.slices

    def fault(self) -> str | None:
        """Return the first inconsistency of the recipe (the value found and the allowed values), or None."""
        members = list(range(self.size)) if self.orders else []
        if not members or any(sorted(order) != members for order in self.orders):
            return "orders: allowed: one or more, each of all members"
        if self.per_node < 1 or self.size % self.per_node:
            return f"per_node: {self.per_node} does not divide the group's {self.size} members"
        if len({self._nodes(order) for order in self.orders}) > 1:
            return f"orders: channels differ in which {self.per_node} members are on one node"
        return None

    def _nodes(self, order: tuple[int, ...]) -> frozenset[frozenset[int]]:
        each = self.per_node
        return frozenset(frozenset(order[begin : begin + each]) for begin in range(0, len(order), each))


def mirrored(transfers: Sequence[Transfer], add: bool) -> list[Transfer]:
    """Return the transfers in reverse order and direction: for a gather that copies, the reduction that adds (`add`);
    for a reduction, the gather.

    A gather brings each piece from its rank to every other rank exactly once, along a tree. In the reverse direction
    along that tree, every contribution reaches the rank of the piece exactly once.
    """
    return [Transfer(t.dst, t.src, t.to, t.chunk, t.count, add, t.channel) for t in reversed(transfers)]


def in_time(timed: Iterable[tuple[int, Transfer]]) -> tuple[Transfer, ...]:
    """Return the transfers sorted by their stage; the transfers of one stage stay in the order of `timed`."""
    return tuple(transfer for _, transfer in sorted(timed, key=lambda entry: entry[0]))


def cut(pairs: Sequence[tuple[int, int]], slices: int) -> list[list[tuple[int, int, int]]]:
    """Return the chunks to move, given as pairs (source chunk, target chunk), in up to `slices` even successive parts;
    each part is a list of runs of contiguous chunks (source chunk, target chunk, count)."""
    slices = min(slices, len(pairs))
    each, more = divmod(len(pairs), slices)
    out, begin = [], 0
    for part in range(slices):
        end = begin + each + (part < more)
        out.append(_runs(sorted(pairs[begin:end])))
        begin = end
    return out


def _runs(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    runs: list[tuple[int, int, int]] = []
    for chunk, to in pairs:
        if runs and (chunk, to) == (runs[-1][0] + runs[-1][2], runs[-1][1] + runs[-1][2]):
            runs[-1] = (*runs[-1][:2], runs[-1][2] + 1)
        else:
            runs.append((chunk, to, 1))
    return runs
