"""The section on what changed since an earlier prediction."""

from __future__ import annotations

import re
from typing import Any

import pytest

from simfrontier.errors import InputError
from simfrontier.report.earlier import earlier
from simfrontier.report.view import View
from simfrontier.scenario import scenario_of
from simfrontier.study import run_study
from tests.report.studies import SCENARIO

PLAIN = {key: value for key, value in SCENARIO.items() if key != "sensitivity"}
EARLIER: dict[str, Any] = {
    "title": "an older model",
    "devices": 8,
    "changes": ["rings were mended", "links <are> faster"],
    "tflops_per_device": {"zero3": 1.0, "ddp": 2.0},
}


def shown(changed: dict[str, Any]) -> str:
    return earlier(View(study=run_study(scenario_of({**PLAIN, "earlier": changed}, "f"))))


def test_it_sets_then_beside_now() -> None:
    page = shown(EARLIER)
    assert "Then: an older model. TFLOPS per " in page
    assert "<li>rings were mended</li>" in page and "links &lt;are&gt; faster" in page
    cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", page)[6:]  # after the head
    assert [cells[0], cells[4], cells[6], cells[10]] == ["zero3", "1.000", "ddp", "2.000"]  # of zero3, then
    assert cells[5] == "1.000" and float(cells[11]) > 0.0  # of zero3, now


def test_a_size_that_was_not_run_shows_nothing() -> None:
    assert shown({**EARLIER, "devices": 4096}) == ""


@pytest.mark.parametrize("key", ["title", "devices", "changes", "tflops_per_device"])
def test_every_part_is_needed(key: str) -> None:
    with pytest.raises(InputError) as caught:
        shown({name: value for name, value in EARLIER.items() if name != key})
    assert str(caught.value) == f"f: earlier.{key}: missing"
