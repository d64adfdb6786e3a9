"""What one member does in a lowered collective of a given size: what it sends, and what it writes into its line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from simfrontier.core.collectives import Lowered, Transfer

MESSAGE, RESULT, ROOM = range(3)  # the areas of a line: the message, an all-to-all's result, room in transit


class LineRange(NamedTuple):
    """Elements `low` to `high` of one area of the member's line."""

    area: int
    low: int
    high: int

    @property
    def size(self) -> int:
        return self.high - self.low


class LineWrite(NamedTuple):
    """A write into the member's line at `place`, or an addition: of a message from `peer`, or (None) of what the line
    holds at `source`."""

    peer: int | None
    source: LineRange | None
    place: LineRange
    add: bool


@dataclass(frozen=True, slots=True)
class Stage:
    """Sends, (peer, place), of what the line holds when the stage begins, and the writes that end it, in order."""

    sends: tuple[tuple[int, LineRange], ...]
    writes: tuple[LineWrite, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPart:
    """One member's part in a lowered collective. `sizes`: elements of the three areas. `writes_message`: whether
    anything is written into the message's area."""

    num_members: int
    sizes: tuple[int, int, int]
    writes_message: bool
    stages: tuple[Stage, ...]


def part_of(lowered: Lowered, member: int, elements: int, in_rounds: bool = False) -> MemberPart:
    """A member's part for pieces (all-reduce: messages) of so many elements; empty transfers are left out.

    Each write is a stage of its own, or (`in_rounds`) stages are rounds, which are the same for all members.
    """
    line = _Line(lowered, elements)
    stages = (_rounds if in_rounds else _one_by_one)(lowered, line, member)
    return MemberPart(
        num_members=lowered.size,
        sizes=line.sizes,
        writes_message=any(write.place.area == MESSAGE for stage in stages for write in stage.writes),
        stages=stages,
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

    def write(self, transfer: Transfer) -> LineWrite:
        """What the receiver of a transfer does."""
        source, target = self.place(transfer.chunk, transfer.count), self.place(transfer.to, transfer.count)
        assert source.size == target.size, f"{transfer}: its ends differ in size"
        is_local = transfer.src == transfer.dst
        return LineWrite(None if is_local else transfer.src, source if is_local else None, target, transfer.add)


def _one_by_one(lowered: Lowered, line: _Line, member: int) -> tuple[Stage, ...]:
    """A stage for each of the member's writes, in list order. A send sets out when all writes are done that wrote what
    it reads, and never before an earlier send to the same peer, because messages carry no tags."""
    written = [0] * lowered.num_chunks  # the write, counted from 1, that last wrote a chunk
    earliest: dict[int, int] = {}  # by peer
    sends: dict[int, list[tuple[int, LineRange]]] = {}  # by the number of writes before them
    writes: list[LineWrite] = []
    for transfer in lowered.transfers:
        source = line.place(transfer.chunk, transfer.count)
        if not source.size:
            continue
        if transfer.dst == member:
            writes.append(line.write(transfer))
            written[transfer.to : transfer.to + transfer.count] = [len(writes)] * transfer.count
        elif transfer.src == member:
            read = written[transfer.chunk : transfer.chunk + transfer.count]
            earliest[transfer.dst] = max(earliest.get(transfer.dst, 0), *read)
            sends.setdefault(earliest[transfer.dst], []).append((transfer.dst, source))
    return tuple(
        Stage(tuple(sends.get(number, ())), tuple(writes[number : number + 1])) for number in range(len(writes) + 1)
    )


def _rounds(lowered: Lowered, line: _Line, member: int) -> tuple[Stage, ...]:
    """The list cut by what waits for what: a transfer's round is one more than the last of those it waits for. All
    members count alike, so both ends of a transfer are in the same round, in list order."""
    number: list[int] = []
    sends: dict[int, list[tuple[int, LineRange]]] = {}
    writes: dict[int, list[LineWrite]] = {}
    for transfer, after in zip(lowered.transfers, lowered.after, strict=True):
        own_round = 1 + max((number[other] for other in after), default=-1)
        number.append(own_round)
        source = line.place(transfer.chunk, transfer.count)
        if not source.size:
            continue
        if transfer.dst == member:
            writes.setdefault(own_round, []).append(line.write(transfer))
        elif transfer.src == member:
            sends.setdefault(own_round, []).append((transfer.dst, source))
    return tuple(Stage(tuple(sends.get(each, ())), tuple(writes.get(each, ()))) for each in sorted({*sends, *writes}))
