"""What `tune` estimates of plans, for points of a search that are not simulated yet."""

from __future__ import annotations

from typing import Final

from simfrontier.cost import Prices
from simfrontier.errors import InputError
from simfrontier.scenario import Scenario
from simfrontier.tuning import Estimate, SmallSchedules, estimate

MOST_MACHINES: Final = 8  # of which small schedules are kept, those that were asked for last


class Estimates:
    """Estimates in closed form; small schedules are kept with all that their prices depend on."""

    def __init__(self) -> None:
        self._known: list[tuple[object, SmallSchedules]] = []  # the one that was asked for last comes last

    def of(self, scenario: Scenario, plan: str, devices: int) -> Estimate | None:
        """Of a plan at a size; None where it cannot be made or estimated, or leaves options open."""
        here = scenario.of(plan, devices)
        if plan in here.searches:
            return None
        try:
            return estimate(scenario.case(plan, devices), self._small_schedules(here, devices))
        except InputError:
            return None

    def _small_schedules(self, scenario: Scenario, devices: int) -> SmallSchedules:
        file = scenario.file
        given = scenario.machine, scenario.library, devices, file.perturbation, file.run.placement
        small = next((each for known, each in self._known if known == given), None)
        kept = [pair for pair in self._known if pair[1] is not small]
        small = small or SmallSchedules(Prices(*given))
        self._known = [*kept, (given, small)][-MOST_MACHINES:]
        return small
