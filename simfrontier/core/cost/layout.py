"""Layout of a schedule on a machine: the assignment of roles to ranks, the folded fabric, the patterns that load it,
and the flows of the ops."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Floats, Ints
from simfrontier.base.errors import InputError
from simfrontier.core.collectives import (
    CallTable,
    GroupShape,
    Library,
    algorithm as algorithm_of,
    call_of,
    exchanged_bytes,
)
from simfrontier.core.cost.alone import group_shape, pattern_key
from simfrontier.core.cost.call import LOCAL, Call, Flow, OpWork
from simfrontier.core.cost.folded_pattern import FoldedPattern
from simfrontier.core.machine import Machine
from simfrontier.core.network import Fabric, Folding, LoadColumn, Pattern
from simfrontier.core.program import DIRECT, Collective, Exchange, Op, Schedule, members_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoleAssignment:
    """Assignment of roles to ranks: `axis` is the mesh axis each of whose coordinates runs one role (None: all ranks
    run the same role); `of_rank` is the role of each rank [num_ranks]."""

    axis: str | None
    of_rank: NDArray[np.int32]

    @property
    def is_one(self) -> bool:
        """True if all ranks run the same role."""
        return self.axis is None

    def is_shared(self, op: Op) -> bool:
        """Return whether ranks of several roles take part in the same call of the op."""
        if self.axis is None:
            return False
        return isinstance(op, Exchange) or (isinstance(op, Collective) and self.axis in op.axes)


def role_assignment_of(schedule: Schedule) -> RoleAssignment:
    """Return the assignment of the schedule's roles to ranks. Raises InputError if there are several roles and they do
    not cover each coordinate of one mesh axis exactly once."""
    mesh, roles = schedule.mesh, schedule.roles
    if len(roles) == 1:
        return RoleAssignment(axis=None, of_rank=np.zeros(mesh.num_ranks, np.int32))
    places = [role.at for role in roles]
    axes = {place[0] for place in places if place is not None}
    coordinates = tuple(place[1] for place in places if place is not None)
    if len(axes) != 1 or sorted(coordinates) != list(range(mesh[next(iter(axes))])):
        text = ", ".join(f"{r.name} {'nowhere' if r.at is None else '{} {}'.format(*r.at)}" for r in roles)
        raise InputError(f"schedule: roles: got {text}; allowed: one role for each coordinate of one axis of the mesh")
    axis = next(iter(axes))
    role_at = np.argsort(coordinates).astype(np.int32)
    inner = math.prod(size for _, size in mesh.axes[mesh.names.index(axis) + 1 :])
    return RoleAssignment(axis=axis, of_rank=role_at[np.arange(mesh.num_ranks) // inner % mesh[axis]])


def pairs_of(op: Exchange, schedule: Schedule) -> Ints:
    """Return the pairs of ranks between which an exchange takes place; the ranks of a pair differ only in their
    coordinate on the exchange's axis [num_pairs, 2]."""
    return schedule.mesh.groups((op.axis,))[:, list(op.ends)]


def exchange_key(op: Exchange, there: int, back: int) -> str:
    """Return the key of the load pattern of an exchange; `there` and `back`: bytes of the messages in the two
    directions."""
    common = math.gcd(there, back) or 1
    return f"{op.axis} {op.ends[0]}>{op.ends[1]}/{there // common}:{back // common}"


def users_of(schedule: Schedule) -> dict[int, frozenset[int]]:
    """Return for each op, by its number, the roles that take part in it."""
    out: dict[int, frozenset[int]] = {}
    for number, role in enumerate(schedule.roles):
        for block in {call.block: call.ops for call in role.calls}.values():
            for op in block:
                out[op.number] = out.get(op.number, frozenset()) | frozenset(members_of(op, schedule) or (number,))
    return out


@dataclass
class Layout:
    """A schedule laid out on a machine: the fabric, the patterns that load it, their folding, and the flows of the ops.

    `algorithms` and `small` are indexed by op number. `counted` holds the load pattern of every op with messages,
    including small messages, for byte counts; `carried` the axes and the algorithm of each pattern of collectives;
    `patterns` the patterns that load links, and for small collectives the patterns in which ranks only wait for their
    group. `nominal` is the capacity of every link class without perturbation, to which calibrated times are assumed to
    apply. `role_assignment`: the role of each rank; `role_of`: the role of each rank class; `users`: the roles that
    contain an op, by op number (empty if there is only one role). The remaining fields are caches, filled on demand; a
    pricing derived from another starts with empty caches.
    """

    schedule: Schedule
    machine: Machine
    library: Library
    fabric: Fabric
    algorithms: dict[int, str]
    patterns: dict[str, Pattern]
    counted: dict[str, Pattern]
    carried: Mapping[str, tuple[tuple[str, ...], str]]
    small: frozenset[int]
    folding: Folding
    nominal: Floats
    role_assignment: RoleAssignment
    role_of: NDArray[np.int32]
    users: Mapping[int, frozenset[int]] = field(default_factory=dict)
    flows: list[Flow] = field(default_factory=list, init=False)
    _interned: dict[tuple[object, ...], int] = field(default_factory=dict, init=False)
    _sent: dict[tuple[str, tuple[bool, ...]], Floats] = field(default_factory=dict, init=False)
    _folded: dict[str, FoldedPattern] = field(default_factory=dict, init=False)
    _by_itself: dict[str, FoldedPattern] = field(default_factory=dict, init=False)
    _shapes: dict[tuple[str, ...], GroupShape] = field(default_factory=dict, init=False)

    def has_part(self, op: Op) -> NDArray[np.bool_]:
        """Return for each rank class whether its program contains the op [num_rank_classes]."""
        if not self.users:
            return np.ones(self.folding.num_rank_classes, bool)
        return np.isin(self.role_of, list(self.users[op.number]))

    @property
    def mesh_is_machine(self) -> bool:
        """True if the outermost axis of the mesh has one coordinate for each node of the machine (for placement of
        ranks in blocks)."""
        outer = self.schedule.mesh.names[0]
        return self.schedule.mesh[outer] == self.fabric.num_nodes

    def volume_bytes(self, op: Collective | Exchange) -> float:
        """Return the bytes that one rank sends in one call of the op; for an exchange, the bytes of the rank that sends
        more."""
        if isinstance(op, Exchange):
            return float(max(exchanged_bytes(op, self.schedule.tensors, self.schedule.mesh)))
        return self.call(op).volume_bytes(self.algorithms[op.number])

    def call(self, op: Collective) -> Call:
        """Return the call of a collective, as the input of the library's time law."""
        return Call.of(op, self.schedule, self.shape(op.axes))

    def pattern_of(self, op: Collective | Exchange) -> Pattern:
        """Return the load pattern of an op's messages, for byte counts."""
        return self.counted[self.key_of(op)]

    def key_of(self, op: Collective | Exchange) -> str:
        """Return the key of the load pattern of an op's messages."""
        if isinstance(op, Exchange):
            return exchange_key(op, *exchanged_bytes(op, self.schedule.tensors, self.schedule.mesh))
        return pattern_key(op.axes, self.algorithms[op.number])

    def shape(self, axes: tuple[str, ...]) -> GroupShape:
        """Return the shape of the groups over `axes`."""
        if axes not in self._shapes:
            self._shapes[axes] = group_shape(self.fabric, self.schedule.mesh, axes)
        return self._shapes[axes]

    def table(self, op: Collective) -> CallTable | None:
        """Return the table of measured times for a collective; None if there is none."""
        return self.library.table(call_of(op), self.shape(op.axes))

    def intern(
        self,
        key: tuple[object, ...],
        rows: Ints,
        load: Floats,
        cap: float,
        held: Floats | None = None,
    ) -> int:
        """Return the number of the flow with key `key`; the flow is created on first use."""
        if key not in self._interned:
            self._interned[key] = len(self.flows)
            self.flows.append(Flow(rows, load, np.zeros(len(rows)) if held is None else held, cap))
        return self._interned[key]

    def reserved_units(self, key: str, column: LoadColumn) -> Floats:
        """Return the compute units that one call with the pattern `key` occupies on every rank of its group."""
        return np.where(column.units > 0.0, algorithm_of(self.carrier(key)).units(self.library), 0.0)

    def starting(self, key: str, cls: int, latency_s: float) -> int:
        """Return the number of the flow of a collective call during its start-up, when the call's kernel runs and its
        channels occupy compute units; -1 if there is no such flow."""
        column = self.column(key, cls)
        held = self.reserved_units(key, column)
        if latency_s <= 0.0 or not held.any():
            return -1
        return self.intern(("starting", key, cls), column.rows, np.zeros(len(held)), 1.0, held)

    def still(self, key: str, cls: int, amount: float) -> OpWork:
        """Return a work that cannot proceed, because it needs a dead component; the channels of its call occupy their
        compute units."""
        column = self.column(key, cls)
        held = self.reserved_units(key, column) if key != LOCAL else None
        flow = self.intern(("still", key, cls), column.rows, np.zeros(len(column.rows)), 0.0, held)
        return OpWork(np.inf, amount, 0.0, flow, self.starting(key, cls, np.inf) if key != LOCAL else -1)

    def runs(self, op: Op, key: str) -> tuple[bool, ...]:
        """Return for each activity class of the pattern `key` whether it contains ranks that run the op."""
        if not self.users:
            return (True,) * len(self.folding.count(key))
        has_part = self.has_part(op).tolist()
        return tuple(any(has_part[member] for member in members) for members in self.folding.members(key))

    def column(self, key: str, cls: int) -> LoadColumn:
        """Return the load of an activity class of the pattern `key` on each link class."""
        return self.folded(key).columns[cls]

    def folded(self, key: str) -> FoldedPattern:
        """Return the activity classes of the pattern `key`."""
        if key not in self._folded:
            self._folded[key] = FoldedPattern.of(self.fabric, self.folding, key, self.patterns[key])
        return self._folded[key]

    def by_itself(self, key: str) -> FoldedPattern:
        """Return the pattern `key` of `counted`, folded without other patterns."""
        if key not in self._by_itself:
            self._by_itself[key] = FoldedPattern.alone(self.fabric, self.counted[key])
        return self._by_itself[key]

    def sent_per_s(self, key: str, runs: tuple[bool, ...]) -> Floats:
        """Return the bytes per second that a rank of each activity class sends when nothing but this pattern
        communicates, on all classes for which `runs` is true."""
        if (key, runs) not in self._sent:
            self._sent[key, runs] = self.folded(key).sent_per_s(self.cap(key), runs=runs)
        return self._sent[key, runs]

    def cap(self, key: str) -> float:
        """Return the maximum bytes per second that the library lets a rank send in the pattern `key`; infinite for
        exchanges."""
        if key not in self.carried:
            return np.inf
        axes, algorithm = self.carried[key]
        return algorithm_of(algorithm).cap_bytes_per_s(self.library, self.shape(axes))

    def carrier(self, key: str) -> str:
        """Return the algorithm of the pattern `key` of `counted`; exchanges are sent as direct messages."""
        return self.carried[key][1] if key in self.carried else DIRECT

    def least_s(self, work: OpWork) -> float:
        """Return the time of a work if it has all its links to itself at full capacity; infinite if a link is dead."""
        if work.amount <= 0.0 or work.stands_still:
            return work.latency_s
        flow = self.flows[work.flow]
        capacity = self.folding.capacity[flow.rows]
        with np.errstate(divide="ignore"):
            fastest = min(float(np.min(capacity / flow.load, initial=np.inf)), flow.cap)
        return work.latency_s + (work.amount / fastest if fastest else np.inf)
