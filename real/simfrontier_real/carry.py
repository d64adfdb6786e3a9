"""Carrying one message of a collective by explicit transfers: start what may start, wait for the lowest, combine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from simfrontier.schedule import PartialOp
from simfrontier_real.arrays import Array
from simfrontier_real.moves import LineRange, LineWrite, MemberPart
from simfrontier_real.per_hop import PerHopCoder
from simfrontier_real.wire import PendingMessage, Wire, WireMessage

Areas = Sequence[Array]  # the message, the result, the room, as flat arrays
Blank = Callable[[int], Array]  # a flat array of so many elements, of the message's type


class Carrier(Protocol):
    """A message in transit."""

    def advance(self, blocking: bool) -> bool:
        """Go on as far as may be, or (`blocking`) to the end; whether all is done."""


class _Carrying:
    """The common part of both carriers; with `coding`, every message is coded by itself."""

    def __init__(
        self,
        part: MemberPart,
        areas: Areas,
        wire: Wire,
        blank: Blank,
        reduction: PartialOp = "sum",
        coding: PerHopCoder | None = None,
    ) -> None:
        self._coding = coding
        self._part, self._areas, self._wire, self._blank, self._reduction = part, areas, wire, blank, reduction

    def _at(self, place: LineRange) -> Array:
        return self._areas[place.area][place.low : place.high]

    def _encoded(self, values: Array) -> Array:
        return values if self._coding is None else self._coding.sent(values)

    def _decoded(self, arrived: Array, place: LineRange) -> Array:
        return arrived if self._coding is None else self._coding.arrived(arrived, place.high - place.low)

    def _room(self, size: int) -> Array:
        """For what arrives of so many elements before it takes its place."""
        return self._blank(size) if self._coding is None else self._coding.room(size)


class Stepwise(_Carrying):
    """A member's moves one by one.

    No deadlock: of all transfers that have not arrived yet look at the first in list order. All before it have arrived,
    so its sender has started it, and its receiver, which takes turns in list order, awaits it: a turn that comes up is
    always received, whatever room there is. Whoever waits for a send of its own before overwriting what it sends has
    taken all turns before it, so that this send is at most that first one, or has left.

    What is added, and what may not take its place yet, is received into room of its own, at most as much as the message
    is large; one more where a turn comes up. Messages between the same two members set out and are received in list
    order, which is the same on both. What is coded per hop is received coded, so never in place.
    """

    def __init__(self, part: MemberPart, *given: Any) -> None:
        super().__init__(part, *given)
        self._done = 0  # turns
        self._posted = 0  # turns that are being received, or need not be
        self._left = part.sizes[0]  # elements that may still be received ahead
        self._incoming: list[tuple[PendingMessage, Array, bool] | None] = [None] * len(part.turns)
        self._sending: dict[int, PendingMessage] = {}  # by number, until they are waited for
        self._sent: dict[int, Array] = {}  # what they are of
        self._gone = [False] * len(part.sends)
        self._waiting: dict[int, list[int]] = {}  # sends that have not set out, by peer, the next one last
        for number in range(len(part.sends) - 1, -1, -1):
            self._waiting.setdefault(part.sends[number].peer, []).append(number)
        self._post()
        for peer in self._waiting:
            self._send(peer)

    def advance(self, blocking: bool) -> bool:
        turns = self._part.turns
        while self._done < len(turns):
            turn = turns[self._done]
            if not self._take(turn, blocking):
                return False
            self._done += 1
            for peer in turn.wakes:
                self._send(peer)
            self._post()
        while self._sending:
            number = next(iter(self._sending))
            if not blocking and not self._sending[number].is_done():
                return False
            self._await(number)
        return True

    def _take(self, turn: LineWrite, blocking: bool) -> bool:
        """Take the turn that has come up, if that needs no waiting or there may be waiting."""
        here = self._done
        if self._posted <= here:
            self._receive(here, forced=True)
        incoming = self._incoming[here]
        if not blocking:
            due = [self._sending[number] for number in turn.sends if not self._gone[number]]
            if not all(moving.is_done() for moving in due) or (incoming is not None and not incoming[0].is_done()):
                return False
        if incoming is not None:
            incoming[0].wait()
        for number in turn.sends:
            if not self._gone[number]:
                self._await(number)
        if incoming is None:
            assert turn.source is not None
            _combine(self._at(turn.place), self._at(turn.source), turn.add, self._reduction)
        elif incoming[2]:
            arrived = self._decoded(incoming[1], turn.place)
            _combine(self._at(turn.place), arrived, turn.add, self._reduction)
            self._left += turn.place.high - turn.place.low
        self._incoming[here] = None
        return True

    def _post(self) -> None:
        """Receive ahead, in list order, as long as there is room."""
        while self._posted < len(self._part.turns) and self._receive(self._posted, forced=False):
            pass

    def _receive(self, index: int, forced: bool) -> bool:
        turn = self._part.turns[index]
        if turn.peer is not None:
            is_free = turn.after <= self._done and all(self._gone[number] for number in turn.sends)
            size = turn.place.high - turn.place.low
            if not turn.add and is_free and self._coding is None:
                target, is_staged = self._at(turn.place), False
            elif forced or size <= self._left:
                target, is_staged = self._room(size), True
                self._left -= size
            else:
                return False
            self._incoming[index] = (self._wire.receive(turn.peer, target), target, is_staged)
        self._posted = index + 1
        return True

    def _send(self, peer: int) -> None:
        """Send to a peer what may set out, in list order."""
        waiting, sends = self._waiting[peer], self._part.sends
        while waiting and sends[waiting[-1]].after <= self._done:
            number = waiting.pop()
            self._sent[number] = self._encoded(self._at(sends[number].place))
            self._sending[number] = self._wire.send(peer, self._sent[number])

    def _await(self, number: int) -> None:
        self._sending.pop(number).wait()
        del self._sent[number]
        self._gone[number] = True


class InRounds(_Carrying):
    """A member's moves in rounds, each started as one batch and waited for as a whole. For devices, whose
    point-to-point calls may only be in flight together where they were started together."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._round = 0
        self._moving: list[PendingMessage] | None = None
        self._arriving: list[Array | None] = []

    def advance(self, blocking: bool) -> bool:
        while self._round < len(self._part.rounds):
            if self._moving is None:
                self._moving = self._start()
            if not blocking and not all(moving.is_done() for moving in self._moving):
                return False
            for moving in self._moving:
                moving.wait()
            for turn, arrived in zip(self._part.rounds[self._round].turns, self._arriving, strict=True):
                if turn.source is not None:
                    arrived = self._at(turn.source)
                elif arrived is not None:
                    arrived = self._decoded(arrived, turn.place)
                if arrived is not None:
                    _combine(self._at(turn.place), arrived, turn.add, self._reduction)
            self._moving = None
            self._round += 1
        return True

    def _start(self) -> list[PendingMessage]:
        current = self._part.rounds[self._round]
        moves = [WireMessage(peer, True, self._encoded(self._at(place))) for peer, place in current.sends]
        self._arriving = []
        for turn in current.turns:
            size, staged = turn.place.high - turn.place.low, None
            if turn.peer is not None and (turn.add or self._coding is not None):
                staged = self._room(size)
            self._arriving.append(staged)
            if turn.peer is not None:
                moves.append(WireMessage(turn.peer, False, self._at(turn.place) if staged is None else staged))
        return self._wire.exchange(moves) if moves else []


def _combine(target: Array, arrived: Array, add: bool, reduction: PartialOp) -> None:
    """Put what has arrived in its place, or combine it with what is there."""
    if not add:
        target[...] = arrived
    elif reduction == "max":
        is_larger = arrived > target
        target[is_larger] = arrived[is_larger]
    else:
        target += arrived
