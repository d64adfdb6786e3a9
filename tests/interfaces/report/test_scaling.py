"""Charts of rates: published values beside simulated ones, and the plans at a single size."""

import pytest

from simfrontier.interfaces.report.headline import rate_interval
from simfrontier.interfaces.report.scaling import PublishedPoint, rates, step_times
from simfrontier.interfaces.report.view import StudyView, result_row
from tests.interfaces.report.studies import full, mlp


def published(plan: str, devices: int, value: float) -> PublishedPoint:
    return PublishedPoint(plan=plan, devices=devices, value=value, words=plan)


def test_published_values_never_stretch_the_axis() -> None:
    """A thousand times and a thousandth of what is simulated stand at the ends as arrows, with their value in words."""
    view = StudyView(study=full()[0])
    plain = [value for trace in rates(view)["data"] for value in trace["y"]]
    low, high = min(plain), max(plain)
    far = [published("zero3", 8, 1e3 * high), published("ddp", 8, 1e-3 * low), published("ddp", 2, (low + high) / 2)]
    *_, zero3, ddp = rates(view, far)["data"]
    assert zero3["marker"]["symbol"] == ["triangle-up"] and ddp["marker"]["symbol"] == ["triangle-down", "star"]
    reach = 0.1 * (high - low)
    assert all(low - reach <= value <= high + reach for value in (*zero3["y"], *ddp["y"]))
    assert zero3["y"][0] > high and ddp["y"][0] < low and ddp["y"][1] == pytest.approx((low + high) / 2)
    assert f"{1e3 * high:,.0f}"[:3] in zero3["name"]


def test_one_size_is_a_bar_for_each_plan_with_its_interval() -> None:
    """Interval of rate and step: their product is the work of the bar, whichever end."""
    view = StudyView(study=mlp())
    [bars], [steps] = rates(view)["data"], step_times(view)["data"]
    for number, plan in enumerate(bars["y"]):
        outcome = next(each for each in view.ranked if each.plan == plan)
        rate, step = bars["x"][number], steps["x"][number]
        above, below = bars["error_x"]["array"][number], bars["error_x"]["arrayminus"][number]
        assert (rate - below, rate + above) == pytest.approx(rate_interval(result_row(outcome)))
        assert (step - steps["error_x"]["arrayminus"][number]) * (rate + above) == pytest.approx(rate * step)
    assert sorted(bars["y"]) == sorted(each.plan for each in view.ranked)
    star = rates(view, [published(bars["y"][0], 8, 1e9)])["data"][-1]
    assert star["marker"]["symbol"] == ["triangle-right"] and star["x"][0] <= max(
        map(sum, zip(bars["x"], bars["error_x"]["array"], strict=True))
    )
