"""Worker process of the live page: simulate the plans that are given to it, and show the step of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from simfrontier.answers.step import DRAWN_PARTS, link_use, node_links, traffic
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
from simfrontier.core.engine import MemoryTimeline, SimulatedStep, Walk, fullest, spans_of
from simfrontier.core.machine import Machine
from simfrontier.core.program import Peak
from simfrontier.core.trace import Span
from simfrontier.inputs.scenario import Scenario
from simfrontier.interfaces.live.state import LiveState, controls_of, scenario_at
from simfrontier.interfaces.report import (
    MEMORY_COLOURS,
    SPAN_COLOURS,
    WHOLE,
    drawn_memory,
    drawn_use,
    kind_of,
    lanes_of,
    node_drawing,
    op_name,
)


def step_view(machine: Machine, plan: str, step: SimulatedStep, peaks: Sequence[Peak]) -> dict[str, Any]:
    """The step on the rank that ends last, as JSON has it; times in microseconds, shares of links of `whole_link`."""
    spans, moved = spans_of(Walk(step=step, cls=step.critical)), traffic(step)
    use, loads = link_use(step, moved, "name", DRAWN_PARTS), node_links(step, moved)
    memory = fullest(step, peaks)
    kinds = [kind for kind in (*MEMORY_COLOURS, *sorted(set(memory.held) - set(MEMORY_COLOURS))) if kind in memory.held]
    return {
        "plan": plan,
        "step_us": 1e6 * step.step_s,
        **_spans(spans),
        "memory": _memory(memory, kinds),
        "kinds": [{"name": kind, "colour": MEMORY_COLOURS.get(kind, MEMORY_COLOURS["other"])} for kind in kinds],
        "capacity_bytes": step.pricing.machine.device.hbm_bytes,
        "links": drawn_use(use, machine, step.pricing.fabric.num_nodes),
        "num_parts": DRAWN_PARTS,
        "whole_link": WHOLE,
        "drawing": node_drawing(machine, loads, 1.0, f"Node of {machine.title}: utilisation of links"),
    }


def _spans(spans: Sequence[Span]) -> dict[str, Any]:
    """Spans as columns: microseconds, and numbers of lanes, names and kinds."""
    lanes, kinds = lanes_of(spans), list(SPAN_COLOURS)
    names = {name: number for number, name in enumerate(dict.fromkeys(map(_name, spans)))}
    return {
        "lanes": lanes,
        "colours": [{"name": name, "colour": SPAN_COLOURS[name]} for name in kinds],
        "names": list(names),
        "spans": {
            "start": [round(1e6 * span.start_s, 2) for span in spans],
            "end": [round(1e6 * span.end_s, 2) for span in spans],
            "lane": [lanes.index(span.lane) for span in spans],
            "name": [names[_name(span)] for span in spans],
            "kind": [kinds.index(kind_of(span)) for span in spans],
        },
    }


def _name(span: Span) -> str:
    return f"{op_name(span)}{f' over {span.axes}' if span.axes else ''}, {span.call}, layer {span.layer}"


def _memory(held: MemoryTimeline, kinds: Sequence[str]) -> dict[str, Any]:
    """Return what is held from each time (µs) to the next, by kind, as the memory of a step is drawn."""
    times, values = drawn_memory(held)
    return {
        "times": np.round(1e6 * times, 2).tolist(),
        "held": [np.rint(values[kind]).astype(np.int64).tolist() for kind in kinds],
        "peak_bytes": held.peak_bytes,
    }


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
