"""The live page itself: its controls as HTML, its script and style; everything else comes with the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simfrontier.inputs.scenario import Scenario
from simfrontier.interfaces.report.drawing import STOPS
from simfrontier.interfaces.report.render import render


def live_page(scenario: Scenario, controls: Sequence[Any], moves: Mapping[str, Sequence[str]]) -> str:
    """The page of a scenario, which loads nothing from anywhere. `controls`: `live.controls.Control`; `moves`: texts of
    a control's values in a link."""
    return render(
        "pages/live.html.j2",
        title=scenario.file.title,
        scenario=scenario.where,
        given=scenario.settings,
        device=scenario.machine.device_word,
        controls=controls,
        moves=moves,
        stops=STOPS,
    )
