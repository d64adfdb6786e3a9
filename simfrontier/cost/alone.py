"""One collective alone on a machine, in closed form: what a library's law says of groups that make the same call at
once, for tables of measured times and for fits to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simfrontier.collectives import GroupShape, Library, algorithm, candidate_algorithms
from simfrontier.errors import InputError
from simfrontier.machine import Machine
from simfrontier.network import Fabric, Pattern, equal_parts
from simfrontier.schedule import LIBRARY, CollectiveKind

ALIKE = 1e-12  # rates closer than this, relative to each other, are the same


@dataclass(eq=False)
class EqualGroups:
    """All devices of the first nodes of a machine, in equal groups that make the same call at the same time.

    `stride`: a group takes every stride-th device; 1 is one group of all, devices_per_node one group for each device of
    a node. A group smaller than a node has the node to itself. Raises InputError where the machine has not so many
    devices, or groups would be of one device or lie unevenly on the nodes.
    """

    machine: Machine
    num_devices: int
    stride: int = 1
    _limits: dict[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)
    _held: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)  # classes of links that hold all alike
    _split: dict[str, list[EqualGroups]] = field(default_factory=dict)  # by the algorithm that splits its calls so
    _sent: dict[str, tuple[Library, float]] = field(default_factory=dict)  # by the library that last asked

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
    def over(cls, fabric: Fabric, groups: NDArray[np.integer]) -> EqualGroups:
        """Groups of ranks [num_groups, group size] of a job, all alike, which make the same call at the same time."""
        made = cls.__new__(cls)
        made.machine, made.fabric = fabric.machine, fabric
        made.num_devices, made.num_nodes = groups.size, fabric.num_nodes
        made._limits, made._held, made._split, made._sent = {}, {}, {}, {}
        made._take(groups)
        return made

    def _take(self, groups: NDArray[np.integer]) -> None:
        self.groups, first = groups, np.sort(self.fabric.device_of[groups[0]])
        self.shape = GroupShape(
            size=len(first),
            num_nodes=len(np.unique(first // self.machine.devices_per_node)),
            num_packages=len(np.unique(first // self.machine.devices_per_package)),
        )

    def seconds(self, library: Library, kind: CollectiveKind, num_bytes: float) -> float:
        """Time of the call by what the library takes for it."""
        options = candidate_algorithms(library, kind, False, LIBRARY, num_bytes, self.shape)
        return min(self.seconds_by(name, library, kind, num_bytes) for name in options)

    def seconds_by(self, name: str, library: Library, kind: CollectiveKind, num_bytes: float) -> float:
        """Time of the call by an algorithm."""
        return algorithm(name).seconds_alone(self, library, kind, num_bytes)

    def sent_per_s(self, name: str, library: Library) -> float:
        """What a rank of the slowest group sends at most: links first shared equally are where max-min rates begin."""
        if name not in self._sent or self._sent[name][0] is not library:
            shares = algorithm(name).shares_on(library, self.machine)
            reached = [shares[link] * rate for link, rate in self.limits(name, library).items()]
            self._sent[name] = library, min([*reached, algorithm(name).cap_bytes_per_s(library, self.shape)])
        return self._sent[name][1]

    def limits(self, name: str, library: Library) -> Mapping[str, float]:
        """What a rank could send if only the links of one class held it up, at a share of 1, by class of link."""
        key = (name, library.ring_order)
        if key not in self._limits:
            whole = dict.fromkeys(self.machine.link_classes, 1.0)
            pattern = algorithm(name).loads(self.fabric, self.groups, library, whole)
            self._limits[key], self._held[key] = self._limits_of(pattern)
        return self._limits[key]

    def is_even(self, name: str, library: Library) -> bool:
        """Whether all groups are known to send at that rate: the library's cap holds them all, or each has a link of
        the class that holds up the slowest, and gets as little of it."""
        if library.two_level is not None:
            return False
        rate, limits = self.sent_per_s(name, library), self.limits(name, library)
        if rate == algorithm(name).cap_bytes_per_s(library, self.shape):
            return True
        shares, held = algorithm(name).shares_on(library, self.machine), self._held[name, library.ring_order]
        return any(shares[link] * limit == rate and link in held for link, limit in limits.items())

    def split(
        self, name: str, into: Callable[[Fabric, NDArray[np.integer]], Iterable[NDArray[np.integer]]]
    ) -> list[EqualGroups]:
        """The same ranks in other groups, as an algorithm of that name splits its calls; laid out once."""
        if name not in self._split:
            self._split[name] = [EqualGroups.over(self.fabric, groups) for groups in into(self.fabric, self.groups)]
        return self._split[name]

    def _limits_of(self, pattern: Pattern) -> tuple[Mapping[str, float], frozenset[str]]:
        """The limits, and the classes of links of which every group has one that is as full as any."""
        fabric, (used, rate) = self.fabric, equal_parts(self.fabric, pattern)
        classes, limits, held = fabric.link_class[used], dict[str, float](), set[str]()
        act, link = pattern.act[: pattern.num_wire_loads], pattern.link[: pattern.num_wire_loads]
        for number in np.unique(classes):
            mine = classes == number
            least = limits[fabric.class_names[number]] = float(rate[mine].min())
            is_full = np.zeros(len(fabric.capacity), bool)
            is_full[used[mine & (rate <= least * (1.0 + ALIKE))]] = True
            if np.bincount(act[is_full[link]], minlength=pattern.num).all() and np.ptp(pattern.peak) == 0.0:
                held.add(fabric.class_names[number])
        return limits, frozenset(held)
