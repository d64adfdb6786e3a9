"""The lowered transport: every message of a collective carried by explicit sends, receives and adds, from a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from simfrontier.base.errors import InputError
from simfrontier.core.codecs import Codec
from simfrontier.core.collectives import LoweredSchedule, Recipe, load_lowered, lower
from simfrontier.core.program import Collective, CollectiveKind, Exchange, PartialOp, Schedule
from simfrontier_real.ops.arrays import Array, blank_like
from simfrontier_real.ops.per_hop import PerHopCoder
from simfrontier_real.ranks.carry import Carrier
from simfrontier_real.ranks.moves import MESSAGE, RESULT, MemberPart, part_of
from simfrontier_real.ranks.transport import (
    Channel,
    Pending,
    Transport,
    channel_of,
    channels_of,
    collectives_of,
    group_of,
    numbers_of,
)
from simfrontier_real.ranks.wire import Wire

SCHEDULE_PREFIX, LOWERED_PREFIX = "schedule-", "lowered-"


def lowered_path(schedule: Path) -> Path:
    """Return the path of the lowered collectives of a schedule: beside it, `lowered-` for `schedule-`."""
    return schedule.with_name(LOWERED_PREFIX + schedule.name.removeprefix(SCHEDULE_PREFIX))


def read_lowered(path: Path, digest: str) -> LoweredSchedule:
    """Read the lowered collectives that were exported with a schedule. Raises InputError where there are none, or they
    are of another schedule."""
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
    """Return the algorithms in use, sorted, for a trace's notes."""
    used = sorted({recipe.algorithm for recipes in lowered.recipes for recipe in recipes})
    return f"lowered, {', '.join(used)}" if used else "lowered"


@dataclass(frozen=True, slots=True)
class _Route:
    """How this rank's group carries one collective; this rank is member `member` of it."""

    channel: Channel
    wire: Wire
    kind: CollectiveKind
    recipe: Recipe
    member: int
    coding: Codec | None  # of every message by itself
    parts: dict[int, MemberPart]  # by elements of a piece; routes that carry alike share them


class LoweredTransport:
    """Collectives of one rank by explicit transfers. `wires` gives this rank's end of each channel; all ranks ask for
    the channels in the same order. Exchanges are messages between two ranks anyway: they go as `plain` sends them."""

    def __init__(
        self,
        schedule: Schedule,
        lowered: LoweredSchedule,
        rank: int,
        wires: Callable[[Channel], Wire],
        plain: Transport,
        in_rounds: bool = False,
    ) -> None:
        self._plain = plain
        self._in_rounds = in_rounds
        self._last: dict[Channel, LoweredPending] = {}
        ends = {channel: wires(channel) for channel in channels_of(schedule)}
        parts: dict[tuple[CollectiveKind, Recipe, int], dict[int, MemberPart]] = {}
        routes = []
        for op, recipes in zip(collectives_of(schedule), lowered.recipes, strict=True):
            channel, kind = channel_of(op, schedule.mesh), op.wire_kind
            group, members = group_of(schedule.mesh, channel.axes, rank)
            member, recipe = members.index(rank), recipes[group]
            known = parts.setdefault((kind, recipe, member), {})
            coding = op.codec if op.per_hop else None
            routes.append(_Route(channel, ends[channel], kind, recipe, member, coding, known))
        self._routes = {op: routes[number] for op, number in numbers_of(schedule).items()}

    def exchange(self, op: Exchange, message: Array | None, room: Array | None) -> Pending:
        return self._plain.exchange(op, message, room)

    def begin(self, op: Collective, message: Array, reduction: PartialOp = "sum") -> LoweredPending:
        """Start a message; it sets out when the one before it on its channel has arrived."""
        route = self._routes[op.number]
        elements = int(message.shape[-1])
        part = route.parts.get(elements)
        if part is None:
            part = part_of(lower(route.kind, route.recipe), route.member, elements, self._in_rounds)
            route.parts[elements] = part
        before = self._last.get(route.channel)
        pending = LoweredPending(
            route.wire, route.kind, route.member, part, message, reduction, self._in_rounds, before, route.coding
        )
        self._last[route.channel] = pending
        route.wire.watch(pending.advance)
        return pending


@dataclass(slots=True)
class LoweredPending:
    """One message of a collective that is carried by explicit transfers."""

    wire: Wire
    kind: CollectiveKind
    member: int
    part: MemberPart
    message: Array | None
    reduction: PartialOp
    in_rounds: bool
    before: LoweredPending | None
    coding: Codec | None = None
    areas: tuple[Array, ...] = ()
    carrier: Carrier | None = None
    is_over: bool = False

    def is_done(self) -> bool:
        self.wire.settle()
        return self.is_over

    def wait(self) -> Array:
        self.advance(blocking=True)
        assert self.is_over, f"{self.kind}: not all has arrived"
        return self._result()

    def advance(self, blocking: bool = False) -> bool:
        """Go on as far as may be; whether all is done."""
        if self.before is not None:
            if not self.before.advance(blocking):
                return False
            self.before = None
        if self.carrier is None and not self.is_over:
            self._start()
        if self.carrier is not None and self.carrier.advance(blocking):
            self.carrier, self.is_over = None, True
        return self.is_over

    def _start(self) -> None:
        message, sizes = self.message, self.part.sizes
        assert message is not None
        coding = None if self.coding is None else PerHopCoder.of(message, self.coding)
        blank = partial(blank_like, message)
        flat = message.reshape(-1)
        if self.kind == "all_gather":
            line, width = blank(sizes[MESSAGE]), int(flat.shape[0])
            line[self.member * width : (self.member + 1) * width] = flat
        elif self.kind == "all_reduce" or not self.part.writes_message:
            line = flat  # an all-reduce is in place: the message is ours to write
        else:
            line = blank(sizes[MESSAGE])
            line[...] = flat
        self.areas = (line, *(blank(size) for size in sizes[1:]))
        self.message = None
        self.carrier = Carrier(self.part, self.areas, self.wire, blank, self.reduction, coding, self.in_rounds)

    def _result(self) -> Array:
        """Return the result in the form of `Pending.wait`, and release everything else."""
        areas, members = self.areas, self.part.num_members
        self.areas = ()
        if self.kind == "all_reduce":
            return areas[MESSAGE]
        if self.kind == "reduce_scatter":
            width = self.part.sizes[MESSAGE] // members
            piece = blank_like(areas[MESSAGE], width)
            piece[...] = areas[MESSAGE][self.member * width : (self.member + 1) * width]
            return piece
        whole = areas[RESULT if self.kind == "all_to_all" else MESSAGE]
        return whole.reshape(members, whole.shape[0] // members)
