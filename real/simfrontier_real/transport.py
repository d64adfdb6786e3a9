"""The seam to the outside world: a collective of one message; loopback, torch or explicit transfers are behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from simfrontier.schedule.ir import Collective, CollectiveKind, Schedule
from simfrontier.schedule.mesh import Mesh
from simfrontier_real.arrays import Array


@dataclass(frozen=True, slots=True, order=True)
class Channel:
    """One communicator of one lane: the groups over `axes`, members in the order of the axes, the first slowest.

    Lanes have communicators of their own even where the schedule lets them share one, because messages carry no tags.
    """

    comm: str
    lane: str
    axes: tuple[str, ...]


class Pending(Protocol):
    """A collective under way."""

    def is_done(self) -> bool:
        """Whether `wait` would return at once (False where that cannot be told without waiting)."""

    def wait(self) -> Array:
        """The result: all-gather [members, n] from [n]; reduce-scatter [n] from [members, n]; all-reduce [n] from [n];
        all-to-all [members, n] from [members, n], the row of each member."""


class Transport(Protocol):
    """Collectives of one rank. Calls on a channel are made in the same order by all its members."""

    def begin(self, op: Collective, message: Array) -> Pending:
        """Start a collective's call for one message; never blocks for other ranks."""


def collectives_of(schedule: Schedule) -> list[Collective]:
    """Every distinct collective of a schedule, in order of appearance; equal ones are one, as in its file."""
    return list(dict.fromkeys(_each_once(schedule)))


def numbers_of(schedule: Schedule) -> dict[int, int]:
    """Which of the distinct collectives an op is, by its id."""
    number = {op: number for number, op in enumerate(collectives_of(schedule))}
    return {id(op): number[op] for op in _each_once(schedule)}


def _each_once(schedule: Schedule) -> list[Collective]:
    seen: dict[int, Collective] = {}
    for role in schedule.roles:
        for _, op in role.instances():
            if isinstance(op, Collective):
                seen.setdefault(id(op), op)
    return list(seen.values())


def channel_of(op: Collective, mesh: Mesh) -> Channel:
    """The channel that a collective of a schedule uses."""
    return Channel(op.comm, op.lane, mesh.live(op.axes))


def wire_kind(op: Collective) -> CollectiveKind:
    """What is called: a quantised reduction moves by all-to-all and is summed where it arrives."""
    return "all_to_all" if op.kind == "reduce_scatter" and op.codec.is_quantised else op.kind


def channels_of(schedule: Schedule) -> list[Channel]:
    """The channels that a schedule's collectives use, sorted."""
    return sorted({channel_of(op, schedule.mesh) for op in collectives_of(schedule)})
