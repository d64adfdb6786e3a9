"""Carrying one message of a collective by explicit transfers: stage after stage of sends and writes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from simfrontier.core.program import PartialOp
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ops.per_hop import PerHopCoder
from simfrontier_real.ranks.moves import LineRange, LineWrite, MemberPart, Stage
from simfrontier_real.ranks.wire import PendingMessage, Wire, WireMessage

Areas = Sequence[Array]  # the message, the result, the room, as flat arrays
Blank = Callable[[int], Array]  # a flat array of so many elements, of the message's type


class Carrier:
    """A message in transit.

    Every message is copied when it sets out and received into room of its own, so that what is written meanwhile does
    not disturb it; with `coding` it is coded by itself. All receives are posted at once, or (`in_rounds`) the sends and
    receives of a stage are started as one batch and waited for as a whole: point-to-point calls of devices may only be
    in flight together where they were started together.

    No deadlock: of all transfers that have not arrived yet look at the first in list order. All before it have arrived,
    so its sender, whose writes are in list order, has started it, and its receiver awaits it. Messages between the same
    two members set out and are received in list order, which is the same on both.
    """

    def __init__(
        self,
        part: MemberPart,
        areas: Areas,
        wire: Wire,
        blank: Blank,
        reduction: PartialOp,
        coding: PerHopCoder | None,
        in_rounds: bool,
    ) -> None:
        self._areas, self._wire, self._blank = areas, wire, blank
        self._reduction, self._coding, self._in_rounds = reduction, coding, in_rounds
        self._stages, self._started = deque(part.stages), False
        self._writes: deque[LineWrite] = deque()  # of the stage that has started, those that are left
        self._sending: deque[tuple[PendingMessage, Array]] = deque()
        self._arriving: deque[tuple[PendingMessage, Array]] = deque()
        if not in_rounds:
            for message in self._receives(write for stage in part.stages for write in stage.writes):
                self._arriving.append((wire.receive(message.peer, message.values), message.values))

    def advance(self, blocking: bool) -> bool:
        """Go on as far as may be, or (`blocking`) to the end; whether all is done."""
        while self._stages:
            if not self._started:
                self._start(self._stages[0])
            while self._writes:
                if not self._write(self._writes[0], blocking):
                    return False
                self._writes.popleft()
            if self._in_rounds and not self._are_sent(blocking):
                return False
            self._stages.popleft()
            self._started = False
        return self._are_sent(blocking)

    def _start(self, stage: Stage) -> None:
        moves = [WireMessage(peer, True, self._encoded(place)) for peer, place in stage.sends]
        num_sends = len(moves)
        if self._in_rounds:
            moves += self._receives(stage.writes)
            pendings = self._wire.exchange(moves) if moves else []
        else:
            pendings = [self._wire.send(move.peer, move.values) for move in moves]
        started = [(pending, move.values) for pending, move in zip(pendings, moves, strict=True)]
        self._sending += started[:num_sends]
        self._arriving += started[num_sends:]
        self._writes += stage.writes
        self._started = True

    def _receives(self, writes: Iterable[LineWrite]) -> list[WireMessage]:
        room = self._blank if self._coding is None else self._coding.room
        return [WireMessage(each.peer, False, room(each.place.size)) for each in writes if each.peer is not None]

    def _write(self, write: LineWrite, blocking: bool) -> bool:
        """Write into the line, if that needs no waiting or there may be waiting."""
        if write.source is not None:
            self._combine(write, self._at(write.source))
            return True
        pending, room = self._arriving[0]
        if not blocking and not pending.is_done():
            return False
        pending.wait()
        self._arriving.popleft()
        self._combine(write, room if self._coding is None else self._coding.arrived(room, write.place.size))
        return True

    def _are_sent(self, blocking: bool) -> bool:
        while self._sending:
            if not blocking and not self._sending[0][0].is_done():
                return False
            self._sending.popleft()[0].wait()
        return True

    def _at(self, place: LineRange) -> Array:
        return self._areas[place.area][place.low : place.high]

    def _encoded(self, place: LineRange) -> Array:
        values = self._at(place)
        if self._coding is not None:
            return self._coding.sent(values)
        copied = self._blank(place.size)
        copied[...] = values
        return copied

    def _combine(self, write: LineWrite, arrived: Array) -> None:
        target = self._at(write.place)
        if not write.add:
            target[...] = arrived
        elif self._reduction == "max":
            is_larger = arrived > target
            target[is_larger] = arrived[is_larger]
        else:
            target += arrived
