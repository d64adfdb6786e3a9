"""What `tune` estimates of plans, for points of a search that are not simulated yet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from simfrontier.cost import Prices
from simfrontier.errors import InputError
from simfrontier.io import frozen
from simfrontier.scenario import Scenario
from simfrontier.tuning import Estimate, SmallSchedules, estimate

MOST_MACHINES: Final = 8  # of which small schedules are kept, those that were asked for last


class Estimates:
    """Estimates in closed form; small schedules are kept by all that they depend on beside the plan."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, SmallSchedules] = OrderedDict()

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
        perturbation = frozen(file.model_dump(include={"perturbation"}))
        key = (devices, scenario.machine, scenario.library, file.run.placement, perturbation)
        if key not in self._known:
            prices = Prices(scenario.machine, scenario.library, devices, file.perturbation, file.run.placement)
            self._known[key] = SmallSchedules(prices)
            if len(self._known) > MOST_MACHINES:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]
