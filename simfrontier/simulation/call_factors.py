"""How many times as long single calls take as is usual, where calls differ: a number for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from simfrontier.arrays import Floats, Ints
from simfrontier.cost import Cluster, OpWork
from simfrontier.machine import Perturbation, Spread
from simfrontier.network import combine
from simfrontier.schedule import Compute, SegmentedProgram
from simfrontier.simulation.nodes import number_nodes


def call_factors(
    parts: Sequence[SegmentedProgram],
    classes: Sequence[Sequence[int]],
    cluster: Cluster,
    perturbation: Perturbation,
    step: int,
) -> tuple[Floats, ...]:
    """Of each role, how many times as long its calls take in a step as is usual [num_classes, num_nodes]; the same of a
    seed however the ranks are folded. `parts`: every op a node; `classes`: of each role, each of one rank."""
    assert all(block is None for part in parts for block in part.blocks), "every op is a node"
    nodes = number_nodes(parts, cluster)
    rank = cluster.folding.representative
    kernels, collectives = perturbation.differing("kernels"), perturbation.differing("collectives")
    lowest: dict[str, Ints] = {}
    out = []
    for part, mine, keys in zip(parts, classes, nodes.keys, strict=True):
        longer = np.ones((len(mine), len(keys)))
        is_kernel = np.array([isinstance(op, Compute) for op in part.program.ops], bool)
        of_whom = np.repeat(rank[np.array(mine)][:, None], len(keys), axis=1)
        for node in np.flatnonzero(~is_kernel).tolist():
            pattern = cluster.of(part.program.ops[node]).pattern
            if pattern not in lowest:
                lowest[pattern] = _lowest_rank(pattern, cluster)
            of_whom[:, node] = lowest[pattern][np.array(mine)]
        for chosen, spread in ((is_kernel, kernels), (~is_kernel, collectives)):
            if spread is not None:
                longer[:, chosen] = 1.0 / _drawn(spread, step, of_whom[:, chosen], np.array(keys)[chosen])
        out.append(longer)
    return tuple(out)


def lasting(work: OpWork, factor: float) -> OpWork:
    """The work of a call that takes so many times as long."""
    return work if factor == 1.0 else replace(work, latency_s=work.latency_s * factor, amount=work.amount * factor)


def _lowest_rank(pattern: str, cluster: Cluster) -> Ints:
    """Of each rank class, the lowest rank of the group that it is in [num_rank_classes]."""
    group, rank = cluster.folding.activity_of(pattern), cluster.folding.representative
    lowest = np.full(int(group.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(lowest, group, rank)
    out: Ints = lowest[group]
    return out


def _drawn(spread: Spread, step: int, rank: Ints, key: Ints) -> Floats:
    """Factors on the speeds of calls, by their ranks [num_classes, num_calls] and numbers [num_calls]."""
    same = np.array([[spread.seed]], np.uint64), np.array([[step]], np.uint64)
    words = combine(*same, rank.astype(np.uint64), key[None].astype(np.uint64))
    shares: Floats = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return spread.not_exceeded(shares)
