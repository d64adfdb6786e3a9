"""Two-level libraries: a call as two calls of other libraries, one between nodes and one inside each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from simfrontier.collectives.ring_law import GroupShape
from simfrontier.records import dataclass
from simfrontier.schedule import DIRECT, HALVING, RING, CollectiveKind

BETWEEN_NODES = (RING, HALVING)
PAIR = GroupShape(size=2, num_nodes=2, num_packages=2)  # of ranks that exchange in a round

if TYPE_CHECKING:
    from simfrontier.collectives.library import Library


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """How one kind of call is made: by `between` among the ranks with the same place on each node, and what it takes
    beside its two calls, base_s and a pass over all S bytes that puts them in order."""

    between: Library
    base_s: float
    reorder_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRates:
    """What a rank sends per second in each of the two calls, when nothing else runs; between nodes, all of a node's
    ranks at once."""

    between: float
    inside: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoLevel:
    """An all-gather of S bytes over k nodes of p ranks gathers S/p between the nodes, by p groups at once, and then S
    inside each; a reduce-scatter goes the other way. An all-reduce is the second and then the first. Inside by rings;
    between nodes by `between_by`, rings or recursive halving in log2 k rounds, in each of which a node's ranks exchange
    with those of one other node.

    `rates`: by shape of the group; of the machine, which the library does not know (`with_rates`).
    """

    library_inside: Library
    calls: Mapping[CollectiveKind, Levels]
    between_by: str = RING
    rates: Mapping[GroupShape, LevelRates] = field(default_factory=dict)

    def cap_bytes_per_s(self, group: GroupShape) -> float:
        """Bytes that a rank sends over the time of sending them: (n-1)/n over (k-1)/kp / B1 + (p-1)/p / B2."""
        rates, (between, inside) = self.rates[group], shapes_of(group)
        between_s = (between.size - 1) / group.size / rates.between
        inside_s = (inside.size - 1) / inside.size / rates.inside
        return (group.size - 1) / group.size / (between_s + inside_s)

    def latency_s(self, kind: CollectiveKind, message_bytes: float, group: GroupShape) -> float:
        """Time of a call beyond volume / cap_bytes_per_s."""
        if kind == "all_reduce":
            halves: tuple[CollectiveKind, ...] = ("reduce_scatter", "all_gather")
            return sum(self.latency_s(half, message_bytes, group) for half in halves)
        levels, rates, (between, inside) = self.calls[kind], self.rates[group], shapes_of(group)
        seconds = levels.base_s + message_bytes / levels.reorder_bytes_per_s
        if between.size > 1:
            part = message_bytes / inside.size
            seconds += self._between_s(levels.between, kind, part, between, rates.between)
        if inside.size > 1:
            seconds += self.library_inside.latency_s(RING, kind, message_bytes, inside, rates.inside)
        return seconds

    def _between_s(
        self, library: Library, kind: CollectiveKind, num_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> float:
        """Time of the call between nodes beyond its bytes over its rate."""
        if self.between_by == RING:
            return library.latency_s(RING, kind, num_bytes, group, bytes_per_s)
        num_rounds = (group.size - 1).bit_length()
        return num_rounds * library.latency_s(DIRECT, "all_to_all", num_bytes, PAIR, bytes_per_s)


def shapes_of(group: GroupShape) -> tuple[GroupShape, GroupShape]:
    """Of the groups between nodes, and inside."""
    k = group.num_nodes
    between = GroupShape(size=k, num_nodes=k, num_packages=k)
    return between, GroupShape(size=group.size // k, num_nodes=1, num_packages=group.num_packages // k)
