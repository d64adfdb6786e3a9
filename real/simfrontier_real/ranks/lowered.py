"""Lowered transport: each message of a collective is sent as explicit sends, receives and additions, read from a
file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from simfrontier.base.errors import InputError
from simfrontier.core.codecs import Codec
from simfrontier.core.collectives import LoweredSchedule, Recipe, load_lowered, lower
from simfrontier.core.program import Collective, CollectiveKind, Exchange, PartialOp, Schedule
from simfrontier_real.ops.arrays import Array, blank_like
from simfrontier_real.ops.codecs.per_hop import PerHopCoder
from simfrontier_real.ranks.transfers import MESSAGE, RESULT, Carrier, MemberPart, part_of
from simfrontier_real.ranks.transport import (
    Channel,
    Pending,
    Transport,
    Wire,
    channel_of,
    channels_of,
    collectives_of,
    group_of,
    numbers_of,
)

SCHEDULE_PREFIX, LOWERED_PREFIX = "schedule-", "lowered-"


def lowered_path(schedule: Path) -> Path:
    """Return the path of the lowered collectives of a schedule: same folder, with `lowered-` instead of `schedule-` in
    the name."""
    return schedule.with_name(LOWERED_PREFIX + schedule.name.removeprefix(SCHEDULE_PREFIX))


def read_lowered(path: Path, digest: str) -> LoweredSchedule:
    """Read the lowered collectives that were exported with a schedule. Raises InputError if there are none, or if they
    belong to another schedule."""
    where = lowered_path(path)
    if not where.exists():
        raise InputError(
            f"is not there, and --collectives lowered needs it beside {path.name}; allowed: the file that is "
            "exported with the schedule, or --collectives native",
            where=str(where),
        )
    lowered = load_lowered(where)
    if lowered.digest != digest:
        raise InputError(
            f"is of another schedule than {path.name}: {lowered.digest[:16]}… and {digest[:16]}…; "
            "allowed: files that were exported together",
            where=str(where),
        )
    return lowered


def described(lowered: LoweredSchedule) -> str:
    """Return the names of the collective algorithms in use, sorted, for the notes of a trace."""
    used = sorted({recipe.algorithm for recipes in lowered.recipes for recipe in recipes})
    return f"lowered, {', '.join(used)}" if used else "lowered"


def refuse_per_hop(schedule: Schedule, where: str, lowered: bool) -> None:
    """Raise InputError if a schedule requires per-hop coding that the transport does not support: the collectives of a
    library cannot code per hop, and messages of unknown length cannot be received."""
    for op in collectives_of(schedule):
        if op.turns and lowered:
            raise InputError(
                f"{op.kind} {op.name} is a step around a ring, a message by itself; allowed: --collectives native",
                where=where,
            )
        if op.per_hop and not lowered:
            raise InputError(
                f"{op.kind} {op.name} is coded per hop ({op.codec}), which the library's collectives cannot "
                "do; allowed: --collectives lowered, or a plan that codes once",
                where=where,
            )
        if op.per_hop and op.codec.is_measured:
            raise InputError(
                f"{op.kind} {op.name} is coded per hop in {op.codec}, of no fixed length; allowed: zfp, int8 "
                "or int4 per hop, or a plan that codes once (mpc loses nothing either way)",
                where=where,
            )


@dataclass(frozen=True, slots=True)
class Route:
    """Route of one collective through this rank's group, in which this rank has the number `member`."""

    channel: Channel
    wire: Wire
    kind: CollectiveKind
    recipe: Recipe
    member: int
    coding: Codec | None = None  # codec of each single transfer
    parts: dict[int, MemberPart] = field(default_factory=dict)  # by elements of a piece

    def part(self, elements: int) -> MemberPart:
        """Return this rank's rounds for pieces of `elements` elements."""
        if elements not in self.parts:
            self.parts[elements] = part_of(lower(self.kind, self.recipe), self.member, elements)
        return self.parts[elements]


class LoweredTransport:
    """Transport that carries out one rank's collectives with explicit transfers. `wires` returns this rank's wire of
    each channel; all ranks request the channels in the same order. Exchanges are point-to-point messages anyway and use
    the transport `plain`."""

    def __init__(
        self,
        schedule: Schedule,
        lowered: LoweredSchedule,
        rank: int,
        wires: Callable[[Channel], Wire],
        plain: Transport,
    ) -> None:
        self._plain = plain
        self._last: dict[Channel, LoweredPending] = {}
        ends = {channel: wires(channel) for channel in channels_of(schedule) if not channel.ends}
        # routes with the same transfers share their rounds
        parts: dict[tuple[CollectiveKind, Recipe, int], dict[int, MemberPart]] = {}
        routes = []
        for op, recipes in zip(collectives_of(schedule), lowered.recipes, strict=True):
            channel, kind = channel_of(op, schedule.mesh), op.wire_kind
            group, members = group_of(schedule.mesh, channel.axes, rank)
            member, recipe = members.index(rank), recipes[group]
            known = parts.setdefault((kind, recipe, member), {})
            coding = op.codec if op.per_hop else None
            routes.append(Route(channel, ends[channel], kind, recipe, member, coding, known))
        self._routes = {op: routes[number] for op, number in numbers_of(schedule).items()}

    def exchange(self, op: Exchange, message: Array | None, room: Array | None) -> Pending:
        return self._plain.exchange(op, message, room)

    def begin(self, op: Collective, message: Array, reduction: PartialOp = "sum") -> LoweredPending:
        """Start one message of a collective; it is sent when the preceding message on its channel has completed."""
        route = self._routes[op.number]
        pending = LoweredPending(
            route, route.part(int(message.shape[-1])), message, reduction, self._last.get(route.channel)
        )
        self._last[route.channel] = pending
        pending.is_done()
        return pending


@dataclass(slots=True)
class LoweredPending:
    """Pending message of a collective that is carried out with explicit transfers."""

    route: Route
    part: MemberPart
    message: Array | None
    reduction: PartialOp
    before: LoweredPending | None = None
    areas: tuple[Array, ...] = ()
    rounds: Iterator[Pending] | None = None
    batch: Pending | None = None  # of the round that has started
    is_over: bool = False

    def is_done(self) -> bool:
        return self._advance(blocking=False)

    def wait(self) -> Array:
        self._advance(blocking=True)
        return self._result()

    def _advance(self, blocking: bool) -> bool:
        """Advance as far as possible without blocking, or with `blocking` to the end; return whether the message is
        done."""
        if self.before is not None:
            if not self.before._advance(blocking):
                return False
            self.before = None
        while not self.is_over:
            if self.rounds is None:
                self.rounds = self._started()
                self.batch = next(self.rounds, None)
            elif self.batch is None:
                self.is_over, self.rounds = True, None
            elif blocking or self.batch.is_done():
                self.batch.wait()
                self.batch = next(self.rounds, None)
            else:
                return False
        return True

    def _started(self) -> Iterator[Pending]:
        message, sizes, route = self.message, self.part.sizes, self.route
        assert message is not None
        coding = None if route.coding is None else PerHopCoder.of(message, route.coding)
        blank = partial(blank_like, message)
        flat = message.reshape(-1)
        if route.kind == "all_gather":
            line, width = blank(sizes[MESSAGE]), int(flat.shape[0])
            line[route.member * width : (route.member + 1) * width] = flat
        elif route.kind == "all_reduce" or not self.part.writes_message:
            line = flat  # an all-reduce is in place: the message is ours to write
        else:
            line = blank(sizes[MESSAGE])
            line[...] = flat
        self.areas = (line, *(blank(size) for size in sizes[1:]))
        self.message = None
        return Carrier(self.areas, route.wire, blank, self.reduction, coding).rounds(self.part)

    def _result(self) -> Array:
        """Return the result in the shape that `Pending.wait` documents, and release all other memory."""
        areas, members, kind = self.areas, self.part.num_members, self.route.kind
        self.areas = ()
        if kind == "all_reduce":
            return areas[MESSAGE]
        if kind == "reduce_scatter":
            width = self.part.sizes[MESSAGE] // members
            piece = blank_like(areas[MESSAGE], width)
            piece[...] = areas[MESSAGE][self.route.member * width : (self.route.member + 1) * width]
            return piece
        whole = areas[RESULT if kind == "all_to_all" else MESSAGE]
        return whole.reshape(members, whole.shape[0] // members)
