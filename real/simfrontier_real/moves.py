"""What one member does in a lowered collective of a given size: its sends and receives, and what each waits for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from simfrontier.collectives import Lowered, Transfer

MESSAGE, RESULT, ROOM = range(3)  # the areas of a line: the message, an all-to-all's result, room in transit


class LineRange(NamedTuple):
    """Elements `low` to `high` of one area of the member's line."""

    area: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Send:
    """A message that sets out when the member's first `after` turns are done."""

    peer: int
    place: LineRange
    after: int


@dataclass(frozen=True, slots=True)
class LineWrite:
    """What a member writes into its line: a message from `peer`, or (None) what it holds at `source` itself.

    Turns are taken in their order. What arrives takes its place once the first `after` turns are done and the member's
    own `sends` (by number) have left, because till then somebody needs what is there; what is over anyway when the
    message sets out is not among them. `wakes`: the peers to whom a send
    may set out when this turn is done.
    """

    peer: int | None
    source: LineRange | None
    place: LineRange
    add: bool
    after: int
    sends: tuple[int, ...]
    wakes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MoveRound:
    """Moves of which none waits for another: (peer, place) to send, and turns to take when all has arrived."""

    sends: tuple[tuple[int, LineRange], ...]
    turns: tuple[LineWrite, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPart:
    """One member's part in a lowered collective.

    `sizes`: elements of the three areas. `writes_message`: whether anything is written into the message's area.
    """

    num_members: int
    sizes: tuple[int, int, int]
    writes_message: bool
    sends: tuple[Send, ...]
    turns: tuple[LineWrite, ...]
    rounds: tuple[MoveRound, ...]


def part_of(lowered: Lowered, member: int, elements: int, in_rounds: bool = False) -> MemberPart:
    """A member's part for pieces (all-reduce: messages) of so many elements; empty transfers are left out.

    `in_rounds`: also cut into rounds, which are the same for all members.
    """
    line = _Line(lowered, elements)
    sends, turns = _walked(lowered, line, member)
    return MemberPart(
        num_members=lowered.size,
        sizes=line.sizes,
        writes_message=any(turn.place.area == MESSAGE for turn in turns),
        sends=sends,
        turns=turns,
        rounds=_rounds(lowered, line, member) if in_rounds else (),
    )


class _Line:
    """Where the chunks of a member's line lie."""

    def __init__(self, lowered: Lowered, elements: int) -> None:
        self._offsets = offsets = lowered.offsets(elements)
        message, result = lowered.num_message_chunks, lowered.result_chunk
        self._bounds = (0, message, result + message)  # the first chunk of each area
        self._begins = tuple(offsets[bound] for bound in self._bounds)
        self.sizes = (
            self._begins[1],
            self._begins[2] - self._begins[1],
            offsets[-1] - self._begins[2],
        )

    def place(self, chunk: int, count: int) -> LineRange:
        """Where `count` chunks lie; they are in one area."""
        area = ROOM if chunk >= self._bounds[2] else RESULT if chunk >= self._bounds[1] else MESSAGE
        low, high = self._offsets[chunk] - self._begins[area], self._offsets[chunk + count] - self._begins[area]
        assert high <= self.sizes[area], f"chunks {chunk} to {chunk + count} lie in two areas"
        return LineRange(area, low, high)

    def ends(self, transfer: Transfer) -> tuple[LineRange, LineRange] | None:
        """Where a transfer comes from and goes to; None where it is empty."""
        source, target = self.place(transfer.chunk, transfer.count), self.place(transfer.to, transfer.count)
        assert source.high - source.low == target.high - target.low, f"{transfer}: its ends differ in size"
        return (source, target) if source.high > source.low else None


@dataclass(slots=True)
class _Chunk:
    """What the member has done with one chunk of its line since it was last written; turns count from 1."""

    written: int = 0  # the turn that wrote it
    copied: int = 0  # the last turn that read it for a copy within the line
    sent: list[int] = field(default_factory=list)  # sends that read it


def _walked(lowered: Lowered, line: _Line, member: int) -> tuple[tuple[Send, ...], tuple[LineWrite, ...]]:
    """The member's transfers in list order, with what they wait for on its own line.

    A send waits for the turns that wrote what it reads. A turn waits for turns that wrote or read, and for sends that
    read, what it writes, unless what it brings cannot have set out before those were over: `known` has, for every chunk
    of every member, a bit for each of this member's turns (even) and sends (odd) that must be over when the chunk holds
    what it does. An all-reduce's sum cannot come back before this member's share has left, say. Turns are taken in
    order, so that the last of them stands for all.
    """
    chunks = [_Chunk() for _ in range(lowered.num_chunks)]
    known = [[0] * lowered.num_chunks for _ in range(lowered.size)]
    sends: list[Send] = []
    turns: list[LineWrite] = []
    for transfer in lowered.transfers:
        ends = line.ends(transfer)
        if ends is None:
            continue
        from_here = range(transfer.chunk, transfer.chunk + transfer.count)
        to_here = range(transfer.to, transfer.to + transfer.count)
        over = 0
        for chunk in from_here:
            over |= known[transfer.src][chunk]
        if transfer.dst == member:
            turns.append(_turn(transfer, ends, [chunks[chunk] for chunk in to_here], over))
            for chunk in from_here if transfer.src == member else ():
                chunks[chunk].copied = len(turns)
            for chunk in to_here:
                chunks[chunk] = _Chunk(len(turns))
            over |= 1 << 2 * len(turns)
        elif transfer.src == member:
            sends.append(Send(transfer.dst, ends[0], max(chunks[chunk].written for chunk in from_here)))
            for chunk in from_here:
                chunks[chunk].sent.append(len(sends) - 1)
            over |= 1 << 2 * len(sends) - 1
        for chunk in to_here:
            known[transfer.dst][chunk] = over | known[transfer.dst][chunk] if transfer.add else over
    return tuple(sends), _waking(sends, turns)


def _turn(transfer: Transfer, ends: tuple[LineRange, LineRange], there: list[_Chunk], over: int) -> LineWrite:
    own = transfer.src == transfer.dst
    before = {turn for chunk in there for turn in (chunk.written, chunk.copied)}
    left = {number for chunk in there for number in chunk.sent}
    return LineWrite(
        peer=None if own else transfer.src,
        source=ends[0] if own else None,
        place=ends[1],
        add=transfer.add,
        after=max((turn for turn in before if not over >> 2 * turn & 1), default=0),
        sends=tuple(sorted(number for number in left if not over >> 2 * number + 1 & 1)),
        wakes=(),
    )


def _waking(sends: list[Send], turns: list[LineWrite]) -> tuple[LineWrite, ...]:
    peers: list[set[int]] = [set() for _ in turns]
    for send in sends:
        if send.after:
            peers[send.after - 1].add(send.peer)
    return tuple(replace(turn, wakes=tuple(sorted(woken))) for turn, woken in zip(turns, peers, strict=True))


def _rounds(lowered: Lowered, line: _Line, member: int) -> tuple[MoveRound, ...]:
    """The list cut by what waits for what: a transfer's round is one more than the last of those it waits for. All
    members count alike, so both ends of a transfer are in the same round, in list order."""
    number: list[int] = []
    sends: dict[int, list[tuple[int, LineRange]]] = {}
    turns: dict[int, list[LineWrite]] = {}
    for transfer, after in zip(lowered.transfers, lowered.after, strict=True):
        own_round = 1 + max((number[other] for other in after), default=-1)
        number.append(own_round)
        if member not in (transfer.src, transfer.dst):
            continue
        ends = line.ends(transfer)
        if ends is None:
            continue
        source, target = ends
        if transfer.dst != member:
            sends.setdefault(own_round, []).append((transfer.dst, source))
        elif transfer.src == member:
            turns.setdefault(own_round, []).append(LineWrite(None, source, target, transfer.add, 0, (), ()))
        else:
            turns.setdefault(own_round, []).append(LineWrite(transfer.src, None, target, transfer.add, 0, (), ()))
    return tuple(MoveRound(tuple(sends.get(each, ())), tuple(turns.get(each, ()))) for each in sorted({*sends, *turns}))
