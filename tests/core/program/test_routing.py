"""Choices of experts: distinct nodes and ranks by enumeration of all choices, and against published redundancy."""

from __future__ import annotations

from itertools import combinations

import pytest

from simfrontier.core.program import Routing


def enumerated(of: Routing, parts: int) -> float:
    """The mean number of distinct parts over all equally likely choices."""
    size, counts = of.experts // of.groups, []
    for chosen in combinations(range(of.groups), of.limit):
        experts = [expert for expert in range(of.experts) if expert // size in chosen]
        for choice in combinations(experts, of.per_token):
            counts.append(len({expert * parts // of.experts for expert in choice}))
    return sum(counts) / len(counts)


@pytest.mark.parametrize(
    ("routing", "parts"),
    [
        *((Routing(12, 3), parts) for parts in (1, 2, 4, 6, 12)),
        *((Routing(12, 3, 6, 2), parts) for parts in (1, 2, 3, 6, 12)),
        *((Routing(12, 4, 4, 3), parts) for parts in (2, 4, 12)),
    ],
)
def test_the_mean_number_of_distinct_parts_is_that_over_all_choices(routing: Routing, parts: int) -> None:
    assert routing.distinct(parts) == pytest.approx(enumerated(routing, parts), rel=1e-12)


@pytest.mark.parametrize(("nodes", "published"), [(2, 0.751), (4, 0.548)])
def test_the_redundancy_of_rows_between_nodes_is_that_measured_on_frontier(nodes: int, published: float) -> None:
    """X-MoE (arXiv 2508.13337), figure 4 and section 5.4.2: 8 of 256 experts, on 16 and on 32 GCDs."""
    assert 1.0 - Routing(256, 8).distinct(nodes) / 8 == pytest.approx(published, abs=1e-3)
