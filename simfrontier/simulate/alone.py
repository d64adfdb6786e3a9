"""One collective alone on a machine, in closed form: what a library's law says of groups that make the same call at
once, for tables of measured times and for fits to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from simfrontier.collectives import GroupShape, Library
from simfrontier.collectives.two_level import LevelRates
from simfrontier.collectives.volume import sent_part
from simfrontier.errors import InputError
from simfrontier.machine import Machine
from simfrontier.network import Fabric, Pattern, direct, equal_parts, ring, tree
from simfrontier.schedule.ir import CollectiveKind
from simfrontier.simulate.choice import shares_of
from simfrontier.simulate.two_level import level_groups, levels_of, with_rates


@dataclass(eq=False)
class Groups:
    """All devices of the first nodes of a machine, in equal groups that make the same call at the same time.

    `stride`: a group takes every stride-th device; 1 is one group of all, devices_per_node one group for each device of
    a node. A group smaller than a node has the node to itself. Raises InputError where the machine has not so many
    devices, or groups would be of one device or lie unevenly on the nodes.
    """

    machine: Machine
    num_devices: int
    stride: int = 1
    _limits: dict[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)
    _pairs: list[Groups] = field(default_factory=list)
    _levels: list[Groups] = field(default_factory=list)
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
    def over(cls, fabric: Fabric, groups: NDArray[np.integer]) -> Groups:
        """Groups of ranks [num_groups, group size] of a job, all alike, which make the same call at the same time."""
        made = cls.__new__(cls)
        made.machine, made.num_devices, made.num_nodes, made.fabric = (
            fabric.machine,
            groups.size,
            fabric.num_nodes,
            fabric,
        )
        made._limits, made._pairs, made._levels, made._sent = {}, [], [], {}
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
        options = library.taken(kind, False, "library", num_bytes, self.shape)
        return min(self.seconds_by(algorithm, library, kind, num_bytes) for algorithm in options)

    def seconds_by(self, algorithm: str, library: Library, kind: CollectiveKind, num_bytes: float) -> float:
        """Time of the call by an algorithm."""
        if algorithm == "halving":
            return self._halving_s(library, kind, num_bytes)
        if algorithm == "two_level":
            library = with_rates(library, self.shape, self._level_rates(library))
        rate = self.sent_per_s(algorithm, library)
        volume = sent(kind, algorithm, self.shape.size) * num_bytes
        return library.latency_s(algorithm, kind, num_bytes, self.shape, rate) + volume / rate

    def sent_per_s(self, algorithm: str, library: Library) -> float:
        """What a rank of the slowest group sends at most: links first shared equally are where max-min rates begin."""
        if algorithm == "two_level":
            return library.cap_bytes_per_s(algorithm, self.shape)
        if algorithm not in self._sent or self._sent[algorithm][0] is not library:
            shares = shares_of(library, self.machine, algorithm)
            reached = [shares[name] * rate for name, rate in self.limits(algorithm, library).items()]
            self._sent[algorithm] = library, min([*reached, library.cap_bytes_per_s(algorithm, self.shape)])
        return self._sent[algorithm][1]

    def limits(self, algorithm: str, library: Library) -> Mapping[str, float]:
        """What a rank could send if only the links of one class held it up, at a share of 1, by class of link."""
        key = (algorithm, library.ring_order)
        if key not in self._limits:
            self._limits[key] = self._limits_of(self._pattern(algorithm, library))
        return self._limits[key]

    def _halving_s(self, library: Library, kind: CollectiveKind, num_bytes: float) -> float:
        """Round after round: S/2 goes to the neighbour, S/4 two ranks further, S/8 four ranks further and so on."""
        times = (
            pairs.seconds_by("direct", library, "all_to_all", num_bytes / 2**number)
            for number, pairs in enumerate(self.pairs())
        )
        return sum(times) * (2 if kind == "all_reduce" else 1)

    def pairs(self) -> list[Groups]:
        """The pairs that exchange in each round of a halving. Raises InputError where ranks are left over."""
        size = self.shape.size
        if size.bit_count() != 1:
            raise InputError(f"recursive halving: got groups of {size} devices, allowed: powers of two")
        if not self._pairs:
            for number in range(size.bit_length() - 1):
                lower = np.flatnonzero(np.arange(size) & 2**number == 0)
                places = np.stack([lower, lower + 2**number], axis=1)
                self._pairs.append(self._regrouped(self.groups[:, places].reshape(-1, 2)))
        return self._pairs

    def _level_rates(self, library: Library) -> LevelRates:
        """What `simulate.two_level.level_rates` says, from limits that are laid out once."""
        if not self._levels:
            self._levels.extend(map(self._regrouped, level_groups(self.fabric, self.groups)))
        between, inside = (
            groups.sent_per_s("ring", level) for groups, level in zip(self._levels, levels_of(library), strict=True)
        )
        return LevelRates(between=between, inside=inside)

    def _regrouped(self, groups: NDArray[np.integer]) -> Groups:
        """The same devices in other groups."""
        return Groups.over(self.fabric, groups)

    def _pattern(self, algorithm: str, library: Library) -> Pattern:
        whole = dict.fromkeys(self.machine.link_classes, 1.0)
        if algorithm in ("ring", "ring_twice"):
            return ring(self.fabric, self.groups, whole, library.ring_order)
        return {"tree": tree, "direct": direct}[algorithm](self.fabric, self.groups, whole)

    def _limits_of(self, pattern: Pattern) -> Mapping[str, float]:
        fabric, (used, rate) = self.fabric, equal_parts(self.fabric, pattern)
        classes = fabric.link_class[used]
        return {fabric.class_names[number]: float(rate[classes == number].min()) for number in np.unique(classes)}


@lru_cache(maxsize=256)
def sent(kind: CollectiveKind, algorithm: str, size: int) -> float:
    """Bytes that a rank of a group of that size sends per byte of the message."""
    return float(sent_part(kind, algorithm, size))
