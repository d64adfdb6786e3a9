"""Rates of concurrent flows equal those of solving all links."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from simfrontier.base.arrays import Floats
from simfrontier.core.cost import Flow
from simfrontier.core.engine import flow_rates
from simfrontier.core.engine.flow_rates import FlowRates, can_fill

WIRE, POOL = 25e9, 100e9  # bytes per second


def crossing(num_flows: int, num_pools: int, seed: int = 0) -> tuple[list[Flow], Floats]:
    """Flows with two wires each that go over one of four pools, which may fill, and put a little on each of
    `num_pools` others."""
    draw = np.random.default_rng(seed)
    first, flows = 2 * num_flows, []
    for number in range(num_flows):
        own, pool = [2 * number, 2 * number + 1], first + int(draw.integers(4))
        rows = np.array([*own, pool, *range(first + 4, first + 4 + num_pools)])
        load = np.full(len(rows), 1e-4)
        load[:3] = 1.0, 1.0 + draw.random(), 0.1 + draw.random()
        flows.append(Flow(rows, load, np.zeros(len(rows)), np.inf))
    return flows, np.array([WIRE] * first + [POOL] * (4 + num_pools))


def solved(flows: Sequence[Flow], capacity: Floats) -> dict[int, float]:
    return FlowRates(flows, capacity).solved(tuple(range(len(flows))))


def test_links_may_fill_where_flows_at_their_fastest_fill_them() -> None:
    """Flow 0 is held to 10 by link 0, flow 1 to 4 by its cap: together they put 14 on link 1 and 2.8 on link 2."""
    link, which = np.array([0, 1, 2, 1, 2]), np.array([0, 0, 0, 1, 1])
    load, caps = np.array([1.0, 1.0, 0.2, 1.0, 0.2]), np.array([np.inf, 4.0])
    for capacity, expected in (
        ([10.0, 12.0, 12.0], [True, True, False]),
        ([10.0, 14.0, 2.8], [True, True, True]),
        ([10.0, 15.0, 2.9], [True, False, False]),
    ):
        assert can_fill(link, which, load, np.array(capacity), caps).tolist() == expected


@pytest.mark.parametrize("seed", range(5))
def test_rates_are_those_of_all_links(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    flows, capacity = crossing(40, 30, seed)
    monkeypatch.setattr(flow_rates, "MOST_UNFILTERED", 10**9)
    every = solved(flows, capacity)
    monkeypatch.setattr(flow_rates, "MOST_UNFILTERED", 0)
    assert solved(flows, capacity) == pytest.approx(every, rel=1e-12)
    assert len(set(every.values())) > 2  # several links fill
