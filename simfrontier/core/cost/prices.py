"""Prices: the time of ops without contention on the first devices of a machine, in closed form and without a
simulation.

The cost of a communication pattern depends on the positions of its groups in the machine, not on the plan, so plans on
different meshes reuse it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simfrontier.core.collectives import CallTable, GroupShape, Library, algorithm, call_of, exchanged_bytes
from simfrontier.core.cost.alone import EqualGroups, refuse_alone
from simfrontier.core.cost.call import Call, exchange_s, pair_shape
from simfrontier.core.cost.compute import Kernel, PerHopCoding, least_kernel_s
from simfrontier.core.cost.pricing import Placement, placed
from simfrontier.core.machine import HEALTHY, Machine, Perturbation
from simfrontier.core.network import Fabric, equal_parts, paired
from simfrontier.core.program import DIRECT, Collective, Compute, Exchange, Mesh, Op, Schedule

MOST_BOUNDARIES = 12  # at most as many boundaries between stages are priced
Strides = tuple[tuple[int, int], ...]  # per axis: distance between neighbours in ranks, and size
_PricedCall = tuple[Call, Strides]  # a call, and the strides of its groups


@dataclass
class Prices:
    """Times of ops in seconds, without contention and for the slowest group, on the first `num_devices` of a machine.
    Includes the perturbations that last for the whole training, except dead components."""

    machine: Machine
    library: Library
    num_devices: int
    perturbation: Perturbation = HEALTHY
    placement: Placement = "block"
    _groups: dict[Strides, EqualGroups] = field(default_factory=dict)
    _seconds: dict[_PricedCall, tuple[float, str]] = field(default_factory=dict)  # and the algorithm that carries it
    _floors: dict[_PricedCall, float] = field(default_factory=dict)
    _pairs: dict[tuple[int, int, tuple[int, int]], tuple[GroupShape, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        num_nodes = -(-self.num_devices // self.machine.devices_per_node)
        self.fabric = Fabric.build(
            self.machine,
            num_nodes,
            self.perturbation.lasting,
            num_devices=self.num_devices,
            placement=placed(self.placement, self.num_devices, num_nodes, self.machine),
        )
        self.slowest, self.fastest = float(self.fabric.speed.min()), float(self.fabric.speed.max())

    def by(self, library: Library) -> Prices:
        """Return the prices of another library on the same devices. The layout of groups is reused, and so is the
        layout of pairs if both libraries send messages in the same way."""
        messages = algorithm(DIRECT)
        sends_alike = messages.shares_on(library, self.machine) == messages.shares_on(self.library, self.machine)
        return Prices(
            machine=self.machine,
            library=library,
            num_devices=self.num_devices,
            perturbation=self.perturbation,
            placement=self.placement,
            _groups=self._groups,
            _pairs=self._pairs if sends_alike else {},
        )

    def seconds(self, op: Op, schedule: Schedule) -> float:
        """Return the time of an op in seconds. Raises InputError if a group has unequal numbers of ranks on its
        nodes."""
        match op:
            case Compute():
                return Kernel.of(op, schedule, self.machine).seconds(self.slowest)
            case Collective():
                return self._collective_s(op, schedule)
            case Exchange():
                size = max(exchanged_bytes(op, schedule.tensors, schedule.mesh))
                return self._exchange_s(schedule.mesh, op.axis, op.ends, float(size))

    def floor_s(self, op: Compute | Collective, schedule: Schedule) -> float:
        """Return a lower bound of an op's time in any simulation (fidelities `flow` and `analytic`), for any overlap
        with other ops, any arrival order of the ranks of its groups, and any placement of the weights by a plan. For a
        kernel, it is the least time on the fastest device; for a collective, the start-up plus the bytes at the
        library's maximum sending rate; 0 for calls with measured times, and for two-level calls."""
        if isinstance(op, Compute):
            return least_kernel_s(op, schedule, self.machine, self.fastest)
        call = self._call(op, schedule)
        if call not in self._floors:
            groups = self._groups[call[1]]
            least = (self._least_s(name, call[0], groups) for name in self._algorithms(call[0]))
            self._floors[call] = min(least) if self._table(op, groups) is None else 0.0
        return self._floors[call]

    def _least_s(self, name: str, call: Call, groups: EqualGroups) -> float:
        """Return a lower bound of a collective call's time with the algorithm `name`, for any of the groups."""
        if not algorithm(name).has_floor:
            return 0.0
        return call.least_s(name, self.library, groups.sent_per_s(name, self.library))

    def _fastest(self, call: _PricedCall) -> tuple[float, str]:
        if call not in self._seconds:
            names = self._algorithms(call[0])
            self._seconds[call] = self._groups[call[1]].fastest(call[0], self.library, names)
        return self._seconds[call]

    def _collective_s(self, op: Collective, schedule: Schedule) -> float:
        call = self._call(op, schedule)
        table = self._table(op, self._groups[call[1]])
        if table is not None:
            return sum(map(table.seconds, call[0].sizes))
        seconds, name = self._fastest(call)
        if not op.per_hop:
            return seconds
        hops = PerHopCoding.of(op, schedule.tensors, schedule.mesh, self.machine)
        return seconds + hops.added_s(call[0].volume_bytes(name), self.machine)

    def _call(self, op: Collective, schedule: Schedule) -> _PricedCall:
        groups = self.over(schedule.mesh, op.axes)
        return Call.of(op, schedule, self._groups[groups].shape), groups

    def _table(self, op: Collective, groups: EqualGroups) -> CallTable | None:
        """Return the table of measured times for a collective; None if there is none."""
        return self.library.table(call_of(op), groups.shape)

    def _algorithms(self, call: Call) -> tuple[str, ...]:
        names = call.algorithms(self.library)
        refuse_alone(self.library, names)
        return names

    def boundaries_s(self, mesh: Mesh, axis: str, num_bytes: float) -> list[float]:
        """Return the one-way times of messages of `num_bytes` bytes from each coordinate of an axis to the next; for at
        most `MOST_BOUNDARIES` boundaries between coordinates, evenly spread."""
        count = mesh[axis] - 1
        chosen = sorted({number * count // MOST_BOUNDARIES for number in range(MOST_BOUNDARIES)}) if count else ()
        return [self._exchange_s(mesh, axis, (upper, upper + 1), num_bytes) for upper in chosen]

    def _exchange_s(self, mesh: Mesh, axis: str, ends: tuple[int, int], num_bytes: float) -> float:
        key = _stride(mesh, axis), mesh[axis], ends
        if key not in self._pairs:
            self._pairs[key] = self._pair(mesh.groups((axis,))[:, list(ends)])
        shape, rate = self._pairs[key]
        return exchange_s(num_bytes, shape, self.library, rate)

    def _pair(self, pairs: NDArray[np.integer]) -> tuple[GroupShape, float]:
        """Return the shape of the pair of ranks that are farthest apart, and the bytes per second that a rank of the
        slowest pair sends."""
        pattern = paired(self.fabric, pairs, 1, 0, algorithm(DIRECT).shares_on(self.library, self.machine))
        _, rates = equal_parts(self.fabric, pattern)
        farthest = int(np.flatnonzero(pattern.edges.sum(axis=0)).max())
        return pair_shape([boundary == farthest for boundary in range(3)]), float(rates.min())

    def over(self, mesh: Mesh, axes: tuple[str, ...]) -> Strides:
        """Return the strides of the groups over some axes; the groups are laid out on first use. Raises InputError if a
        group has unequal numbers of ranks on its nodes."""
        key = tuple((_stride(mesh, axis), mesh[axis]) for axis in axes if mesh[axis] > 1)
        if key not in self._groups:
            self._groups[key] = EqualGroups.over(self.fabric, mesh, axes)
        return key


def _stride(mesh: Mesh, axis: str) -> int:
    """Return the difference between the numbers of ranks that are neighbours on an axis of the mesh."""
    return mesh.size(mesh.names[mesh.names.index(axis) + 1 :])
