"""The rows of a setting: its plans at its sizes, simulated, or why they were refused."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from simfrontier.answers.experiments.digests import Setting
from simfrontier.answers.search import GridSearcher, NothingFitsError
from simfrontier.answers.study import PlanOutcome, ScheduleCache, completed, run_case
from simfrontier.base.errors import SimfrontierError
from simfrontier.base.io import frozen
from simfrontier.core.engine import Fidelity
from simfrontier.inputs.scenario import COMPARING, Scenario

Row: TypeAlias = dict[str, Any]  # the columns of results, None where it has none; and `error`, why it was refused
MOST_SCHEDULES: Final = 256  # that a process keeps for the settings to come: those of many plans and candidates
MOST_OUTCOMES: Final = 512
NO_SAY: Final = ("title", "plans", *COMPARING, "goodput", "tune")  # tables that a plan's row does not depend on


@dataclass
class RowRunner:
    """Simulates settings one after the other, with what they share: schedules, and plans that a change leaves as they
    are."""

    searcher: GridSearcher = field(default_factory=GridSearcher)
    outcomes: dict[Hashable, PlanOutcome] = field(default_factory=dict)

    @property
    def schedule_cache(self) -> ScheduleCache:
        return self.searcher.schedule_cache

    def rows_of(self, setting: Setting) -> list[Row]:
        """Return the rows of a setting, in the order of its plans, then sizes. What the simulator refuses is a row that
        has its reason in `error`: a plan at a size, or the whole setting."""
        if len(self.schedule_cache.known) > MOST_SCHEDULES:
            self.schedule_cache.known.clear()
        try:
            scenario = setting.scenario()
        except SimfrontierError as error:
            return [{"scenario": str(setting.document.get("name")), "error": _told(error, setting.where)}]
        fidelity: Fidelity = setting.fidelity or scenario.file.run.fidelity  # type: ignore[assignment]
        outcomes: list[PlanOutcome] = []
        rows: list[Row] = []
        for plan in setting.plans or scenario.plans:
            for devices in scenario.file.run.devices:
                made = self._outcome(scenario, plan, devices, fidelity)
                if isinstance(made, PlanOutcome):
                    outcomes.append(made)
                    rows.append(made.row)
                else:
                    rows.append({"scenario": scenario.name, "plan": plan, "devices": devices, **made})
        completed(scenario, outcomes)  # which fills in the outcomes' rows
        return [{column: None if cell == "" else cell for column, cell in row.items()} for row in rows]

    def _outcome(self, scenario: Scenario, plan: str, devices: int, fidelity: Fidelity) -> PlanOutcome | Row:
        """The outcome of a plan at a size, whose row may be changed; or the columns of a row that has none."""
        try:
            key = _key(scenario, plan, devices, fidelity)
            made = self.outcomes.get(key)
            if made is None:
                decided = self.searcher.resolved(scenario, (devices,), (plan,))
                made = run_case(decided, plan, devices, fidelity, False, False, self.schedule_cache)
                if len(self.outcomes) > MOST_OUTCOMES:
                    self.outcomes.clear()
                self.outcomes[key] = made
        except NothingFitsError as error:
            return {"fits": False, "note": _told(error, scenario.where)}
        except SimfrontierError as error:
            return {"error": _told(error, scenario.where)}
        return replace(made, row=dict(made.row))


def _key(scenario: Scenario, plan: str, devices: int, fidelity: Fidelity) -> Hashable:
    """All that the outcome of a plan at a size may depend on."""
    here = scenario.at(devices)
    search = here.searches.get(plan)
    return (
        *(plan, devices, fidelity, here.plans[plan], here.shared_batch(devices)),
        None if search is None else frozen(search.model_dump()),
        frozen(here.file.model_dump(exclude={**dict.fromkeys(NO_SAY, True), "run": {"devices"}, "at": True})),
    )


def _told(error: SimfrontierError, where: str) -> str:
    """The reason without the place of the scenario's file, which differs from machine to machine."""
    return str(error).replace(f"{where}: ", "")
