"""The section on what changed since an earlier prediction."""

from __future__ import annotations

import re
from typing import Any

import pytest

from simfrontier.errors import InputError
from simfrontier.report.earlier import earlier
from simfrontier.report.view import StudyView
from simfrontier.scenario import scenario_of
from simfrontier.simulation import Fidelity
from simfrontier.study import run_study
from tests.report.studies import SCENARIO

PLAIN = {key: value for key, value in SCENARIO.items() if key != "sensitivity"}
EARLIER: dict[str, Any] = {
    "title": "an older model",
    "devices": 8,
    "changes": ["rings were mended", "links <are> faster"],
    "tflops_per_device": {"zero3": 1.0, "ddp": 2.0},
}


def shown(
    changed: dict[str, Any],
    settings: dict[str, Any] | None = None,
    plans: tuple[str, ...] = (),
    fidelity: Fidelity | None = None,
) -> str:
    scenario = scenario_of({**PLAIN, "earlier": changed}, "f", settings, plans)
    return earlier(StudyView(study=run_study(scenario, fidelity)))


def test_it_sets_then_beside_now() -> None:
    page = shown(EARLIER)
    assert "Then: an older model. TFLOPS per " in page
    assert "<li>rings were mended</li>" in page and "links &lt;are&gt; faster" in page
    cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", page)[6:]  # after the head
    assert [cells[0], cells[4], cells[6], cells[10]] == ["zero3", "1.000", "ddp", "2.000"]  # of zero3, then
    assert cells[5] == "1.000" and float(cells[11]) > 0.0  # of zero3, now


def test_changes_are_a_plain_list_behind_signed_per_cents() -> None:
    now = float(re.findall(r"<td>(.*?)</td>", shown(EARLIER))[1])
    page = shown({**EARLIER, "tflops_per_device": {"zero3": now / 2.0, "ddp": 1e9}})
    cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", page.replace("\u00a0", " "))[6:]
    assert cells[3].startswith("+") and abs(float(cells[3].strip("+ %")) - 100.0) < 0.2  # now is given in 3 digits
    assert cells[9] == "−100 %"
    assert "<ul>" in page and "findings" not in page


def test_a_size_or_plans_that_were_not_run_show_nothing() -> None:
    assert shown({**EARLIER, "devices": 4096}) == ""
    assert shown(EARLIER, plans=("zeropp",)) == ""


def test_a_plan_that_was_not_run_is_not_said_to_be_too_big() -> None:
    page = shown(EARLIER, plans=("ddp", "zeropp"))
    assert "not run" in page and "does not fit" not in page
    cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", page)[6:]
    assert cells[:6] == ["zero3", "1.00", "not run", "–", "1.000", "–"]
    assert cells[11] == "–"  # ddp was run, but not the plan that it is compared with


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
    assert bool(shown(EARLIER, settings, fidelity=fidelity)) is is_shown


@pytest.mark.parametrize("key", ["title", "devices", "changes", "tflops_per_device"])
def test_every_part_is_needed(key: str) -> None:
    with pytest.raises(InputError) as caught:
        shown({name: value for name, value in EARLIER.items() if name != key})
    assert str(caught.value) == f"f: earlier.{key}: missing"
