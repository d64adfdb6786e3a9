"""Collectives without contention from other ops, in closed form: the time of equal groups that execute the same call at
the same time, by a library's time law, and the algorithm that the library chooses for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.errors import InputError
from simfrontier.core.collectives import GroupShape, Library, algorithm
from simfrontier.core.cost.call import Call
from simfrontier.core.cost.folded_pattern import FoldedPattern
from simfrontier.core.machine import Machine
from simfrontier.core.network import Fabric, Pattern, wait_pattern
from simfrontier.core.program import Collective, CollectiveKind, Mesh, Schedule

GROUP_WAIT = "wait"


@dataclass(eq=False)
class EqualGroups:
    """Equal groups that together contain all devices of the first nodes of a machine and execute the same collective
    call at the same time.

    `stride`: a group contains every stride-th device; with stride 1 one group contains all devices, with stride
    devices_per_node there is one group for each device index within a node. A group smaller than a node has the node to
    itself. Raises InputError if the machine has too few devices, if a group would have only one device, or if a group
    would have unequal numbers of devices on its nodes.
    """

    machine: Machine
    num_devices: int
    stride: int = 1
    _folded: dict[tuple[str, str], FoldedPattern] = field(default_factory=dict)
    _split: dict[str, list[EqualGroups]] = field(default_factory=dict)  # by name of the algorithm that splits its calls
    _sent: dict[str, tuple[tuple[object, ...], float]] = field(default_factory=dict)  # of the latest query

    def __post_init__(self) -> None:
        per_node, total = self.machine.devices_per_node, self.machine.num_devices
        if not 1 < self.num_devices <= total:
            raise InputError(f"{self.machine.name}: got {self.num_devices} devices, allowed: 2 to {total}")
        if self.num_devices > per_node and self.num_devices % per_node:
            raise InputError(
                f"{self.machine.name}: got {self.num_devices} devices, allowed above one node: multiples of {per_node}"
            )
        equal = 1 <= self.stride < self.num_devices and self.num_devices % self.stride == 0
        if not (equal and (self.num_devices <= per_node or 0 in (per_node % self.stride, self.stride % per_node))):
            raise InputError(
                f"{self.machine.name}: got a stride of {self.stride} over {self.num_devices} devices, allowed: groups "
                "of equal size, of two devices or more, with equally many on each of their nodes"
            )
        self.num_nodes = -(-self.num_devices // per_node)
        self.fabric = Fabric.build(self.machine, self.num_nodes, num_devices=self.num_devices)
        self._take(np.arange(self.num_devices).reshape(-1, self.stride).T)

    @classmethod
    def of(cls, fabric: Fabric, groups: NDArray[np.integer]) -> EqualGroups:
        """Return equal groups of a job's ranks [num_groups, group size], which have the same shape and execute the same
        call at the same time."""
        made = cls.__new__(cls)
        made.machine, made.fabric = fabric.machine, fabric
        made.num_devices, made.num_nodes = groups.size, fabric.num_nodes
        made._folded, made._split, made._sent = {}, {}, {}
        made._take(groups)
        return made

    @classmethod
    def over(cls, fabric: Fabric, mesh: Mesh, axes: tuple[str, ...]) -> EqualGroups:
        """Return the groups over some axes of a mesh. Raises InputError under the conditions of `group_shape`."""
        group_shape(fabric, mesh, axes)
        return cls.of(fabric, mesh.groups(axes))

    def _take(self, groups: NDArray[np.integer]) -> None:
        self.groups, self.shape = groups, _shape(self.machine, np.sort(self.fabric.device_of[groups[0]]))

    def seconds(self, library: Library, kind: CollectiveKind, num_bytes: float) -> float:
        """Return the time of a collective call by the fastest algorithm that the library may choose for it."""
        call = Call(kind, (num_bytes,), self.shape)
        return self.fastest(call, library, call.algorithms(library))[0]

    def fastest(self, call: Call, library: Library, names: Sequence[str]) -> tuple[float, str]:
        """Return the time of a collective call by the fastest of the algorithms `names`, and the name of that
        algorithm."""
        by = ((sum([self.seconds_by(name, library, call.kind, size) for size in call.sizes]), name) for name in names)
        return min(by, key=lambda each: each[0])

    def seconds_by(self, name: str, library: Library, kind: CollectiveKind, num_bytes: float) -> float:
        """Return the time of a collective call by the algorithm `name`."""
        return algorithm(name).seconds_alone(self, library, kind, num_bytes)

    def sent_per_s(self, name: str, library: Library) -> float:
        """Return the bytes per second that a rank of the slowest group sends with the algorithm `name`: at most the
        library's cap, and limited by the links, which all groups share equally and of whose capacity the library
        reaches a certain share."""
        by = algorithm(name)
        cap, shares = by.cap_bytes_per_s(library, self.shape), by.shares_on(library, self.machine)
        asked = library.ring_order, cap, tuple(shares.values())
        known = self._sent.get(name)
        if known is None or known[0] != asked:
            rate = float(self._pattern(name, library).sent_per_s(cap, shares).min())
            known = self._sent[name] = asked, rate
        return known[1]

    def _pattern(self, name: str, library: Library) -> FoldedPattern:
        key = name, library.ring_order
        if key not in self._folded:
            whole = dict.fromkeys(self.machine.link_classes, 1.0)
            pattern = algorithm(name).loads(self.fabric, self.groups, library, whole)
            if np.ptp(pattern.peak):  # groups share links by what they send, not by their busiest wires' speed
                pattern = replace(pattern, peak=np.ones(pattern.num))
            self._folded[key] = FoldedPattern.alone(self.fabric, pattern)
        return self._folded[key]

    def split(
        self, name: str, into: Callable[[Fabric, NDArray[np.integer]], Iterable[NDArray[np.integer]]]
    ) -> list[EqualGroups]:
        """Return the same ranks in the groups into which the algorithm `name` splits its calls; these groups are
        created once."""
        if name not in self._split:
            self._split[name] = [EqualGroups.of(self.fabric, groups) for groups in into(self.fabric, self.groups)]
        return self._split[name]


def group_shape(fabric: Fabric, mesh: Mesh, axes: tuple[str, ...]) -> GroupShape:
    """Return the shape of the groups over `axes`: the numbers of their ranks, nodes and packages. Raises InputError if
    a group has unequal numbers of ranks on its nodes, which no algorithm here supports."""
    machine = fabric.machine
    devices = np.sort(fabric.device_of[mesh.groups(axes)], axis=1)
    shape, nodes = _shape(machine, devices[0]), devices // machine.devices_per_node
    per_node = shape.size // shape.num_nodes
    if shape.size % shape.num_nodes or (nodes[:, ::per_node] != nodes[:, per_node - 1 :: per_node]).any():
        raise InputError(
            f"groups over {'+'.join(axes)} of {shape.size} ranks lie unevenly on the nodes; use block placement, "
            "or a size whose groups divide over the nodes"
        )
    return shape


def _shape(machine: Machine, devices: NDArray[np.integer]) -> GroupShape:
    """Return the shape of a group of devices."""
    return GroupShape(
        size=len(devices),
        num_nodes=len(np.unique(devices // machine.devices_per_node)),
        num_packages=len(np.unique(devices // machine.devices_per_package)),
    )


# ── the choice of an algorithm ──


def pattern_key(axes: tuple[str, ...], name: str) -> str:
    """Return the key of the load pattern of collectives over `axes` by the algorithm `name`."""
    return "+".join(axes) + "/" + name


def refuse_alone(library: Library, names: Sequence[str]) -> None:
    """Raise InputError if any of these algorithms is modelled only for single calls, not within a schedule."""
    for by in map(algorithm, names):
        if by.not_as_loads:
            raise InputError(f"library {library.name}: {by.not_as_loads}")


@dataclass
class AlgorithmChoices:
    """The library's choices of algorithms for the collectives on one mesh; load patterns by axes and algorithm, built
    on first use."""

    fabric: Fabric
    mesh: Mesh
    library: Library
    patterns: dict[tuple[tuple[str, ...], str], Pattern] = field(default_factory=dict)
    laid_out: dict[tuple[str, ...], EqualGroups] = field(default_factory=dict)

    def over(self, axes: tuple[str, ...]) -> EqualGroups:
        """Return the groups over `axes`. Raises InputError under the conditions of `EqualGroups.over`, if no load
        pattern is implemented for these groups."""
        if axes not in self.laid_out:
            self.laid_out[axes] = EqualGroups.over(self.fabric, self.mesh, axes)
        return self.laid_out[axes]

    def pattern(self, axes: tuple[str, ...], name: str) -> Pattern:
        """Return the load pattern of a collective over `axes` by the algorithm `name`; for GROUP_WAIT, a pattern
        without load in which ranks only wait for their group."""
        if (axes, name) not in self.patterns:
            calls = self.over(axes)
            if name == GROUP_WAIT:
                made = wait_pattern(self.fabric, calls.groups)
            else:
                refuse_alone(self.library, (name,))
                by = algorithm(name)
                self.library = by.knowing(self.library, calls)
                made = by.loads(self.fabric, calls.groups, self.library)
            self.patterns[axes, name] = made
        return self.patterns[axes, name]

    def choose(self, op: Collective, schedule: Schedule) -> str:
        """Return the algorithm that the library uses for a collective: the one given by the library's own rule or,
        without such a rule, the algorithm that is fastest without contention."""
        calls = self.over(op.axes)
        call = Call.of(op, schedule, calls.shape)
        options = call.algorithms(self.library)
        if len(options) == 1:
            return options[0]
        refuse_alone(self.library, options)
        return calls.fastest(call, self.library, options)[1]
