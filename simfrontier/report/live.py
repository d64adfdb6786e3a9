"""The live page itself: its controls as HTML, its script and style; everything else comes with the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from simfrontier.report.drawing import STOPS
from simfrontier.report.render import render
from simfrontier.scenario import Scenario


class Movable(Protocol):
    """A control of the page: a slider, a switch or a choice among values, which have these words."""

    @property
    def key(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def words(self) -> Sequence[str]: ...
    @property
    def at(self) -> int: ...


def live_page(scenario: Scenario, controls: Sequence[Movable], moves: Mapping[str, Sequence[str]]) -> str:
    """The page of a scenario, which loads nothing from anywhere. `moves`: texts of a control's values in a link."""
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
