"""What the live page shows of a state: rates of all plans, and the step of one of them over time."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np

from simfrontier.analysis import DRAWN_PARTS, link_use, node_links, traffic
from simfrontier.arrays import Floats
from simfrontier.live.controls import Control, controls_of
from simfrontier.live.state import scenario_at, state_of
from simfrontier.records import dataclass
from simfrontier.report import (
    MEMORY_COLOURS,
    PARTS,
    SPAN_COLOURS,
    WHOLE,
    StudyView,
    drawn_memory,
    drawn_use,
    headline_of,
    kind_of,
    lanes_of,
    median_rate,
    median_step_s,
    node_drawing,
    rate,
    sampled_tflops,
    verdict,
)
from simfrontier.scenario import Scenario
from simfrontier.simulation import MemoryTimeline, SimulatedStep, fullest
from simfrontier.study import BuiltSchedule, PlanOutcome, ScheduleCache, Study, completed, outcome_of, simulated
from simfrontier.trace import Span

SAMPLES: Final = 50  # of a step: enough for a band that is looked at while a slider moves


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """A plan's case as it was simulated."""

    built: BuiltSchedule
    step: SimulatedStep
    outcome: PlanOutcome


class Answerer:
    """Answers of one scenario, one at a time; schedules that were built are kept."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.controls: Sequence[Control] = controls_of(scenario)
        self.plans = tuple(scenario.plans)
        self._cache, self._turn = ScheduleCache(), threading.Lock()

    def answer(self, query: Mapping[str, str]) -> dict[str, Any]:
        """What the page shows, as JSON has it. Raises InputError for a state that cannot be."""
        state = state_of(query, self.controls, self.plans)
        with self._turn:
            scenario = scenario_at(self.scenario, self.controls, state, {"uncertainty.samples": SAMPLES})
            size, found = scenario.file.run.devices[0], {}
            for plan in scenario.plans:
                found[plan] = self._simulated(scenario, plan, size)
            outcomes = completed(scenario, [each.outcome for each in found.values()])
            study = Study(scenario=scenario, fidelity=scenario.file.run.fidelity, outcomes=tuple(outcomes))
            view = StudyView(study=study)
            fitting = [outcome.plan for outcome in view.ranked]
            shown = state.plan if state.plan in fitting else next(iter(fitting), None)
            return {
                "verdict": verdict(headline_of(view)),
                "settings": [each for each in scenario.settings if not each.startswith("uncertainty.")],
                "parts": [{"name": part.short, "colour": part.colour} for part in PARTS.values()],
                "plans": [_rates(view, outcome) for outcome in [*view.ranked, *_misfits(view)]],
                "step": None if shown is None else _step(scenario, found[shown]),
            }

    def _simulated(self, scenario: Scenario, plan: str, size: int) -> Simulated:
        case = scenario.case(plan, size)
        built = self._cache.of_case(scenario, case)
        step = simulated(scenario, built, scenario.file.run.fidelity)
        return Simulated(built=built, step=step, outcome=outcome_of(scenario, case, built, step))


def _misfits(view: StudyView) -> list[PlanOutcome]:
    return [outcome for outcome in view.drawn if not outcome.row["fits"]]


def _rates(view: StudyView, outcome: PlanOutcome) -> dict[str, Any]:
    """The rate of a plan with its band, and the parts of its step; why it does not fit, where it does not."""
    made: dict[str, Any] = {"plan": outcome.plan, "colour": view.marks[outcome.plan].colour}
    if not outcome.row["fits"]:
        return made | {"fits": False, "note": str(outcome.row["note"])}
    parts, step_s = asdict(outcome.exposure), sum(asdict(outcome.exposure).values())
    tflops, band = median_rate(outcome), sampled_tflops(outcome)
    return made | {
        "fits": True,
        "tflops": tflops,
        "low": band.low if band else tflops,
        "high": band.high if band else tflops,
        "typical": rate(outcome),
        "step_s": median_step_s(outcome),
        "parts": [parts[part] / step_s for part in PARTS],
        "peak_bytes": float(outcome.row["peak_memory_bytes"]),
    }


def _step(scenario: Scenario, found: Simulated) -> dict[str, Any]:
    """The step of a plan on the rank that ends last: spans by lane, memory, and the links of an average node."""
    step, machine = found.step, scenario.machine
    spans = step.spans(step.critical)
    moved = traffic(step)
    use, loads = link_use(step, moved, "name", DRAWN_PARTS), node_links(step, moved)
    memory = fullest(step, found.built.peaks)
    kinds = [kind for kind in (*MEMORY_COLOURS, *sorted(set(memory.held) - set(MEMORY_COLOURS))) if kind in memory.held]
    return {
        "plan": found.outcome.plan,
        "step_us": 1e6 * step.step_s,
        **_spans(spans),
        "memory": _memory(memory, kinds),
        "kinds": [{"name": kind, "colour": MEMORY_COLOURS.get(kind, MEMORY_COLOURS["other"])} for kind in kinds],
        "capacity_bytes": machine.device.hbm_bytes,
        "links": drawn_use(use, machine, step.cluster.fabric.num_nodes),
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
    own = span.name if span.name.startswith(span.kind) or span.kind == span.name else f"{span.kind} {span.name}"
    return f"{own}{f' over {span.axes}' if span.axes else ''}, {span.call}, layer {span.layer}"


def _memory(held: MemoryTimeline, kinds: Sequence[str]) -> dict[str, Any]:
    """What is held from each time (µs) to the next, by kind, as the memory of a step is drawn."""
    times, values = drawn_memory(held)
    return {
        "times": np.round(1e6 * times, 2).tolist(),
        "held": [_whole(values[kind]) for kind in kinds],
        "peak_bytes": held.peak_bytes,
    }


def _whole(values: Floats) -> list[int]:
    out: list[int] = np.rint(values).astype(np.int64).tolist()
    return out
