"""Every two plans against each other: the ratio of their rates and how sure it is."""

from __future__ import annotations

import numpy as np
import pytest

from simfrontier.accuracy import mean_step_error
from simfrontier.report.findings.pairs import pairs_of
from simfrontier.report.findings.samples import SURE, too_close
from simfrontier.report.page import page
from simfrontier.report.view import StudyView, rate
from tests.report.studies import piped, study
from tests.report.test_page import Page


def test_a_pair_is_the_ratio_of_its_rates_within_paired_samples() -> None:
    view = StudyView(study=study())
    found = {(one.devices, one.plan, one.other): one for one in pairs_of(view)}
    assert set(found) == {
        (size, a, b) for size in (2, 8) for a, b in (("zero3", "ddp"), ("zero3", "zeropp"), ("ddp", "zeropp"))
    }
    samples = {o.plan: o.samples_s for o in study().outcomes if o.devices == 8 and o.samples_s is not None}
    one = found[8, "zero3", "ddp"]
    rates = {o.plan: rate(o) for o in view.at(8)}
    assert one.ratio.median == pytest.approx(rates["zero3"] / rates["ddp"], rel=1e-12)
    assert (one.ratio.low, one.ratio.high) == pytest.approx(
        tuple(np.quantile(samples["ddp"] / samples["zero3"], (0.05, 0.95)))
    )
    assert one.faster_share == pytest.approx(float(np.mean(samples["zero3"] < samples["ddp"])))


def test_plans_that_do_more_in_a_step_are_compared_by_what_they_do() -> None:
    done, varied, searches = piped()
    view = StudyView(study=done, sensitivity=varied, searches=searches)
    rates = {o.plan: rate(o) for o in view.at(8)}
    for one in pairs_of(view):
        if one.devices == 8:
            assert one.ratio.median == pytest.approx(rates[one.plan] / rates[one.other], rel=1e-12)


def test_plans_are_too_close_to_call_in_either_order() -> None:
    error = mean_step_error()
    assert 0.01 < error < 0.2
    for ratio, is_near in ((1 + 0.99 * error, True), (1 + 1.01 * error, False)):
        assert too_close(ratio, 1.0) == too_close(1 / ratio, 0.0) == is_near
    assert too_close(2.0, SURE - 0.01) and too_close(0.5, 1.01 - SURE) and not too_close(2.0, SURE)
    assert too_close(1.0, None) and not too_close(2.0, None)


def test_the_page_has_the_ratio_of_every_pair() -> None:
    view = StudyView(study=study())
    ranking = " ".join(Page(page(study())).section("probability").replace("\u00a0", " ").split())
    for one in pairs_of(view):
        assert f"{one.ratio.median:.3f} ({one.ratio.low:.3f}–{one.ratio.high:.3f})" in ranking


def test_one_plan_is_against_none() -> None:
    lone = StudyView(study=study(1e3))
    assert pairs_of(lone) == ()
