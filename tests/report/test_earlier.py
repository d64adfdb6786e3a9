"""What changed since an earlier prediction."""

from __future__ import annotations

from typing import Any

import pytest

from simfrontier.errors import InputError
from simfrontier.report.findings.earlier import Earlier, earlier_of
from simfrontier.report.page import page
from simfrontier.report.view import StudyView
from simfrontier.scenario import scenario_of
from simfrontier.simulation import Fidelity
from simfrontier.study import run_study
from tests.facts import says
from tests.report.studies import SCENARIO
from tests.report.test_page import Page

PLAIN = {key: value for key, value in SCENARIO.items() if key != "sensitivity"}
EARLIER: dict[str, Any] = {
    "title": "an older model",
    "devices": 8,
    "changes": ["rings were mended", "links <are> faster"],
    "tflops_per_device": {"zero3": 1.0, "ddp": 2.0},
}


def found(
    changed: dict[str, Any],
    settings: dict[str, Any] | None = None,
    plans: tuple[str, ...] = (),
    fidelity: Fidelity | None = None,
) -> Earlier | None:
    scenario = scenario_of({**PLAIN, "earlier": changed}, "f", settings, plans)
    return earlier_of(StudyView(study=run_study(scenario, fidelity)))


def test_it_sets_then_beside_now() -> None:
    scenario = scenario_of({**PLAIN, "earlier": EARLIER}, "f")
    done = run_study(scenario)
    made = earlier_of(StudyView(study=done))
    assert made is not None
    assert (made.title, made.devices, made.changes) == (
        "an older model",
        8,
        ("rings were mended", "links <are> faster"),
    )
    now = {o.plan: o.row["tflops_per_device"] for o in done.outcomes if o.devices == 8}
    assert [(one.plan, one.then, one.now, one.state) for one in made.rates] == [
        ("zero3", 1.0, now["zero3"], ""),
        ("ddp", 2.0, now["ddp"], ""),
    ]
    html = page(done)
    assert "<li>rings were mended</li>" in html and "links &lt;are&gt; faster" in html
    assert says(Page(html).words, "ddp", "2.00", "2.000")  # then, and relative to zero3


def test_a_size_or_plans_that_were_not_run_show_nothing() -> None:
    assert found({**EARLIER, "devices": 4096}) is None
    assert found(EARLIER, plans=("zeropp",)) is None


def test_a_plan_that_was_not_run_is_not_said_to_be_too_big() -> None:
    made = found(EARLIER, plans=("ddp", "zeropp"))
    assert made is not None
    zero3, ddp = made.rates
    assert (zero3.plan, zero3.now, zero3.state) == ("zero3", None, "not run")
    assert ddp.now is not None and ddp.state == ""


@pytest.mark.parametrize(
    ("settings", "fidelity", "is_shown"),
    [
        ({"training.micro_batch": 2}, None, False),
        ({"machine.name": "toy-quad", "run.devices": [4]}, None, False),
        (None, "analytic", False),
        (None, "flow", True),
        ({"uncertainty.samples": 0}, None, True),  # leaves every rate as it is
        ({"run.devices": [8]}, None, True),
    ],
)
def test_results_of_other_settings_are_not_changes(
    settings: dict[str, Any] | None, fidelity: Fidelity | None, is_shown: bool
) -> None:
    assert (found(EARLIER, settings, fidelity=fidelity) is not None) is is_shown


@pytest.mark.parametrize("key", ["title", "devices", "changes", "tflops_per_device"])
def test_every_part_is_needed(key: str) -> None:
    with pytest.raises(InputError) as caught:
        found({name: value for name, value in EARLIER.items() if name != key})
    assert str(caught.value) == f"f: earlier.{key}: missing"
