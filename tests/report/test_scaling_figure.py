"""The first chart: its axes are those of what was simulated, and no published point is lost."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from typing import Any

import pytest

from simfrontier.report.figures.scaling import PublishedPoint, has_beyond, rates
from simfrontier.report.findings.samples import Sampled
from simfrontier.report.findings.scaling import ScaledPlan
from simfrontier.report.theme import PlanMark

MARKS = {"one": PlanMark(colour="#0072B2", symbol="circle"), "other": PlanMark(colour="#E69F00", symbol="square")}


def scaled(devices: int, value: float) -> ScaledPlan:
    band = Sampled(low=value - 2, median=value, high=value + 2)
    return ScaledPlan(
        devices=devices,
        misfit="",
        rate=value,
        sampled_rate=band,
        nominal_rate=value,
        step_s=1.0,
        sampled_step_s=band,
        nominal_step_s=1.0,
        efficiency=1.0,
    )


FOUND = {"one": [scaled(8, 80.0), scaled(64, 70.0)], "other": [scaled(8, 75.0), scaled(64, 65.0)]}


def published(plan: str, devices: int, value: float) -> PublishedPoint:
    return PublishedPoint(plan=plan, devices=devices, value=value, words="published")


def chart(points: Sequence[PublishedPoint]) -> Any:
    return rates(FOUND, MARKS, "GCD", "tokens/s per GCD", points)


def marks(shown: Any) -> list[tuple[float, float, str, str]]:
    """Of published points: where they are drawn, as what, and the words beside them."""
    found = []
    for trace in shown["data"]:
        if "published" in trace["name"]:
            count = len(trace["x"])
            symbols, words = trace["marker"]["symbol"], trace.get("text", [""] * count)
            found += zip(
                trace["x"], trace["y"], [symbols] * count if isinstance(symbols, str) else symbols, words, strict=True
            )
    return found


def test_a_point_far_above_is_told_at_the_edge() -> None:
    shown = chart([published("one", 64, 170.0)])
    low, high = shown["layout"]["yaxis"]["range"]
    assert low < 63 and 82 < high < 90  # the simulated band fills the axis
    ((x, y, symbol, words),) = marks(shown)
    assert x == 64 and 82 < y < high and symbol == "triangle-up" and "170" in words
    assert has_beyond(shown)


def test_points_at_one_edge_do_not_cover_each_other() -> None:
    shown = chart([published("one", 64, 120.0), published("other", 64, 170.0)])
    heights = {words.split()[-1]: y for _, y, _, words in marks(shown)}
    assert heights["170"] > heights["120"] + 0.5


@pytest.mark.parametrize(("devices", "value", "symbol"), [(64, 20.0, "triangle-down"), (4096, 75.0, "triangle-right")])
def test_points_below_and_at_sizes_not_run_are_told_too(devices: int, value: float, symbol: str) -> None:
    shown = chart([published("one", devices, value)])
    ((x, y, drawn, words),) = marks(shown)
    assert drawn == symbol and f"{value:g}" in words and ("4,096" in words) == (devices == 4096)
    left, right = shown["layout"]["xaxis"]["range"]
    low, high = shown["layout"]["yaxis"]["range"]
    assert left <= log10(x) <= right < log10(100) and low <= y <= high


def test_a_point_within_reach_is_a_star_where_it_is() -> None:
    shown = chart([published("one", 64, 88.0)])
    assert marks(shown) == [(64, 88.0, "star", "")]
    assert not has_beyond(shown) and "range" not in shown["layout"]["yaxis"]
