"""Variation between single launches of kernels and collectives: the duration of each launch relative to its usual
duration, and the resulting timeline of all ranks.

The step is first simulated with usual durations, with equivalent ranks folded as in every simulation. Then the ops of
every rank run once more, each with its duration in the first simulation times the factor of its launch: an op slowed by
contention stays slowed by the same ratio.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Floats, Ints
from simfrontier.core.cost import OpWork, Pricing
from simfrontier.core.engine.durations import Durations, columns
from simfrontier.core.engine.step_path import StepPath, number_nodes, timelines
from simfrontier.core.engine.timeline import RoleTimeline, classes_of, view_of
from simfrontier.core.machine import Perturbation, Spread
from simfrontier.core.network import combine
from simfrontier.core.program import Compute, SegmentedProgram


def call_factors(
    parts: Sequence[SegmentedProgram], pricing: Pricing, perturbation: Perturbation, step: int
) -> tuple[Floats, ...]:
    """Return, for each role, the duration of each launch of a kernel or collective in a step relative to its usual
    duration [num_classes, num_nodes]. `parts`: the roles' programs, in which every op is a program node; `pricing`: one
    in which every rank is a class of its own."""
    nodes, classes = number_nodes(parts, [pricing] * len(parts)), classes_of(pricing, len(parts))
    rank = pricing.folding.representative
    kernels, collectives = perturbation.differing("kernels"), perturbation.differing("collectives")
    lowest: dict[str, Ints] = {}
    out = []
    for part, mine, keys in zip(parts, classes, nodes.keys, strict=True):
        longer = np.ones((len(mine), len(keys)))
        is_kernel = np.array([isinstance(op, Compute) for op in part.program.ops], bool)
        of_whom = np.repeat(rank[np.array(mine)][:, None], len(keys), axis=1)
        for node in np.flatnonzero(~is_kernel).tolist():
            pattern = pricing.of(part.program.ops[node]).pattern
            if pattern not in lowest:
                lowest[pattern] = _lowest_rank(pattern, pricing)
            of_whom[:, node] = lowest[pattern][np.array(mine)]
        for chosen, spread in ((is_kernel, kernels), (~is_kernel, collectives)):
            if spread is not None:
                longer[:, chosen] = 1.0 / _drawn(spread, step, of_whom[:, chosen], np.array(keys)[chosen])
        out.append(longer)
    return tuple(out)


def lasting(work: OpWork, factor: float) -> OpWork:
    """Return the work of an op with its duration multiplied by `factor`."""
    return work if factor == 1.0 else replace(work, latency_s=work.latency_s * factor, amount=work.amount * factor)


def apply_call_factors(
    usual: Sequence[RoleTimeline],
    rank_class: NDArray[np.integer],
    parts: Sequence[SegmentedProgram],
    pricing: Pricing,
    factors: Sequence[Floats],
) -> tuple[RoleTimeline, ...]:
    """Return the timeline of every rank, with the duration of every kernel and collective multiplied by its factor.

    usual       timelines of the step with usual durations, folded into the rank classes `rank_class` [num_ranks]
    parts       programs of the same roles, in which every op is a program node
    pricing     pricing in which every rank is a class of its own
    factors     one array per role [num_ranks of the role, num_nodes]
    """
    took, classes = [], classes_of(pricing, len(parts))
    for role, ranks, longer in zip(usual, classes, factors, strict=True):
        times, row_of = view_of(role).timeline, {cls: row for row, cls in enumerate(role.classes)}
        rows = [row_of[cls] for cls in rank_class[list(ranks)].tolist()]
        took.append(columns((times.end - times.start)[rows] * longer))
    return timelines(StepPath(_NodeDurations(pricing, parts, classes, took)), classes)


class _NodeDurations(Durations):
    """Durations of the program nodes, each a single op, taken from the arrays `took` [num_nodes, num_rows, 1], one for
    each role."""

    def __init__(
        self,
        pricing: Pricing,
        parts: Sequence[SegmentedProgram],
        classes: Sequence[Sequence[int]],
        took: Sequence[Floats],
    ) -> None:
        super().__init__(pricing, parts, classes)
        self.took = took

    def of_op(self, role: int, node: int) -> Floats:
        own: Floats = self.took[role][node]
        return own


def _lowest_rank(pattern: str, pricing: Pricing) -> Ints:
    """Return for each rank class the lowest rank of the group to which the class belongs in a pattern
    [num_rank_classes]."""
    group, rank = pricing.folding.activity_of(pattern), pricing.folding.representative
    lowest = np.full(int(group.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(lowest, group, rank)
    out: Ints = lowest[group]
    return out


def _drawn(spread: Spread, step: int, rank: Ints, key: Ints) -> Floats:
    """Return random factors on the speeds of launches [num_classes, num_calls]; the seeds contain `rank` [num_classes,
    num_calls] (the rank itself, or the lowest rank of a collective's group) and the launch's number `key`
    [num_calls]."""
    same = np.array([[spread.seed]], np.uint64), np.array([[step]], np.uint64)
    words = combine(*same, rank.astype(np.uint64), key[None].astype(np.uint64))
    shares: Floats = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return spread.not_exceeded(shares)
