"""Max-min solver: cases worked by hand, the bottleneck property, and completion times against an outside oracle."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.core.network.maxmin import Floats, solve

ORACLE = json.loads((Path(__file__).parent / "data" / "maxmin_oracle.json").read_text())
INF = np.inf


Row = Sequence[float]


def rates(usage: Sequence[Row], capacity: Row, cap: Row) -> list[float]:
    rate = solve(np.array(usage, float), np.array(capacity, float), np.array(cap, float))
    return [float(value) for value in rate]


@pytest.mark.parametrize(
    ("usage", "capacity", "cap", "by_hand"),
    [
        ([[1, 1]], [10.0], [INF, INF], [5.0, 5.0]),
        # the long one shares each link: link 0 (10) fills first at 5, then link 1 (20) leaves 15, link 2 (40) leaves 35
        ([[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]], [10.0, 20.0, 40.0], [INF] * 4, [5.0, 5.0, 15.0, 35.0]),
        ([[1, 1]], [10.0], [INF, 2.0], [8.0, 2.0]),
        ([[0, 0, 2]], [10.0], [INF, 0.3, INF], [INF, 0.3, 5.0]),  # without links the rate is the cap
        ([[0, 0], [1, 0], [0, 1]], [0.0, 0.0, 4.0], [INF, INF], [0.0, 4.0]),
        ([[1 / 3, 0], [0, 1]], [1 / 3 * 6.0, 6.0], [INF, INF], [6.0, 6.0]),  # fill together, but for rounding
    ],
)
def test_rates_by_hand(usage: Sequence[Row], capacity: Row, cap: Row, by_hand: list[float]) -> None:
    assert rates(usage, capacity, cap) == pytest.approx(by_hand, rel=1e-15)


small = st.integers(0, 4).map(float)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Floats, Floats, Floats]:
    num_links, num = draw(st.integers(1, 6)), draw(st.integers(1, 7))
    usage = np.array(
        draw(st.lists(st.lists(small, min_size=num, max_size=num), min_size=num_links, max_size=num_links))
    )
    capacity = np.array(draw(st.lists(st.floats(0.1, 100.0), min_size=num_links, max_size=num_links)))
    cap = np.array(draw(st.lists(st.sampled_from([0.25, 1.0, 10.0, INF]), min_size=num, max_size=num)))
    return usage, capacity, cap


@given(problems())
@settings(deadline=None)
def test_no_rate_can_rise_without_lowering_a_smaller_or_equal_one(problem: tuple[Floats, Floats, Floats]) -> None:
    usage, capacity, cap = problem
    rate = solve(usage, capacity, cap)
    assert (rate <= cap).all()
    linked = usage.any(axis=0)
    assert (rate[~linked] == cap[~linked]).all()
    load = usage[:, linked] @ rate[linked]
    assert (load <= capacity * (1 + 1e-9)).all()
    full = load >= capacity * (1 - 1e-9)
    for activity in np.flatnonzero(linked & (rate < cap)):
        # a link it uses is full, and nobody there is faster
        held = [rate[activity] >= rate[row > 0].max() * (1 - 1e-9) for row in usage[full & (usage[:, activity] > 0)]]
        assert any(held)


@st.composite
def stacks(draw: st.DrawFn) -> tuple[Floats, Floats, Floats, Floats]:
    """Problems of one size side by side: usage, capacity, cap, and which activities there are."""
    num_links, num, count = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 5))

    def array(values: st.SearchStrategy[float], *shape: int) -> Floats:
        size = int(np.prod(shape))
        return np.array(draw(st.lists(values, min_size=size, max_size=size))).reshape(shape)

    usage, cap = array(small, num_links, num), array(st.sampled_from([0.25, 1.0, 10.0, INF]), num, count)
    cap = np.where(usage.any(axis=0)[:, None], cap, 1.0)
    return usage, array(st.floats(0.1, 100.0), num_links, count), cap, array(st.sampled_from([0.0, 1.0]), num, count)


@given(stacks())
@settings(deadline=None)
def test_problems_side_by_side_are_each_alone(stack: tuple[Floats, Floats, Floats, Floats]) -> None:
    usage, capacity, cap, there = stack
    runs = there > 0.0
    rate = solve(usage, capacity, cap, runs)
    assert (rate[~runs] == 0.0).all()
    for number in range(cap.shape[1]):
        here = np.flatnonzero(runs[:, number])
        alone = solve(usage[:, here], capacity[:, number], cap[here, number])
        assert rate[here, number] == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("case", ORACLE["cases"], ids=[case["name"] for case in ORACLE["cases"]])
def test_completion_times_of_the_oracle(case: dict[str, Any]) -> None:
    finished = finish_times(case["links"], case["flows"])
    assert finished == pytest.approx(case["exact_finish"], rel=1e-6)
    assert finished == pytest.approx(case["simgrid_finish"], rel=1e-6)


def finish_times(links: list[dict[str, Any]], flows: list[dict[str, Any]]) -> list[float]:
    """A fluid event loop: a flow starts after its route's latencies, and rates change when one starts or ends."""
    usage, cap = np.zeros((len(links), len(flows))), np.full(len(flows), INF)
    begin = np.array([flow["start"] + sum(links[i]["latency"] for i in flow["route"]) for flow in flows])
    for j, flow in enumerate(flows):
        if flow["rate_cap"] is not None:
            cap[j] = flow["rate_cap"]
        for i in flow["route"]:
            if links[i]["policy"] == "FATPIPE":  # bounds each flow alone
                cap[j] = min(cap[j], links[i]["bandwidth"])
            else:
                usage[i, j] += 1.0
    capacity = np.array([link["bandwidth"] for link in links])
    left = np.array([float(flow["bytes"]) for flow in flows])
    finish, clock = np.full(len(flows), INF), 0.0
    while np.isinf(finish).any():
        running = np.flatnonzero((begin <= clock) & np.isinf(finish))
        rate = solve(usage[:, running], capacity, cap[running])
        ends = clock + left[running] / rate
        later = begin[begin > clock]
        after = min(ends.min(initial=INF), later.min(initial=INF))
        left[running] -= rate * (after - clock)
        finish[running[ends <= after * (1 + 1e-13)]] = after
        clock = after
    return [float(value) for value in finish]
