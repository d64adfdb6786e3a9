"""Durations of the ops of a step under variations: the time without contention, or the simulated time multiplied by a
factor."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from simfrontier.base.arrays import Floats, Ints
from simfrontier.core.cost import Pricing
from simfrontier.core.engine.timeline import RoleTimeline
from simfrontier.core.program import Op, SegmentedProgram

MOST_NUMBERS = 100_000  # durations of a program call that are computed at once
FactorsOf = Callable[[Op, Ints], Floats]
"""How many times as long as simulated an op takes on some rank classes: [num_rows or 1, num_variations]."""


class Durations:
    """Durations of the program nodes of all roles in seconds, each an array [num_rows, num_variations]; the rows of a
    role are its rank classes. This base class returns the time of every op without contention, in one variation.

    pricing, parts   the pricing of the schedule on its machine, and the roles' programs divided into program nodes
    rows             for each role, its rank classes [num_rows]
    num_variations   number of variations
    """

    def __init__(
        self,
        pricing: Pricing,
        parts: Sequence[SegmentedProgram],
        classes: Sequence[Sequence[int]],
        num_variations: int = 1,
    ) -> None:
        self.pricing, self.parts, self.num_variations = pricing, parts, num_variations
        self.rows: list[Ints] = [np.array(each) for each in classes]
        self._known: dict[tuple[int, int], Floats] = {}  # of each op in each role

    def of_op(self, role: int, node: int) -> Floats:
        """Return the durations of a program node that is a single op."""
        return self._alone(self.parts[role].program.ops[node], role)

    def of_call(self, role: int, node: int) -> list[Floats]:
        """Return the durations of the ops of the program call that a program node represents."""
        return [self._alone(op, role) for op in self.parts[role].block(node)]

    def added_to_call(self, role: int, node: int) -> Floats | float:
        """Return the seconds that a program call takes in addition to its ops."""
        return 0.0

    def added_to_calls(self, role: int, nodes: Sequence[int]) -> Floats:
        """Return `added_to_call` of several equal program calls [num_rows or 1, num_nodes, num_variations or 1]."""
        return np.zeros((1, len(nodes), 1))

    def call_key(self, role: int, node: int) -> Hashable:
        """Return a key that is equal for two program calls if their ops have equal durations."""
        return role, self.parts[role].segment(node)

    def is_whole(self, role: int, node: int) -> bool | None:
        """Return whether a program call runs as a whole: it then begins on all rank classes that its collectives
        synchronise when the last of these classes is ready (None: if the classes are ready at the same time). If false,
        each op of the call starts by the rule for program nodes."""
        return None

    def _alone(self, op: Op, role: int) -> Floats:
        key = op.number, role
        if key not in self._known:
            priced = self.pricing.of(op)
            groups = self.pricing.folding.activity_of(priced.pattern)[self.rows[role]]
            self._known[key] = np.array([[priced.works[group].alone_s] for group in groups.tolist()])
        return self._known[key]


class SimulatedDurations(Durations):
    """Durations of the ops of a simulated step, each multiplied by a factor: an op slowed by contention stays slowed by
    the same ratio.

    A program call that ran as a whole begins, on rank classes that its collectives synchronise, when the last of these
    classes is ready.
    """

    def __init__(
        self, pricing: Pricing, roles: Sequence[RoleTimeline], num_variations: int, factors_of: FactorsOf
    ) -> None:
        """`roles`: the role timelines of the simulated step."""
        super().__init__(pricing, [each.segmented for each in roles], [each.classes for each in roles], num_variations)
        self.roles, self.factors_of = roles, factors_of
        self.took = [columns(role.timeline.end - role.timeline.start) for role in roles]
        self._took_inside: dict[Hashable, Floats] = {}
        self._factors_inside: dict[Hashable, Floats] = {}
        self._keys: dict[tuple[int, int], Hashable] = {}

    def of_op(self, role: int, node: int) -> Floats:
        seconds: Floats = self.took[role][node] * self.factors(self.parts[role].program.ops[node], role)
        return seconds

    def of_call(self, role: int, node: int) -> list[Floats]:
        took, block = self.took_in_call(role, node), self.parts[role].block(node)
        if took.size * self.num_variations > MOST_NUMBERS:
            return [each * self.factors(op, role) for op, each in zip(block, took, strict=True)]
        key = role, self.parts[role].segment(node)
        if key not in self._factors_inside:
            like = len(self.rows[role]), self.num_variations
            self._factors_inside[key] = np.stack([np.broadcast_to(self.factors(op, role), like) for op in block])
        return list(took * self._factors_inside[key])

    def call_key(self, role: int, node: int) -> Hashable:
        """Return a key of the durations of a call's ops; program nodes that share one program call share one object of
        times."""
        if (role, node) not in self._keys:
            own = self.roles[role]
            times = tuple([own.call_times(cls, node)[1] for cls in own.classes])
            self._keys[role, node] = self.parts[role].segment(node), times
        return self._keys[role, node]

    def is_whole(self, role: int, node: int) -> bool | None:
        own = self.roles[role]
        return not any((cls, node) in own.by_class for cls in own.classes)

    def factors(self, op: Op, role: int) -> Floats:
        """Return the result of `factors_of` for an op on the rank classes of a role; `factors_of` is evaluated once per
        op."""
        key = op.number, role
        if key not in self._known:
            self._known[key] = np.ascontiguousarray(self.factors_of(op, self.rows[role]))
        return self._known[key]

    def took_in_call(self, role: int, node: int) -> Floats:
        """Return the simulated durations of the ops of a program call [num_ops, num_rows, 1]."""
        key = self.call_key(role, node)
        if key not in self._took_inside:
            own = self.roles[role]
            inside = [own.call_times(cls, node)[1] for cls in own.classes]
            self._took_inside[key] = columns(np.stack([times.end - times.start for times in inside]))
        return self._took_inside[key]


def columns(of_rows: Floats) -> Floats:
    """Return an array [num_rows, num_nodes] transposed to one variation by node [num_nodes, num_rows, 1]."""
    return np.ascontiguousarray(of_rows.T)[:, :, None]
