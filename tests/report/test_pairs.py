"""Every two plans against each other: the ratio of their paces, how sure it is, and its words in both directions."""

from __future__ import annotations

import json

import numpy as np
import pytest

from simfrontier.accuracy import mean_step_error
from simfrontier.report.findings.headline import headline_of
from simfrontier.report.findings.pairs import Pair, pairs_of
from simfrontier.report.findings.samples import SURE, Sampled, too_close
from simfrontier.report.page import page
from simfrontier.report.summary import against, pairs_in_words
from simfrontier.report.view import StudyView, rate
from tests.report.studies import piped, study
from tests.report.test_page import Page


def pair(share: float | None, low: float = 0.9, median: float = 0.99, high: float = 1.1) -> Pair:
    return Pair(
        devices=8,
        plan="a",
        other="b",
        ratio=Sampled(low=low, median=median, high=high),
        faster_share=share,
        num_samples=200,
        too_close=too_close(median, share),
    )


def words(of: Pair) -> dict[str, dict[str, str]]:
    return {
        plan: {o: text.replace("\u00a0", " ") for o, text in others.items()} for plan, others in against(of).items()
    }


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


def test_too_close_to_call_is_said_both_ways_and_sure_is_faster_or_slower() -> None:
    ours, theirs = words(pair(0.41))["a"]["b"], words(pair(0.41))["b"]["a"]
    assert ours == "0.990 × as fast (90 % interval 0.900 to 1.100): too close to call."
    assert theirs == "1.010 × as fast (90 % interval 0.909 to 1.111): too close to call."
    sure = words(pair(1.0, 1.05, 1.1, 1.2))
    assert sure["a"]["b"].endswith("faster in more than 99 % of the samples.")
    assert sure["b"]["a"].startswith("0.909 × as fast (90 % interval 0.833 to 0.952")
    assert sure["b"]["a"].endswith("slower in more than 99 % of the samples.")


def test_without_samples_there_is_only_the_ratio() -> None:
    assert words(pair(None)) == {
        "a": {"b": "0.990 × as fast: too close to call."},
        "b": {"a": "1.010 × as fast: too close to call."},
    }
    assert words(pair(None, median=2.0)) == {"a": {"b": "2.000 × as fast."}, "b": {"a": "0.500 × as fast."}}


def test_the_page_has_every_pair_and_shows_the_fastest_against_the_next() -> None:
    view = StudyView(study=study())
    found = headline_of(view)
    read = Page(page(study()))
    told = json.loads(read.data["pairs-in-words"])
    assert told == pairs_in_words(found) and set(told["8"]) == {"zero3", "ddp", "zeropp"}
    assert found.best is not None
    shown = told["8"][found.best.plan][found.ahead[0].plan].replace("\u00a0", " ")
    assert shown in read.section("headline")


def test_one_plan_is_against_none() -> None:
    lone = StudyView(study=study(1e3))
    assert pairs_of(lone) == () and "pairs-in-words" not in Page(page(study(1e3))).data
