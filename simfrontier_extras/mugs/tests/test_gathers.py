"""How long a rank waits for what a step gathers, and how long gradients are reduced, on timelines made by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from simfrontier.analysis.weight_gathers import Gathers, gathers
from simfrontier.collectives import load_library
from simfrontier.machine import load_machine
from simfrontier.schedule import Collective
from simfrontier.simulation import SimulatedStep, simulate_step
from simfrontier.simulation.timeline import Timeline
from simfrontier_extras.mugs.tests.test_plan import tiny
from tests.perturbed import perturbed

APART = ((0.0, 2.0), (2.0, 3.0), (5.0, 6.0), (8.0, 12.0), (20.0, 21.0))


@cache
def simulated(overlapped: bool = False, slow: int = 0) -> SimulatedStep:
    """Four ranks, one of which computes at half speed: the others wait for it, so that there are two rank classes."""
    machine, library = load_machine("toy-cluster"), load_library("transfers")
    return simulate_step(tiny(overlapped), machine, library, "analytic", perturbed(slow={slow: 0.5}))


def calls_of(step: SimulatedStep, name: str) -> list[int]:
    return [at for at, op in enumerate(step.program.ops) if isinstance(op, Collective) and op.name == name]


def by_hand(overlapped: bool = False, reductions: tuple[tuple[float, float], ...] = APART) -> Gathers:
    """The second rank class ends last: it is ready for gather n at 10 n, which starts n s later and takes 2 s; its
    reductions start and end as given and it is ready for them at 0. The other class is never busy."""
    step = simulated(overlapped)
    ready, start, end = (np.zeros_like(step.timeline.end) for _ in range(3))
    for n, at in enumerate(calls_of(step, "statistic")):
        ready[1, at], start[1, at], end[1, at] = 10 * n, 11 * n, 11 * n + 2
    for (begun, ended), at in zip(reductions, calls_of(step, "step_reduction"), strict=True):
        start[1, at], end[1, at] = begun, ended
    (role,) = step.roles
    made = replace(step, roles=(replace(role, timeline=Timeline(ready=ready, start=start, end=end)),))
    assert made.critical_row == 1
    result = gathers(made)
    assert result is not None
    return result


# ── gathers ──


def test_waiting_for_the_others_counts() -> None:
    """Gather n: n s until all ranks are there, then 2 s; of eight 0 + 1 + … + 7 + 8 × 2 = 44 s."""
    result = by_hand()
    assert [call.seconds for call in result.calls] == [2, 3, 4, 5, 6, 7, 8, 9]
    assert result.held_s == 44


def test_gathers_on_a_lane_of_their_own_take_as_long_and_hold_nothing() -> None:
    result = by_hand(overlapped=True)
    assert [call.seconds for call in result.calls] == [2, 3, 4, 5, 6, 7, 8, 9]
    assert result.held_s == 0


def test_a_rank_waits_for_a_slower_one() -> None:
    """Rank 0 computes at half speed and comes last to the first gather. The others are in it for as much longer as
    they were there earlier."""
    step = simulated(slow=0)
    line, first = step.timeline, calls_of(step, "statistic")[0]
    late_s = float(line.ready[0, first] - line.ready[1, first])
    assert late_s > 0
    end = line.end.copy()
    end[1, -1] += 1.0  # the rank that waited ends last
    (role,) = step.roles
    waiting = replace(step, roles=(replace(role, timeline=replace(line, end=end)),))
    assert (step.critical_row, waiting.critical_row) == (0, 1)
    results = [gathers(each) for each in (step, waiting)]
    slow_s, waiting_s = (each.calls[0].seconds for each in results if each is not None)
    assert waiting_s - slow_s == pytest.approx(late_s)


# ── reductions ──


@pytest.mark.parametrize(
    ("spans", "covered_s"),
    [
        (APART, 2 + 1 + 1 + 4 + 1),
        (((0, 4), (2, 5), (4, 7), (9, 10), (9, 10)), 7 + 1),  # each begins before the last one ends; two at once
        (((3, 5), (0, 6), (1, 2), (11, 13), (10, 12)), 6 + 3),  # in no order; two inside a longer one
        (((2, 3),) * 5, 1),
    ],
)
def test_reductions_beside_each_other_count_once(spans: tuple[tuple[float, float], ...], covered_s: float) -> None:
    result = by_hand(reductions=spans)
    assert result.reductions_s == covered_s
    assert result.num_reductions == 5
