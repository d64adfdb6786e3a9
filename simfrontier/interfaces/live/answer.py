"""Computation of what the live page shows for a state of its controls: the rates of all plans, and the step of one plan
over time."""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from simfrontier.answers import study
from simfrontier.answers.search import GridSearcher
from simfrontier.answers.step import DRAWN_PARTS, link_use, node_links, traffic
from simfrontier.answers.study import simulated
from simfrontier.base.units import counted
from simfrontier.base.workers import Local, LostError, PerProcess, Workers
from simfrontier.core.engine import MemoryTimeline, SimulatedStep, Walk, fullest, spans_of
from simfrontier.core.machine import Machine
from simfrontier.core.program import Peak
from simfrontier.core.trace import Span
from simfrontier.inputs.scenario import Scenario
from simfrontier.interfaces.live.control import Control
from simfrontier.interfaces.live.job import DEGREES, GRID, ON_DATA_KEY, has_experts
from simfrontier.interfaces.live.state import LiveState, controls_of, laid_out, own_words, state_of
from simfrontier.interfaces.report.headline import headline_of, rate_interval
from simfrontier.interfaces.report.links import WHOLE, drawn_use, node_drawing
from simfrontier.interfaces.report.parts import PARTS, drawn_memory
from simfrontier.interfaces.report.phrases import in_words
from simfrontier.interfaces.report.summary import verdict
from simfrontier.interfaces.report.theme import MEMORY_COLOURS
from simfrontier.interfaces.report.timeline import SPAN_COLOURS, kind_of, lanes_of, op_name
from simfrontier.interfaces.report.view import RATE, StudyView, result_row

MOST_SCHEDULES: Final = 40  # that a worker keeps
MOST_WORKERS: Final = 8
MOST_ANSWERS: Final = 60  # that are kept: of some half a megabyte each


def step_view(machine: Machine, plan: str, step: SimulatedStep, peaks: Sequence[Peak]) -> dict[str, Any]:
    """Return the step on the rank that ends last as a JSON document: times in microseconds, link utilisation in parts
    of `whole_link`."""
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
    """Return spans as columns: times in microseconds, and indices of lanes, names and kinds."""
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
    """Return the memory of a step by kind as columns: each value holds from its time (µs) to the next."""
    times, values = drawn_memory(held)
    return {
        "times": np.round(1e6 * times, 2).tolist(),
        "held": [np.rint(values[kind]).astype(np.int64).tolist() for kind in kinds],
        "peak_bytes": held.peak_bytes,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Result of the simulation of one plan at one state of the controls."""

    built: study.BuiltSchedule
    step: SimulatedStep
    outcome: study.PlanOutcome


class Worker:
    """Simulations of one scenario in a worker process. It caches built schedules, and the last result of each plan."""

    def __init__(self, base: Scenario) -> None:
        self.base, self.controls = base, controls_of(base)
        self.schedules = study.ScheduleCache()
        self._at: tuple[LiveState, Scenario] | None = None
        self._last: dict[str, tuple[Any, Simulated]] = {}

    def simulated(self, plan: str, state: LiveState) -> Simulated:
        """Simulate a plan in a state of the controls. A plan that the grid's controls leave as it was is not simulated
        again. Raises SimfrontierError for an impossible state."""
        scenario = self.scenario(plan, state)
        case = scenario.case(plan, scenario.file.run.devices[0])
        elsewhere = {key: place for key, place in state.places.items() if key not in (*DEGREES, ON_DATA_KEY)}
        asked = elsewhere, case.options, case.micro_batch, case.grad_accum
        if plan in self._last and self._last[plan][0] == asked:
            return self._last[plan][1]
        if len(self.schedules.known) > MOST_SCHEDULES:
            self.schedules.known.clear()
        built = self.schedules.of_case(scenario, case)
        step = simulated(scenario.of(plan, case.devices), built, scenario.file.run.fidelity)
        if scenario.file.run.steps > 1:
            fidelity = scenario.file.run.fidelity
            outcome = study.run_case(scenario, plan, case.devices, fidelity, False, False, self.schedules)
        else:
            outcome = study.outcome_of(scenario, case, built, step)  # without advice, which lays out more plans
        found = Simulated(built=built, step=step, outcome=outcome)
        self._last[plan] = asked, found
        return found

    def scenario(self, plan: str, state: LiveState) -> Scenario:
        """Return the scenario in a state of the controls, with the options that the plan's search has chosen."""
        if self._at is None or self._at[0].places != state.places:
            self._at = state, laid_out(self.base, self.controls, state).scenario
        scenario, size = self._at[1], self._at[1].file.run.devices[0]
        if plan not in scenario.at(size).searches:
            return scenario
        return GridSearcher(self.schedules).resolved(scenario, (size,), (plan,))


Work = Callable[[PerProcess[Worker], str, LiveState], Any]  # `outcome` or `step_of`


def outcome(worker: PerProcess[Worker], plan: str, state: LiveState) -> study.PlanOutcome:
    """Return the outcome of a plan in a state of the controls, computed in a worker process."""
    return worker.here.simulated(plan, state).outcome


def step_of(worker: PerProcess[Worker], plan: str, state: LiveState) -> dict[str, Any]:
    """Return the step of a plan in the form that the page draws."""
    found = worker.here.simulated(plan, state)
    return step_view(worker.here.base.machine, plan, found.step, found.built.peaks)


class Answerer:
    """Computes and caches the answers for one scenario; a context manager. Plans are distributed over `jobs` workers
    (default: one per core, at most eight); a plan always goes to the same worker, which caches its schedules."""

    def __init__(self, scenario: Scenario, jobs: int | None = None) -> None:
        self.scenario = scenario
        self.controls: Sequence[Control] = controls_of(scenario)
        self.plans = tuple(scenario.plans)
        self._number = min(jobs or os.cpu_count() or 1, MOST_WORKERS, len(self.plans) + 1)
        self._workers = Workers(Local(jobs=max(2, self._number)))  # one alone would work in this process
        self._worker, self._is_open = PerProcess(Worker, scenario), True
        self._likely = ""  # the plan whose step was shown last
        self._known: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()

    def __enter__(self) -> Self:
        self._workers.__enter__()
        for plan in self.plans:  # what is asked first
            self._call(outcome, plan, LiveState(places={}))
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Terminate all workers, even busy ones; requests that still wait get LostError."""
        if self._is_open:
            self._is_open = False
            self._workers.close()

    def state(self, query: Mapping[str, str]) -> LiveState:
        """Parse the query string of a link into a state of the controls. Raises InputError."""
        return state_of(query, self.controls, self.plans)

    def answer(self, state: LiveState) -> bytes:
        """Return the page's content for a state, as JSON. Raises SimfrontierError for an impossible state, and
        LostError if the workers were terminated."""
        key = (state.plan, *sorted(state.places.items()))
        if key not in self._known:
            try:
                found = self._made(state)
            except CancelledError:
                raise LostError("the server is about to end") from None
            self._known[key] = json.dumps(found, allow_nan=False, separators=(",", ":")).encode()
        self._known.move_to_end(key)
        if len(self._known) > MOST_ANSWERS:
            self._known.popitem(last=False)
        return self._known[key]

    def _call(self, work: Work, plan: str, state: LiveState) -> Future[Any]:
        if not self._is_open:
            raise LostError("the server is about to end")
        number = [*self.plans, GRID].index(plan)
        return self._workers.submit(work, self._worker, plan, state, worker=number % self._number)

    def _made(self, state: LiveState) -> dict[str, Any]:
        here = laid_out(self.scenario, self.controls, state)
        scenario = here.scenario
        tasks = [self._call(outcome, plan, state) for plan in scenario.plans]
        likely = self._likely if state.plan not in scenario.plans else state.plan
        step = self._call(step_of, likely, state) if likely in scenario.plans else None
        outcomes = study.completed(scenario, [self._workers.result(task) for task in tasks])
        view = StudyView(
            study=study.Study(scenario=scenario, fidelity=scenario.file.run.fidelity, outcomes=tuple(outcomes))
        )
        rows = [_row(view, each) for each in [*view.ranked, *(o for o in view.drawn if not o.row["fits"])]]
        shown = next((plan for plan in (state.plan, GRID) if plan in scenario.plans), rows[0]["plan"])
        drawn = shown if any(row["plan"] == shown and row["fits"] for row in rows) else ""
        if drawn != likely:
            step = self._call(step_of, drawn, state) if drawn else None
        self._likely = drawn
        left_out = [{"plan": plan, "fits": False, "note": f"left out: {why}"} for plan, why in here.left_out.items()]
        return {
            "verdict": verdict(headline_of(view)),
            "moved": [
                f"{each.label}: {each.words[state.places[each.key]]}"
                for each in self.controls
                if each.key in state.places
            ],
            "own": own_words(scenario),
            "unit": view.rate_unit,
            "work": _work(view, shown),
            "has_experts": has_experts(scenario),
            "parts": [{"name": part.short, "colour": part.colour} for part in PARTS.values()],
            "plans": [*rows, *left_out],
            "shown": shown,
            "step": None if step is None else step.result(),
        }


def _work(view: StudyView, plan: str) -> str:
    """Return the work of a step in words: model, sequences and tokens."""
    shape, samples = view.shapes[view.largest], view.cases[plan, view.largest].samples
    tokens = f" of {shape.sequence:,} tokens ({in_words(samples * shape.sequence)})" if view.counts_tokens else ""
    unit = "sequence" if view.counts_tokens else "sample"
    return f"{shape.name} on {view.largest:,} {view.device}s, {counted(samples, unit)} per step{tokens}"


def _row(view: StudyView, outcome: study.PlanOutcome) -> dict[str, Any]:
    """Return the cells of a plan that the page shows: those of its row of results, and the parts of its step; or the
    reason why it does not fit."""
    row = result_row(outcome)
    made: dict[str, Any] = {"plan": outcome.plan, "colour": view.marks[outcome.plan].colour, "fits": row["fits"]}
    made |= {key: row[key] for key in ("grid", "stack", "peak_memory_bytes", "memory_capacity_bytes")}
    if not row["fits"]:
        return made | {"note": row["note"]}
    low, high = rate_interval(row)
    made |= {key: row[key] for key in ("step_time_s", "mfu", "tflops_per_device")}
    parts = [row[part.column] / row["step_time_nominal_s"] for part in PARTS.values()]
    return made | {"rate": row[RATE], "low": low, "high": high, "parts": parts}
