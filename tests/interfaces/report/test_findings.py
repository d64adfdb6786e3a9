"""Findings of a study: the numbers of results.csv by name, published figures beside the prediction, and pipelines."""

from __future__ import annotations

import json

import numpy as np
import pytest

from simfrontier.answers.experiments import Sensitivity, VariedRates
from simfrontier.interfaces.report.headline import headline_of
from simfrontier.interfaces.report.parts import PARTS
from simfrontier.interfaces.report.published import PublishedFigure, published_of
from simfrontier.interfaces.report.results import findings_json, findings_of
from simfrontier.interfaces.report.timeline import IDLE_NAME, STAGE_NAMES as NAMES, lanes
from simfrontier.interfaces.report.view import StudyView, published_tflops, rate
from tests.interfaces.report.studies import piped, study
from tests.some import some


def test_the_parts_of_each_nominal_step_sum_to_it() -> None:
    steps = [row for rows in StudyView(study=study()).rows.values() for row in rows]
    assert len(steps) == 6  # three plans at two sizes
    for step in steps:
        parts_s = sum(step[part.column] for part in PARTS.values())
        assert parts_s == pytest.approx(step["step_time_nominal_s"], rel=1e-9)
        assert step["bound_s"] <= step["step_time_nominal_s"] * (1 + 1e-9)


def test_the_headline_has_the_plans_in_the_order_of_their_rates() -> None:
    found = headline_of(StudyView(study=study()))
    rates = {o.plan: rate(o) for o in study().outcomes if o.devices == 8}
    best, *others = sorted(rates, key=lambda plan: -rates[plan])
    assert found.best is not None and found.best["plan"] == best
    assert found.best["tokens_per_s_per_device"] == rates[best]
    assert [one.other for one in found.ahead] == others
    assert [1 + one.lead for one in found.ahead] == pytest.approx([rates[best] / rates[plan] for plan in others])
    assert [one["plan"] for one in found.limits] == others


def test_nothing_is_best_where_nothing_fits() -> None:
    found = headline_of(StudyView(study=study(1e3)))
    assert found.best is None and found.ahead == () and len(found.limits) == found.num_plans == 3


def test_the_peak_is_the_sum_of_what_is_held() -> None:
    view = StudyView(study=study())
    for plan, held in some(findings_of(view)["memory"].items()):
        assert sum(held.values()) == view.rows[plan][-1]["peak_memory_bytes"]


@pytest.mark.parametrize("memory_bytes", [0.0, 1e3])
def test_findings_are_read_back_from_json_with_the_rows_of_results(memory_bytes: float) -> None:
    view = StudyView(study=study(memory_bytes))
    found = findings_of(view)
    read = json.loads(findings_json(found, view))
    assert {name for name, section in read.items() if section is None} == {"ranks", "sensitivity", "environment"}
    assert set(read) == set(found) - {"slowdown"}
    for outcome in view.study.outcomes:
        (row,) = [row for row in read["rows"][outcome.plan] if row["devices"] == outcome.devices]
        assert {column: "" if row[column] is None else row[column] for column in outcome.row} == outcome.row


def test_a_pair_is_the_ratio_of_its_rates_within_paired_samples() -> None:
    view = StudyView(study=study())
    found = {(one.devices, one.plan, one.other): one for one in headline_of(view).pairs}
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


# ── error bars ──


PEAK = 2e12  # flop/s of a toy device


def varied(peak: float = PEAK, **tflops: float) -> VariedRates:
    """Of a model of 1 GFLOP a token: 1000 tokens/s are 1 TFLOPS."""
    return VariedRates(
        label="a setting",
        key="engine.overlap",
        value="false",
        rates={plan: 1000.0 * rate for plan, rate in tflops.items()},
        tflops=tflops,
        fits=dict.fromkeys(tflops, True),
        peak_flops_per_s=peak,
    )


def view(varied: Sensitivity | None = None) -> StudyView:
    done, _, searches = piped()
    return StudyView(study=done, sensitivity=varied, searches=searches)


def shares(seen: StudyView) -> list[PublishedFigure]:
    found = published_of(seen)
    assert found is not None
    return list(found["shares"])


def test_a_share_is_the_hardwares_operations_over_the_nominal_peak() -> None:
    """As GPT-NeoX counts them: with activations of all layers recomputed, what the hardware does."""
    seen = view()
    known = {(share.plan, share.devices): share for share in shares(seen)}
    assert set(known) == {("pipe", 8), ("pipe", 4)}
    assert seen.scenario.peak_flops_per_s == PEAK
    for outcome in seen.study.of("pipe"):
        share = known["pipe", outcome.devices]
        assert share.predicted == pytest.approx(published_tflops(outcome) / 2.0, rel=1e-12)
        assert share.predicted == pytest.approx(float(outcome.row["hfu"]), rel=1e-12)
        assert share.predicted > float(outcome.row["mfu"])
        assert share.rate == rate(outcome)
    assert known["pipe", 8].published == 0.025 and known["pipe", 4].published == 0.05


def view_ranks() -> StudyView:
    done, _, searches = piped()
    return StudyView(study=done, searches=searches)


# ── pipelines ──


def test_the_lanes_hold_every_forward_and_backward_with_its_number() -> None:
    (outcome,) = view_ranks().piped
    assert outcome.stages is not None
    drawn = {trace["name"]: trace for trace in lanes(outcome.stages)["data"]}
    assert drawn[IDLE_NAME]["y"] == [0, 1] and len(set(drawn[IDLE_NAME]["x"])) == 1
    for kind in ("forward", "backward"):
        bars = drawn[NAMES[kind]]
        assert sorted(zip(bars["y"], bars["text"], strict=True)) == [(s, str(m)) for s in (0, 1) for m in range(4)]
        assert all("micro-batch" in message and "layer" in message for message in bars["hovertext"])
    assert len(drawn) <= 5


def test_the_bubble_stands_beside_its_closed_form() -> None:
    """Two stages, four micro-batches: (2 - 1) / (4 + 2 - 1) = 20 %."""
    (outcome,) = view_ranks().piped
    known = outcome.stages
    assert known is not None
    assert (outcome.plan, len(known.stages), known.num_micro, known.chunks) == ("pipe", 2, 4, 1)
    assert known.closed_form == pytest.approx(0.2)
    assert known.bubble == pytest.approx(sum(one.bubble_s / known.pipeline_s for one in known.stages) / 2)
    for one in known.stages:
        spent_s = one.forward_s + one.backward_s + one.exchange_s + one.bubble_s
        assert 0.9 * known.pipeline_s < spent_s <= known.pipeline_s * (1 + 1e-9)
