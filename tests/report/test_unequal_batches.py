"""Plans whose steps have unlike many sequences: ranked, drawn and sampled by tokens per second, never by steps."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from simfrontier.report.findings.headline import headline_of
from simfrontier.report.findings.pairs import pairs_of
from simfrontier.report.findings.ranking import ranking_of
from simfrontier.report.findings.scaling import scaling_of
from simfrontier.report.summary import verdict
from simfrontier.report.view import StudyView
from simfrontier.scenario import scenario_of
from simfrontier.study import run_study

SEQUENCES = {"short": 8, "long": 512}  # of a step
DOCUMENT: dict[str, Any] = {
    "name": "unequal",
    "title": "Unequal batches",
    "machine": {"name": "toy-cluster"},
    "model": {"name": "tiny"},
    "stack": "none",
    "training": {"grad_accum": 1},
    "run": {"devices": [8]},
    "plans": {"short": {"family": "ddp"}, "long": {"family": "ddp", "micro_batch": 64}},
}


@cache
def view() -> StudyView:
    return StudyView(study=run_study(scenario_of(DOCUMENT, "unequal.toml")))


@cache
def steps() -> dict[str, npt.NDArray[np.float64]]:
    """Seconds of a step in each sample, by plan; one of "short" takes less in all of them."""
    found = {o.plan: o.samples_s for o in view().drawn if o.samples_s is not None}
    assert set(found) == set(SEQUENCES) and np.all(found["short"] < found["long"])
    return found


def rates() -> dict[str, npt.NDArray[np.float64]]:
    """Tokens per second and device in each sample; a sequence has 32 tokens."""
    return {plan: 32 * SEQUENCES[plan] / samples_s / 8 for plan, samples_s in steps().items()}


def test_ratios_and_shares_of_samples_are_of_rates_and_not_of_steps() -> None:
    (pair,) = pairs_of(view())
    assert (pair.plan, pair.other) == ("short", "long")
    ratios = rates()["short"] / rates()["long"]
    assert (pair.ratio.low, pair.ratio.high) == pytest.approx(tuple(np.quantile(ratios, (0.05, 0.95))))
    assert pair.ratio.low < pair.ratio.median < pair.ratio.high < 0.5
    assert pair.faster_share == np.mean(ratios > 1) == 0.0
    found = ranking_of(view()).pairs[8]["long"]["short"]
    assert found.faster_share == 1.0 and not found.too_close


def test_the_longer_step_that_trains_more_is_the_fastest_everywhere() -> None:
    assert ranking_of(view()).ranked[8] == ("long", "short")
    drawn = {plan: one.rate for plan, (one,) in scaling_of(view()).items()}
    medians = {plan: 32 * SEQUENCES[plan] / np.median(samples_s) / 8 for plan, samples_s in steps().items()}
    assert drawn == pytest.approx(medians, rel=1e-12)
    found = headline_of(view())
    assert found.best is not None and found.best.plan == "long" and found.best.rate == drawn["long"]
    (ahead,) = found.ahead
    assert (ahead.plan, ahead.faster_share, ahead.too_close) == ("short", 1.0, False)
    assert 1 + ahead.lead == pytest.approx(medians["long"] / medians["short"], rel=1e-12)


def test_unequal_batches_stand_in_the_first_line() -> None:
    found = headline_of(view())
    assert found.unequal_batches == SEQUENCES
    assert verdict(found).startswith("With unequal batches (short 8, long 512 a step), on 8 GCDs, long is the fastest")
