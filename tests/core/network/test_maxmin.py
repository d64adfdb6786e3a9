"""Max-min solver: cases worked by hand, the bottleneck property, and completion times against an outside oracle."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.core.network.maxmin import Floats, solve, solve_each

ORACLE = json.loads((Path(__file__).parent / "data" / "maxmin_oracle.json").read_text())
INF = np.inf


Row = Sequence[float]


def rates(usage: Sequence[Row], capacity: Row, weight: Row, cap: Row) -> list[float]:
    rate = solve(np.array(usage, float), np.array(capacity, float), np.array(weight, float), np.array(cap, float))
    return [float(value) for value in rate]


def test_two_activities_halve_a_link() -> None:
    assert rates([[1, 1]], [10.0], [1, 1], [INF, INF]) == [5.0, 5.0]


def test_weights_share_in_proportion() -> None:
    # levels equal: 1*l + 3*l = 8, l = 2
    assert rates([[1, 1]], [8.0], [1, 3], [INF, INF]) == [2.0, 6.0]


def test_parking_lot() -> None:
    # the long one shares each link: link 0 (10) fills first at 5, then link 1 (20) leaves 15, link 2 (40) leaves 35
    usage = [[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]]
    assert rates(usage, [10.0, 20.0, 40.0], [1] * 4, [INF] * 4) == [5.0, 5.0, 15.0, 35.0]


def test_a_cap_is_on_the_rate_and_not_on_the_level() -> None:
    # level of the capped one stops at 6/3 = 2; the other takes 10 - 6
    assert rates([[1, 1]], [10.0], [1, 3], [INF, 6.0]) == [4.0, 6.0]


def test_without_links_the_rate_is_the_cap() -> None:
    assert rates([[0, 0, 2]], [10.0], [1, 7, 1], [INF, 0.3, INF]) == [INF, 0.3, 5.0]


def test_zero_rows_and_zero_capacity() -> None:
    assert rates([[0, 0], [1, 0], [0, 1]], [0.0, 0.0, 4.0], [1, 1], [INF, INF]) == [0.0, 4.0]


def test_links_that_fill_together_are_one_step() -> None:
    third = 1.0 / 3.0
    assert rates([[third, 0], [0, 1]], [third * 6.0, 6.0], [1, 1], [INF, INF]) == pytest.approx([6.0, 6.0], rel=1e-15)


small = st.integers(0, 4).map(float)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Floats, Floats, Floats, Floats]:
    num_links, num = draw(st.integers(1, 6)), draw(st.integers(1, 7))
    usage = np.array(
        draw(st.lists(st.lists(small, min_size=num, max_size=num), min_size=num_links, max_size=num_links))
    )
    capacity = np.array(draw(st.lists(st.floats(0.1, 100.0), min_size=num_links, max_size=num_links)))
    weight = np.array(draw(st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0]), min_size=num, max_size=num)))
    cap = np.array(draw(st.lists(st.sampled_from([0.25, 1.0, 10.0, INF]), min_size=num, max_size=num)))
    return usage, capacity, weight, cap


@given(problems())
@settings(deadline=None)
def test_no_rate_can_rise_without_lowering_a_smaller_or_equal_one(
    problem: tuple[Floats, Floats, Floats, Floats],
) -> None:
    usage, capacity, weight, cap = problem
    rate = solve(usage, capacity, weight, cap)
    level = rate / weight
    assert (rate <= cap).all()
    linked = usage.any(axis=0)
    assert (rate[~linked] == cap[~linked]).all()
    load = usage[:, linked] @ rate[linked]
    assert (load <= capacity * (1 + 1e-9)).all()
    full = load >= capacity * (1 - 1e-9)
    for activity in np.flatnonzero(linked & (rate < cap)):
        # a link it uses is full, and nobody there has a higher level
        held = [level[activity] >= level[row > 0].max() * (1 - 1e-9) for row in usage[full & (usage[:, activity] > 0)]]
        assert any(held)


@st.composite
def stacks(draw: st.DrawFn) -> tuple[Floats, Floats, Floats, Floats]:
    """Problems of one size side by side: usage, capacity, cap, and which activities there are."""
    num_links, num, count = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 5))

    def array(values: st.SearchStrategy[float], *shape: int) -> Floats:
        size = int(np.prod(shape))
        return np.array(draw(st.lists(values, min_size=size, max_size=size))).reshape(shape)

    usage, cap = array(small, num_links, num, count), array(st.sampled_from([0.25, 1.0, 10.0, INF]), num, count)
    return (
        usage,
        array(st.floats(0.1, 100.0), num_links, count),
        np.where(usage.any(axis=0), cap, 1.0),
        array(st.sampled_from([0.0, 1.0, 1.0]), num, count),
    )


@given(stacks())
@settings(deadline=None)
def test_problems_side_by_side_are_each_alone(stack: tuple[Floats, Floats, Floats, Floats]) -> None:
    """To the last bit where at most two activities use a link: the sum of what has stopped is then of one product."""
    usage, capacity, cap, there = stack
    runs = there > 0.0
    rate, filled = solve_each(usage, capacity, np.zeros(capacity.shape), cap, runs)
    assert (rate[~runs] == 0.0).all()
    for number in range(usage.shape[2]):
        here = np.flatnonzero(runs[:, number])
        used = usage[:, here, number]
        alone = solve(used, capacity[:, number], np.ones(len(here)), cap[here, number])
        if ((used > 0.0).sum(axis=1) <= 2).all():
            assert rate[here, number].tolist() == alone.tolist()
        assert rate[here, number] == pytest.approx(alone, rel=1e-12)
        for link in range(len(used)):
            on_it = alone[used[link] > 0.0]
            if filled[link, number] < INF:  # full, and nobody there is faster
                assert used[link, used[link] > 0.0] @ on_it == pytest.approx(capacity[link, number], rel=1e-9)
                assert on_it.max() <= filled[link, number] * (1 + 1e-9)


def test_what_others_take_is_not_shared() -> None:
    # 10 - 4 = 6 for two, of which one is capped at 2; the link fills when the other has 4. Without the cap: 3 each
    cap = np.array([[2.0, INF], [INF, INF]])
    rate, filled = solve_each(
        np.ones((1, 2, 2)), np.full((1, 2), 10.0), np.full((1, 2), 4.0), cap, np.full((2, 2), True)
    )
    assert rate.T.tolist() == [[2.0, 4.0], [3.0, 3.0]]
    assert filled.tolist() == [[4.0, 3.0]]


Solver = Callable[[Floats, Floats, Floats, Floats], Floats]


def one_of_many(usage: Floats, capacity: Floats, weight: Floats, cap: Floats) -> Floats:
    """`solve_each` in the place of `solve`."""
    assert (weight == 1.0).all()
    none, all_run = np.zeros((len(capacity), 1)), np.full((len(cap), 1), True)
    return solve_each(usage[:, :, None], capacity[:, None], none, cap[:, None], all_run)[0][:, 0]


@pytest.mark.parametrize("solver", [solve, one_of_many])
@pytest.mark.parametrize("case", ORACLE["cases"], ids=[case["name"] for case in ORACLE["cases"]])
def test_completion_times_of_the_oracle(case: dict[str, Any], solver: Solver) -> None:
    finished = finish_times(case["links"], case["flows"], solver)
    assert finished == pytest.approx(case["exact_finish"], rel=1e-6)
    assert finished == pytest.approx(case["simgrid_finish"], rel=1e-6)


def finish_times(links: list[dict[str, Any]], flows: list[dict[str, Any]], solver: Solver) -> list[float]:
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
        rate = solver(usage[:, running], capacity, np.ones(len(running)), cap[running])
        ends = clock + left[running] / rate
        later = begin[begin > clock]
        after = min(ends.min(initial=INF), later.min(initial=INF))
        left[running] -= rate * (after - clock)
        finish[running[ends <= after * (1 + 1e-13)]] = after
        clock = after
    return [float(value) for value in finish]
