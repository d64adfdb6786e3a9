"""Sequence of the ops of a rank class in a simulated step ("walk"): the ops in issue order, their times, and the other
rank classes that take part in their calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from simfrontier.base.errors import InputError
from simfrontier.core.engine.call_factors import lasting
from simfrontier.core.program import Call, Collective, Compute, Exchange, ExpandedProgram, Op, SegmentedProgram

if TYPE_CHECKING:
    from simfrontier.base.arrays import Floats
    from simfrontier.core.cost import OpWork
    from simfrontier.core.engine.step import SimulatedStep
    from simfrontier.core.engine.timeline import Timeline
    from simfrontier.core.trace import Place

CallKey = tuple[int, int]  # the number of a node among those of all roles, and of an op in it
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, eq=False)
class Walk:
    """Ops of a rank class in issue order, as parallel lists and arrays [num_ops]. If `by_call`, the items are the
    simulated program nodes instead, where one op represents a program call that ran as a whole."""

    step: SimulatedStep
    cls: int
    by_call: bool = False

    # ── who walks ──

    @cached_property
    def role(self) -> int:
        """Number of the role that the ranks of the class run."""
        return int(self.step.pricing.role_of[self.cls])

    @property
    def at(self) -> tuple[str, int] | None:
        """Mesh axis and coordinate of the class's role (such as its pipeline stage); None if one role is shared by all
        ranks."""
        return self.step.schedule.roles[self.role].at

    @cached_property
    def members(self) -> tuple[int, ...]:
        """Ranks of the class, ascending."""
        return tuple(np.flatnonzero(self.step.pricing.folding.rank_class == self.cls).tolist())

    # ── ops ──

    @property
    def num_ops(self) -> int:
        return self._nodes.program.num_ops if self.by_call else self._nodes.num_ops

    @property
    def program(self) -> ExpandedProgram:
        """Program of the role, with the lanes and dependencies of its ops."""
        return self._nodes.program if self.by_call else self._nodes.expanded

    @property
    def ops(self) -> list[Op]:
        return self._nodes.program.ops if self.by_call else self.step.view(self.cls).ops

    @property
    def calls(self) -> list[Call]:
        """Program call to which each op belongs, with its label, layer and micro-batch."""
        return self._nodes.program.calls if self.by_call else self.step.view(self.cls).calls

    @property
    def blocks(self) -> list[tuple[Op, ...] | None]:
        """Ops of the program call that each op represents; None for a single op."""
        return self._nodes.blocks if self.by_call else [None] * self.num_ops

    @cached_property
    def keys(self) -> list[CallKey]:
        """Key of each op; a call in which several rank classes take part has the same key in the walks of all of
        them."""
        counts = [1 if self.by_call or block is None else len(block) for block in self._nodes.blocks]
        each = zip(self.step.nodes.keys[self.role], counts, strict=True)
        return [(number, place) for number, count in each for place in range(count)]

    def of_ops(self, fact: Callable[[Op], T]) -> list[T]:
        """Return the result of `fact` for each op, computed once for each distinct op."""
        known: dict[int, T] = {}
        for op in self.ops:
            if op.number not in known:
                known[op.number] = fact(op)
        return [known[op.number] for op in self.ops]

    # ── seconds ──

    @cached_property
    def ready_s(self) -> Floats:
        """Times in seconds at which the ranks were ready for each op."""
        return self._own(self._timeline.ready)

    @cached_property
    def start_s(self) -> Floats:
        """Times in seconds at which each op started, all ranks of its group being ready."""
        return self._own(self._timeline.start)

    @cached_property
    def end_s(self) -> Floats:
        """Times in seconds at which each op ended."""
        return self._own(self._timeline.end)

    @cached_property
    def works(self) -> list[OpWork]:
        """Work of each op. A collective contends only with the calls of the same collective by other groups at the same
        time."""
        works = self.of_ops(lambda op: self.step.pricing.work_of(op, self.cls))
        if self.step.call_factors is None:
            return works
        factors = self._own(self.step.call_factors[self.role]).tolist()
        return [lasting(work, factor) for work, factor in zip(works, factors, strict=True)]

    def alone_s(self, place: int) -> float:
        """Return the time in seconds of the op at index `place`, without contention from other ops. Raises InputError
        if the op needs a dead component."""
        work, op = self.works[place], self.ops[place]
        if work.stands_still:
            what = f"{op.kind} {op.name} has no time: what it needs is dead in the state that lasts longest in the step"
            raise InputError(f"{what}; allowed: one in which every op ends", key=("perturbation",))
        return work.alone_s

    @property
    def _nodes(self) -> SegmentedProgram:
        return self.step.role_timeline(self.cls).segmented

    @property
    def _timeline(self) -> Timeline:
        return (self.step.role_timeline(self.cls) if self.by_call else self.step.view(self.cls)).timeline

    def _own(self, of_role: Floats) -> Floats:
        """Return the row of this rank class in an array over all rank classes of its role [num_classes, num_ops]."""
        own: Floats = of_role[self.step.role_timeline(self.cls).classes.index(self.cls)]
        return own


def walks_of(step: SimulatedStep, classes: Iterable[int] | None = None) -> list[Walk]:
    """Return the walks of the given rank classes (default: all), op by op."""
    every = range(step.pricing.folding.num_rank_classes) if classes is None else classes
    return [Walk(step=step, cls=cls) for cls in every]


def meetings(walks: Sequence[Walk]) -> Iterator[tuple[Collective | Exchange, list[Place]]]:
    """Return the calls in which several of the walks' rank classes take part: each as the op, and its occurrences as
    (index of the walk, index of the op in the walk)."""
    groups: dict[str, list[int]] = {}
    places: defaultdict[tuple[CallKey, bool, int], list[Place]] = defaultdict(list)
    ops: dict[CallKey, Collective | Exchange] = {}
    for number, walk in enumerate(walks):
        pricing = walk.step.pricing
        for place, (op, key) in enumerate(zip(walk.ops, walk.keys, strict=True)):
            if isinstance(op, Compute):
                continue
            pattern = pricing.of(op).pattern
            if pattern not in groups:
                groups[pattern] = pricing.folding.activity_of(pattern).tolist()
            is_alike = walk.by_call and not pricing.role_assignment.is_shared(op)
            places[key, is_alike, groups[pattern][walk.cls]].append((number, place))
            ops.setdefault(key, op)
    return ((ops[key], together) for (key, *_), together in places.items() if len(together) > 1)
