"""The rows of a point: every plan at every size of its scenario, simulated, or why it was refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from simfrontier.errors import SimfrontierError
from simfrontier.scenario import Scenario, scenario_of
from simfrontier.simulation import Fidelity
from simfrontier.study import PlanOutcome, ScheduleCache, completed, run_case
from simfrontier.sweep.columns import Row
from simfrontier.sweep.keys import KeyForms
from simfrontier.sweep.study import Point
from simfrontier.tuning import GridSearcher

MOST_KEPT = 64  # schedules that a process keeps for the points to come: those of many plans of one scenario


@dataclass
class PointRunner:
    """Simulates points of a study one after the other, with what they share: the documents of the scenarios, by path,
    and the schedules. `fidelity`: instead of that of the scenarios."""

    documents: Mapping[str, Mapping[str, Any]]
    fidelity: Fidelity | None
    schedule_cache: ScheduleCache = field(default_factory=ScheduleCache)
    forms: KeyForms = field(default_factory=KeyForms)

    def rows_of(self, point: Point) -> list[Row]:
        """The rows of a point, in the order of its scenario's plans, then sizes. What the simulator refuses is a row
        that has its reason in `error`: a plan at a size, or the whole point."""
        if len(self.schedule_cache.known) > MOST_KEPT:
            self.schedule_cache.known.clear()
        document = self.documents[point.scenario]
        try:
            scenario = scenario_of(document, point.scenario, self.forms.put(point.settings), laid_out=False)
            if any(scenario.at(size).searches for size in scenario.file.run.devices):
                scenario = GridSearcher(schedule_cache=self.schedule_cache).complete(scenario, lambda _: None)
        except SimfrontierError as error:
            return [{"scenario": str(document.get("name")), "error": _told(error, point.scenario)}]
        return self._simulated(scenario, point.scenario)

    def _simulated(self, scenario: Scenario, where: str) -> list[Row]:
        fidelity = self.fidelity or scenario.file.run.fidelity
        outcomes: list[PlanOutcome] = []
        rows: list[Row] = []
        for plan in scenario.plans:
            for devices in scenario.file.run.devices:
                try:
                    outcome = run_case(scenario, plan, devices, fidelity, False, False, self.schedule_cache)
                except SimfrontierError as error:
                    told = _told(error, where)
                    rows.append({"scenario": scenario.name, "plan": plan, "devices": devices, "error": told})
                    continue
                outcomes.append(outcome)
                rows.append(outcome.row)
        completed(scenario, outcomes)  # which fills in the outcomes' rows
        return [{column: None if cell == "" else cell for column, cell in row.items()} for row in rows]


def _told(error: SimfrontierError, where: str) -> str:
    """The reason without the place of the scenario's file, which differs from machine to machine."""
    return str(error).replace(f"{where}: ", "")
