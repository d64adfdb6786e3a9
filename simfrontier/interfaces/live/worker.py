"""Worker process of the live page: simulate the plans that are given to it, and show the step of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from simfrontier.answers.study import (
    BuiltSchedule,
    PlanOutcome,
    ScheduleCache,
    advised,
    outcome_of,
    run_case,
    simulated,
)
from simfrontier.base.workers import PerProcess
from simfrontier.core.engine import SimulatedStep
from simfrontier.inputs.scenario import Scenario
from simfrontier.interfaces.live.controls import controls_of
from simfrontier.interfaces.live.state import LiveState, scenario_at
from simfrontier.interfaces.live.step_view import step_view

MOST_SCHEDULES: Final = 40  # that a worker keeps


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """A plan's case as it was simulated."""

    built: BuiltSchedule
    step: SimulatedStep
    outcome: PlanOutcome


class Worker:
    """Simulations of one scenario. Schedules that were built are kept, and of each plan what was simulated last."""

    def __init__(self, base: Scenario) -> None:
        self.base, self.controls = base, controls_of(base)
        self.schedules = ScheduleCache()
        self._at: tuple[LiveState, Scenario] | None = None
        self._last: dict[str, tuple[LiveState, Simulated]] = {}

    def simulated(self, plan: str, state: LiveState) -> Simulated:
        """Simulate a plan in a state. Raises SimfrontierError for a state that cannot be."""
        if plan in self._last and self._last[plan][0].places == state.places:
            return self._last[plan][1]
        if len(self.schedules.known) > MOST_SCHEDULES:
            self.schedules.known.clear()
        scenario = self.scenario(plan, state)
        case = scenario.case(plan, scenario.file.run.devices[0])
        built = self.schedules.of_case(scenario, case)
        step = simulated(scenario.of(plan, case.devices), built, scenario.file.run.fidelity)
        if scenario.file.run.steps > 1:
            fidelity = scenario.file.run.fidelity
            outcome = run_case(scenario, plan, case.devices, fidelity, False, False, self.schedules)
        else:
            outcome = advised(scenario, case, outcome_of(scenario, case, built, step))
        found = Simulated(built=built, step=step, outcome=outcome)
        self._last[plan] = state, found
        return found

    def scenario(self, plan: str, state: LiveState) -> Scenario:
        """The scenario of a state, with what its plan searches for decided."""
        if self._at is None or self._at[0].places != state.places:
            self._at = state, scenario_at(self.base, self.controls, state)
        scenario, size = self._at[1], self._at[1].file.run.devices[0]
        if plan not in scenario.at(size).searches:
            return scenario
        from simfrontier.answers.search import GridSearcher

        return GridSearcher(self.schedules).resolved(scenario, (size,), (plan,))


Work = Callable[[PerProcess[Worker], str, LiveState], Any]  # `outcome` or `step_of`


def outcome(worker: PerProcess[Worker], plan: str, state: LiveState) -> PlanOutcome:
    """Return the outcome of a plan."""
    return worker.here.simulated(plan, state).outcome


def step_of(worker: PerProcess[Worker], plan: str, state: LiveState) -> dict[str, Any]:
    """The step of a plan as the page draws it."""
    found = worker.here.simulated(plan, state)
    return step_view(worker.here.base.machine, plan, found.step, found.built.peaks)
