"""The first chart: published points are drawn where they are."""

from __future__ import annotations

from simfrontier.report.figures.scaling import PublishedPoint, rates
from simfrontier.report.findings.samples import Sampled
from simfrontier.report.findings.scaling import ScaledPlan
from simfrontier.report.theme import PlanMark


def scaled(devices: int, value: float) -> ScaledPlan:
    band = Sampled(low=value - 2, median=value, high=value + 2)
    return ScaledPlan(
        devices=devices, misfit="", rate=value, sampled_rate=band, nominal_rate=value, step_s=1.0, efficiency=1.0
    )


def test_published_points_are_stars_where_they_are() -> None:
    marks = {"one": PlanMark(colour="#0072B2", symbol="circle")}
    points = [
        PublishedPoint(plan="one", devices=size, value=value, words="") for size, value in ((64, 88.0), (8, 170.0))
    ]
    shown = rates({"one": [scaled(8, 80.0), scaled(64, 70.0)]}, marks, "GCD", "tokens/s per GCD", points)
    (stars,) = (trace for trace in shown["data"] if "published" in trace["name"])
    assert (stars["x"], stars["y"], stars["marker"]["symbol"]) == ([64, 8], [88.0, 170.0], "star")


def test_the_axis_does_not_follow_published_points_far_outside() -> None:
    marks = {"one": PlanMark(colour="#0072B2", symbol="circle")}
    far = PublishedPoint(plan="one", devices=64, value=970.0, words="")
    shown = rates({"one": [scaled(8, 80.0), scaled(64, 70.0)]}, marks, "GCD", "tokens/s per GCD", [far])
    clip = shown["layout"]["yaxis"]["autorangeoptions"]
    assert 50.0 < clip["clipmin"] < 68.0 and 82.0 < clip["clipmax"] < 100.0
    assert shown["data"][-1]["name"] == "one, published: 970"
