"""The search: its pick against all plans, the same answer however it is run, and what it says of empty spaces."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

from simfrontier.answers.search import NothingFitsError, TuningOutcome, tune
from simfrontier.answers.search.outcome import COLUMNS, rows
from simfrontier.answers.study import ScheduleCache, simulated
from simfrontier.inputs.scenario.plans import options_of
from tests.answers.search.exhaustive import Case, judge
from tests.answers.search.small import scenario

FEW = {"micro_batch": 2, "family": ["zero", "megatron"], "tensor": [1, 2]}


@pytest.fixture(scope="module")
def outcome() -> TuningOutcome:
    return tune(scenario(16, 32, samples=40, plans={"zero3": {}, "zero-topo": {}}), pins=FEW)


def test_the_pick_is_within_2_percent_of_the_best_of_all_plans() -> None:
    """`make exhaustive` does the same on seven larger spaces."""
    pins = {"micro_batch": 2, "checkpointing": "none", "x": 1, "y": 1, "tensor": [1, 2]}
    verdict = judge(Case("small steps", "frontier", 16, 4, 1024, 16, 32, 64e9, pins))
    assert verdict.feasible > 60
    assert verdict.over <= 0.02
    assert verdict.simulated <= verdict.allowed
    assert verdict.tightest <= 1.0


def test_the_best_plan_is_what_a_run_of_it_says(outcome: TuningOutcome) -> None:
    best = outcome.best
    assert best.simulated is not None
    made = outcome.scenario
    case = made.case_with("best", options_of("best", dict(best.candidate.table)), 16)
    step = simulated(made, ScheduleCache().of_case(made, case), "flow")
    assert best.simulated.nominal_s == step.step_s
    assert best.step_s == np.median(best.simulated.samples_s)
    assert case.samples == 32
    assert sum(best.simulated.parts.values()) == pytest.approx(step.step_s, rel=1e-9)
    assert outcome.time.step_s == step.step_s
    assert sum(part.seconds for part in outcome.time.parts) == pytest.approx(step.step_s, rel=1e-9)


def test_plans_come_in_order_and_are_told_apart_by_what_is_known(outcome: TuningOutcome) -> None:
    steps = [plan.step_s for plan in outcome.simulated]
    assert steps == sorted(steps)
    assert 1 < len(steps) <= 20
    assert all(plan.peak_bytes <= 64e9 for plan in outcome.simulated)
    table = rows(outcome)
    assert len(table) == len(outcome.plans) + len(outcome.passed_over)
    assert len(table) + outcome.too_big + outcome.faulty + len(outcome.misfits) == outcome.total
    assert all(tuple(row) == COLUMNS for row in table)
    assert [row["known"] for row in table[: len(steps)]] == ["simulated"] * len(steps)
    known = [chance for chance in outcome.chances if chance is not None]
    assert sum(known) == pytest.approx(1.0)
    assert len(known) == len(steps)


def test_the_front_gets_smaller_as_it_gets_slower(outcome: TuningOutcome) -> None:
    front = outcome.front()
    assert front[0] == outcome.best
    for fast, small in pairwise(front):
        assert fast.step_s <= small.step_s
        assert fast.peak_bytes > small.peak_bytes
    smallest = min(plan.peak_bytes for plan in outcome.plans)
    assert front[-1].peak_bytes == smallest


def test_where_nothing_fits_the_need_and_the_smallest_change_are_told() -> None:
    small = scenario(8, 8, hidden=4096, hbm_bytes=8e9)
    with pytest.raises(NothingFitsError) as caught:
        tune(small, pins={"states": "ddp", "family": "zero", "pipeline": 1})
    message = str(caught.value)
    assert caught.value.exit_code == 1
    assert "fits into memory with states = ddp, family = zero, pipeline = 1: the smallest needs at least" in message
    assert "of 8 GB" in message
    assert re.search("smallest change that opens the space: states = (zero2|zero3|.*/all)$", message)
    with pytest.raises(NothingFitsError, match=r"smallest change that opens the space: (16|32|64) devices"):
        tune(scenario(8, 64, hidden=4096, hbm_bytes=1.1e9))
