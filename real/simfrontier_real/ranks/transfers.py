"""One rank's part in a lowered collective of a given size: rounds of sends and of writes into the rank's work
buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from simfrontier.core.collectives import Lowered, Transfer
from simfrontier.core.program import PartialOp
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ops.codecs.per_hop import PerHopCoder
from simfrontier_real.ranks.transport import Pending, Wire, WireMessage

MESSAGE, RESULT, ROOM = range(3)  # areas of a work buffer: message, all-to-all's result, transit


class LineRange(NamedTuple):
    """Range of elements, from `low` to `high` (exclusive), in one area of a rank's work buffer."""

    area: int
    low: int
    high: int

    @property
    def size(self) -> int:
        return self.high - self.low


class LineWrite(NamedTuple):
    """A write, or an addition (`add`), to the range `place` of a rank's work buffer: of a message from `peer`, or
    (None) of the buffer's own range `source`."""

    peer: int | None
    source: LineRange | None
    place: LineRange
    add: bool


@dataclass(frozen=True, slots=True)
class Round:
    """One round: sends, as (peer, range of the work buffer), of the contents at the beginning of the round; and the
    writes at its end, in order."""

    sends: tuple[tuple[int, LineRange], ...]
    writes: tuple[LineWrite, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPart:
    """Rounds of one rank in a lowered collective. `sizes`: the numbers of elements of the work buffer's three areas."""

    num_members: int
    sizes: tuple[int, int, int]
    rounds: tuple[Round, ...]

    @property
    def writes_message(self) -> bool:
        """True if any round writes into the message area of the work buffer."""
        return any(write.place.area == MESSAGE for each in self.rounds for write in each.writes)


def part_of(lowered: Lowered, member: int, elements: int) -> MemberPart:
    """Return one rank's rounds for pieces (all-reduce: messages) of `elements` elements, without empty transfers.

    Transfers are grouped by dependencies: the round of a transfer is one more than the latest round of its
    dependencies. All ranks number rounds alike, so both ends of a transfer are in the same round, in the order of the
    list.
    """
    line = _Line(lowered, elements)
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
    rounds = (Round(tuple(sends.get(each, ())), tuple(writes.get(each, ()))) for each in sorted({*sends, *writes}))
    return MemberPart(num_members=lowered.size, sizes=line.sizes, rounds=tuple(rounds))


class _Line:
    """Positions of the chunks in a rank's work buffer."""

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
        """Return the range of `count` consecutive chunks of one area."""
        area = ROOM if chunk >= self._bounds[2] else RESULT if chunk >= self._bounds[1] else MESSAGE
        begin = self._begins[area]
        return LineRange(area, self._offsets[chunk] - begin, self._offsets[chunk + count] - begin)

    def write(self, transfer: Transfer) -> LineWrite:
        """Return the write that a transfer causes at its receiver."""
        source, target = self.place(transfer.chunk, transfer.count), self.place(transfer.to, transfer.count)
        is_local = transfer.src == transfer.dst
        return LineWrite(None if is_local else transfer.src, source if is_local else None, target, transfer.add)


@dataclass(frozen=True, slots=True)
class Carrier:
    """Executes one rank's rounds for one message. `areas` are the three areas of the work buffer as flat arrays;
    `blank` allocates a flat array of a given number of elements of the message's type; with `coding` each transferred
    message is encoded separately.

    Messages are copied when they are sent, and received into separate buffers, so that later writes do not change them.
    This cannot deadlock: a rank in the earliest round waits only for ranks in the same round, all of which have started
    it, and messages between two ranks are in the order of rounds on both.
    """

    areas: Sequence[Array]
    wire: Wire
    blank: Callable[[int], Array]
    reduction: PartialOp
    coding: PerHopCoder | None

    def rounds(self, part: MemberPart) -> Iterator[Pending]:
        """Execute the rounds one after the other; the caller waits for each yielded pending message before it requests
        the next."""
        return self._in_batches(part) if self.wire.in_batches else self._as_they_arrive(part)

    def _in_batches(self, part: MemberPart) -> Iterator[Pending]:
        """Execute each round as one batch of messages, which completes as a whole."""
        for each in part.rounds:
            rooms = self._rooms(each)
            yield from self.wire.exchange([*self._sends(each), *_receives(each, rooms)])
            for write, values in zip(each.writes, rooms, strict=True):
                self._combine(write, values)

    def _as_they_arrive(self, part: MemberPart) -> Iterator[Pending]:
        """Post all receives at once; a round ends when its messages have arrived, and sends are waited for after the
        last round."""
        rooms = [self._rooms(each) for each in part.rounds]
        receives = [move for each, own in zip(part.rounds, rooms, strict=True) for move in _receives(each, own)]
        arriving, sending = iter(self.wire.exchange(receives)), list[Pending]()
        for each, own in zip(part.rounds, rooms, strict=True):
            sending += self.wire.exchange(self._sends(each))
            for write, values in zip(each.writes, own, strict=True):
                if write.peer is not None:
                    yield next(arriving)
                self._combine(write, values)
        yield from sending

    def _rooms(self, of: Round) -> list[Array | None]:
        """Return a receive buffer for each write of a round; None for a copy within the work buffer."""
        room = self.blank if self.coding is None else self.coding.room
        return [None if write.peer is None else room(write.place.size) for write in of.writes]

    def _sends(self, of: Round) -> list[WireMessage]:
        return [WireMessage(peer, True, self._encoded(place)) for peer, place in of.sends]

    def _encoded(self, place: LineRange) -> Array:
        values = self._at(place)
        if self.coding is not None:
            return self.coding.sent(values)
        copied = self.blank(place.size)
        copied[...] = values
        return copied

    def _combine(self, write: LineWrite, arrived: Array) -> None:
        target = self._at(write.place)
        if write.source is not None:
            arrived = self._at(write.source)
        elif self.coding is not None:
            arrived = self.coding.arrived(arrived, write.place.size)
        if not write.add:
            target[...] = arrived
        elif self.reduction == "max":
            is_larger = arrived > target
            target[is_larger] = arrived[is_larger]
        else:
            target += arrived

    def _at(self, place: LineRange) -> Array:
        return self.areas[place.area][place.low : place.high]


def _receives(of: Round, rooms: Sequence[Array | None]) -> list[WireMessage]:
    return [
        WireMessage(write.peer, False, values)
        for write, values in zip(of.writes, rooms, strict=True)
        if write.peer is not None
    ]
