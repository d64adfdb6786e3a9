"""How long the ops of a step take, in each of some variations: alone, or as simulated and by how much longer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence

import numpy as np

from simfrontier.base.arrays import Floats, Ints
from simfrontier.core.cost import Pricing
from simfrontier.core.engine.timeline import RoleTimeline
from simfrontier.core.program import Op, SegmentedProgram

FactorsOf = Callable[[Op], Floats]
"""How many times as long a distinct op takes as simulated: [num_activity_classes, num_variations]."""


class Durations(ABC):
    """How long the nodes of all roles take, in seconds, each [num_rows, num_variations]; the rows of a role are its
    rank classes.

    pricing, parts   the schedule on its machine, and its roles in nodes
    rows             per role, its rank classes [num_rows]
    num_variations   how many variations there are
    """

    def __init__(
        self, pricing: Pricing, parts: Sequence[SegmentedProgram], classes: Sequence[Sequence[int]], num_variations: int
    ) -> None:
        self.pricing, self.parts, self.num_variations = pricing, parts, num_variations
        self.rows: list[Ints] = [np.array(each) for each in classes]

    @abstractmethod
    def of_op(self, role: int, node: int) -> Floats:
        """Of a node that is an op."""

    @abstractmethod
    def of_call(self, role: int, node: int) -> list[Floats]:
        """Of the ops of the call that a node stands for."""

    @abstractmethod
    def call_key(self, role: int, node: int) -> Hashable:
        """Equal where the ops of two calls take the same times."""

    @abstractmethod
    def is_whole(self, role: int, node: int) -> bool | None:
        """Whether a call begins on all rank classes that its collectives couple when the last of them is ready; None:
        where they are ready at once. If not, its ops follow one another by the rule of nodes."""

    def added_to_call(self, role: int, node: int) -> Floats | None:
        """What a call takes longer than its ops."""
        del role, node
        return None


class AloneDurations(Durations):
    """Every op takes its time alone, in one variation."""

    def __init__(self, pricing: Pricing, parts: Sequence[SegmentedProgram], classes: Sequence[Sequence[int]]) -> None:
        super().__init__(pricing, parts, classes, 1)
        self._known: dict[tuple[int, int], Floats] = {}

    def of_op(self, role: int, node: int) -> Floats:
        return self._alone(self.parts[role].program.ops[node], role)

    def of_call(self, role: int, node: int) -> list[Floats]:
        return [self._alone(op, role) for op in self.parts[role].block(node)]

    def call_key(self, role: int, node: int) -> Hashable:
        return role, self.parts[role].segment(node)

    def is_whole(self, role: int, node: int) -> bool | None:
        return None

    def _alone(self, op: Op, role: int) -> Floats:
        key = op.number, role
        if key not in self._known:
            priced = self.pricing.of(op)
            groups = self.pricing.folding.activity_of(priced.pattern)[self.rows[role]]
            self._known[key] = np.array([[priced.works[group].alone_s] for group in groups.tolist()])
        return self._known[key]


class NodeDurations(Durations):
    """Every node takes a time of its own, in one variation: `took` [num_nodes, num_rows, 1] of each role. No node
    stands for a call."""

    def __init__(
        self,
        pricing: Pricing,
        parts: Sequence[SegmentedProgram],
        classes: Sequence[Sequence[int]],
        took: Sequence[Floats],
    ) -> None:
        super().__init__(pricing, parts, classes, 1)
        self.took = took

    def of_op(self, role: int, node: int) -> Floats:
        own: Floats = self.took[role][node]
        return own

    def of_call(self, role: int, node: int) -> list[Floats]:
        raise AssertionError("every op is a node")

    def call_key(self, role: int, node: int) -> Hashable:
        raise AssertionError("every op is a node")

    def is_whole(self, role: int, node: int) -> bool | None:
        raise AssertionError("every op is a node")


class SimulatedDurations(Durations):
    """Every op takes as long as in a simulated step, times factors of its own: what ran beside it, and slowed it, still
    does, by as large a share.

    A call that ran as a whole begins, on rank classes that its collectives couple, when the last of them is ready.
    """

    def __init__(self, pricing: Pricing, roles: Sequence[RoleTimeline], num_variations: int) -> None:
        """`roles`: of the simulated step."""
        super().__init__(pricing, [each.segmented for each in roles], [each.classes for each in roles], num_variations)
        self.roles, self.took = roles, [_took(role) for role in roles]
        self._took_inside: dict[Hashable, list[Floats]] = {}
        self._factors: dict[tuple[int, int], Floats] = {}

    @abstractmethod
    def factors(self, op: Op, role: int) -> Floats:
        """How many times as long an op takes as simulated, wherever it stands [num_rows or 1, num_variations]."""

    def of_op(self, role: int, node: int) -> Floats:
        seconds: Floats = self.took[role][node] * self.known_factors(self.parts[role].program.ops[node], role)
        return seconds

    def of_call(self, role: int, node: int) -> list[Floats]:
        each = zip(self.parts[role].block(node), self.took_in_call(role, node), strict=True)
        return [took * self.known_factors(op, role) for op, took in each]

    def call_key(self, role: int, node: int) -> Hashable:
        """Times of one call that many nodes share are one object."""
        own = self.roles[role]
        return self.parts[role].segment(node), tuple([own.call_times(cls, node)[1] for cls in own.classes])

    def is_whole(self, role: int, node: int) -> bool | None:
        own = self.roles[role]
        return not any((cls, node) in own.by_class for cls in own.classes)

    def known_factors(self, op: Op, role: int) -> Floats:
        """`factors`, asked once."""
        key = op.number, role
        if key not in self._factors:
            self._factors[key] = self.factors(op, role)
        return self._factors[key]

    def took_in_call(self, role: int, node: int) -> list[Floats]:
        """How long the ops of a call took, each [num_rows, 1]."""
        key = self.call_key(role, node)
        if key not in self._took_inside:
            own = self.roles[role]
            inside = [own.call_times(cls, node)[1] for cls in own.classes]
            took = np.stack([times.end - times.start for times in inside])
            self._took_inside[key] = list(np.ascontiguousarray(took.T)[:, :, None])
        return self._took_inside[key]


class ScaledDurations(SimulatedDurations):
    """As simulated, times what `factors_of` says of each op."""

    def __init__(
        self, pricing: Pricing, roles: Sequence[RoleTimeline], num_variations: int, factors_of: FactorsOf
    ) -> None:
        super().__init__(pricing, roles, num_variations)
        self.factors_of = factors_of

    def factors(self, op: Op, role: int) -> Floats:
        groups = self.pricing.folding.activity_of(self.pricing.of(op).pattern)[self.rows[role]]
        factors: Floats = np.ascontiguousarray(self.factors_of(op)[groups])
        return factors


def _took(role: RoleTimeline) -> Floats:
    """How long nodes took [num_nodes, num_rows, 1]."""
    return np.ascontiguousarray((role.timeline.end - role.timeline.start).T)[:, :, None]
