"""Joint simulation of two jobs on one machine in one event loop: the jobs' steps share only the links between groups of
nodes.

Both jobs begin at the same time. Each rank of the second job begins its step again whenever it has finished it, until
the first job's step ends. The ranks of each job are folded separately, but links between groups of nodes are
distinguished by the load of either job, so that the links of one class are equivalent for both jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from simfrontier.base.arrays import Ints
from simfrontier.base.errors import InputError
from simfrontier.core.collectives import Library
from simfrontier.core.cost import Placement, Pricing, folded_anew, price
from simfrontier.core.engine.context import Classes, EngineContext
from simfrontier.core.engine.engine import Engine
from simfrontier.core.engine.flow_rates import FlowRates
from simfrontier.core.engine.timeline import RoleTimeline
from simfrontier.core.machine import Machine, Perturbation
from simfrontier.core.network import Fabric
from simfrontier.core.program import Issuer, Schedule, SegmentedProgram, segmented_roles


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Neighbour:
    """Another job on the same machine. `machine` determines the nodes of this other job; `perturbation` holds the
    perturbations of the links that both jobs share; `parts`: the programs of its roles, from `segmented_roles`."""

    schedule: Schedule
    machine: Machine
    library: Library
    perturbation: Perturbation
    placement: Placement
    parts: Sequence[SegmentedProgram]


Parts = Sequence[SegmentedProgram]


def simulate_beside(
    parts: Parts, pricing: Pricing, beside: Neighbour, exact: bool
) -> tuple[Pricing, tuple[RoleTimeline, ...]] | None:
    """Simulate one step of a job together with another job on the same machine. Return the first job's pricing, folded
    for the joint simulation, and the timelines of its roles; None if the jobs share no link. Raises InputError if any
    component is dead."""
    schedule, other_parts = beside.schedule, beside.parts
    if exact or schedule is pricing.schedule:  # each job has a schedule of its own
        schedule = replace(schedule)
        other_parts = segmented_roles(schedule, whole=not exact)
    other = price(schedule, beside.machine, beside.library, beside.perturbation, exact, beside.placement)
    if not len(shared_links(pricing.fabric, other.fabric)[0]):
        return None
    pricing, other = told_apart(pricing, other)
    contexts = contexts_of(pricing, other)
    if any(job.some_dead for job in contexts):
        raise InputError("not beside what is dead; allowed: factors above 0", key=("neighbour",))
    roles = []
    for job, own in zip(contexts, (parts, other_parts), strict=True):
        for number, part in enumerate(own):
            classes = job.first + np.flatnonzero(job.pricing.role_of == number)
            roles.append((job, part, tuple(classes.tolist())))
    return pricing, _JointEngine(roles, len(parts)).run()


def shared_links(one: Fabric, other: Fabric) -> tuple[Ints, Ints]:
    """Return the links between groups of nodes that both jobs on a machine may use, as two arrays: the link numbers in
    the fabric `one` and in the fabric `other`."""
    if one.num_pool_groups == other.num_pool_groups:  # they have the same pools, or none
        pools = np.arange(one.num_links - one.pool_base)
        return one.pool_base + pools, other.pool_base + pools
    number = {other.describe(link): link for link in range(other.pool_base, other.num_links)}
    mine = [link for link in range(one.pool_base, one.num_links) if one.describe(link) in number]
    return np.array(mine, np.int64), np.array([number[one.describe(link)] for link in mine], np.int64)


def told_apart(one: Pricing, other: Pricing) -> tuple[Pricing, Pricing]:
    """Return the pricings of both jobs, folded again until every class of shared links in one job's folding is also one
    class in the other job's folding."""
    places = shared_links(one.fabric, other.fabric)
    while True:
        classes = [job.folding.link_class[links] for job, links in zip((one, other), places, strict=True)]
        _, joint = np.unique(np.stack(classes), axis=1, return_inverse=True)
        joint = joint.ravel()
        count = len(np.unique(joint))
        if all(count == len(np.unique(mine)) for mine in classes) and all(
            np.isin(job.folding.link_class, mine).sum() == len(mine)
            for job, mine in zip((one, other), classes, strict=True)
        ):
            return one, other
        one, other = (_coloured(job, links, joint) for job, links in zip((one, other), places, strict=True))


def _coloured(pricing: Pricing, links: Ints, colour: Ints) -> Pricing:
    colours = np.zeros(pricing.fabric.num_links, np.int64)
    colours[links] = 1 + colour
    return folded_anew(pricing, colours)


def contexts_of(one: Pricing, other: Pricing) -> tuple[EngineContext, EngineContext]:
    """Return the engine contexts of both jobs. Their flows load one common list of link classes, in which the shared
    links of the two jobs appear once."""
    number = one.folding.num_link_classes + np.arange(other.folding.num_link_classes)
    mine, theirs = shared_links(one.fabric, other.fabric)
    number[other.folding.link_class[theirs]] = one.folding.link_class[mine]
    rates = FlowRates([], np.concatenate([one.folding.capacity, other.folding.capacity]))
    first = one.folding.num_rank_classes
    return EngineContext(one, 0, rates), EngineContext(other, first, rates, number)


class _JointEngine(Engine):
    """Engine for two jobs: the first `num_first` roles belong to the first job; the ranks of the other roles begin
    their step again when they have finished it."""

    def __init__(self, roles: Sequence[tuple[EngineContext, SegmentedProgram, Classes]], num_first: int) -> None:
        super().__init__(roles)
        self.num_first = num_first
        self.mine = [cls for cls, role in self.role_of.items() if role < num_first]
        self.over = self.env.event()

    def run(self) -> tuple[RoleTimeline, ...]:
        """Run until the first job's step ends, and return the times of its roles."""
        self._start_all(list(self.role_of))
        self._settle_soon()
        self.env.run(until=self.over)
        return tuple(self._role_timeline(number) for number in range(self.num_first))

    def _start_all(self, classes: list[int]) -> None:
        for cls in classes:
            if self.role_of[cls] >= self.num_first and self.issuers[cls].is_finished:
                self.issuers[cls] = Issuer(self.parts[self.role_of[cls]].program)
        if not self.over.triggered and all(self.issuers[cls].is_finished for cls in self.mine):
            self.over.succeed()
        super()._start_all(classes)
