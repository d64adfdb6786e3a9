"""Simulating what trouble costs: every plan of a scenario healthy, in every case, with each kind of device and of link
lagging."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np

from simfrontier.analysis import BOUNDARIES, PARTS, exposure, time_spent, traffic, why_faster
from simfrontier.errors import InputError
from simfrontier.machine import HEALTHY, Perturbation
from simfrontier.records import dataclass
from simfrontier.scenario import Scenario, SlowdownTable
from simfrontier.simulation import Fidelity, JobStopsError, SimulatedStep, fullest, speed_error
from simfrontier.slowdown.lagging import classes_of_devices, lagging_device, lagging_links
from simfrontier.slowdown.results import HealthyStep, LaggingDevices, LaggingLinks, Slowdown, SlowedPlan, TroubledStep
from simfrontier.slowdown.why import case_sentence, verdict_of
from simfrontier.study import BuiltSchedule, ScheduleCache, simulated
from simfrontier.tuning import GridSearcher, NothingFitsError
from simfrontier.workers import Local, PerProcess, Workers

MOST_CLASSES = 64  # of devices, and of links, that are simulated for a plan: those with the most members
DOES_NOT_FIT = "does not fit"
FLOW_ONLY = "changes within the step: at fidelity flow only"


def num_slowdowns(scenario: Scenario) -> int:
    """How often `run_slowdown` calls its `progress`."""
    table = scenario.file.slowdown
    return 0 if table is None else len(scenario.plans) * (len(table.cases) + 2)


def run_slowdown(
    scenario: Scenario,
    fidelity: Fidelity,
    progress: Callable[[str], None] = lambda _: None,
    workers: Workers | None = None,
    schedules: PerProcess[ScheduleCache] | None = None,
) -> Slowdown | None:
    """What the troubles of the scenario's table `slowdown` cost, each compared with a machine on which nothing is wrong
    (whatever the table `perturbation` says); None without that table. Single messages are not simulated for it: of
    fidelity `chunk` it is `flow`. `workers`: who does it, a trouble at a time (None: this process); `schedules`: what
    is built is taken from there and kept there."""
    table = scenario.file.slowdown
    if table is None:
        return None
    chosen: Fidelity = "flow" if fidelity == "chunk" else fidelity
    schedules = schedules or PerProcess(ScheduleCache)
    plans = tuple(_plans(scenario, table, chosen, workers or Workers(Local()), schedules, progress))
    return Slowdown(
        devices=scenario.troubled_size,
        devices_per_node=scenario.machine.devices_per_node,
        fidelity=chosen,
        device_factor=table.device_factor,
        link_factor=table.link_factor,
        cases=tuple(case.label for case in table.cases),
        plans=plans,
        sentences=tuple(case_sentence(case.label, case.perturbation, plans) for case in table.cases),
        verdict=verdict_of(plans),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The healthy step of a plan, and one of the things that trouble costs it."""

    healthy: HealthyStep
    case: TroubledStep | None = None
    devices: LaggingDevices | None = None
    links: tuple[LaggingLinks, ...] = ()


def _plans(
    scenario: Scenario,
    table: SlowdownTable,
    fidelity: Fidelity,
    workers: Workers,
    schedules: PerProcess[ScheduleCache],
    progress: Callable[[str], None],
) -> Iterator[SlowedPlan]:
    """The plans in order; each of their parts is a call, so that plans of which a step takes long are shared out."""
    known = PerProcess(_HealthyPlans, scenario, fidelity, schedules)
    num_parts = len(table.cases) + 2
    names = (*(case.label for case in table.cases), "lagging devices", "lagging links")
    made = workers.in_order(_part, ((known, plan, number) for plan in scenario.plans for number in range(num_parts)))
    for plan in scenario.plans:
        parts: list[_Part | None] = []
        for name in names:
            parts.append(next(made))
            progress(f"{plan}: {name}")
        yield _slowed(plan, table, [part for part in parts if part is not None])


def _slowed(plan: str, table: SlowdownTable, parts: Sequence[_Part]) -> SlowedPlan:
    if not parts:
        return SlowedPlan(plan=plan, misfit=DOES_NOT_FIT, cases={})
    *cases, devices, links = parts
    by_label = {case.label: part.case for case, part in zip(table.cases, cases, strict=True) if part.case is not None}
    return SlowedPlan(plan=plan, healthy=links.healthy, cases=by_label, devices=devices.devices, links=links.links)


def _part(known: PerProcess[_HealthyPlans], plan: str, number: int) -> _Part | None:
    """A part of a plan: a case of the table, or what comes after them, lagging devices and links. None where the plan
    does not fit."""
    runner = known.here.of(plan)
    if runner is None:
        return None
    table = runner.table
    if number < len(table.cases):
        return _Part(healthy=runner.summary, case=runner.case(table.cases[number].perturbation))
    if number == len(table.cases):
        is_asked = table.device_factor < 1.0
        return _Part(healthy=runner.summary, devices=runner.devices(table.device_factor) if is_asked else None)
    is_asked = table.link_factor < 1.0
    return _Part(healthy=runner.summary, links=tuple(runner.links(table.link_factor)) if is_asked else ())


class _HealthyPlans:
    """Plans with nothing wrong, of which the last one is kept: a process works on one after the other."""

    def __init__(self, scenario: Scenario, fidelity: Fidelity, schedules: PerProcess[ScheduleCache]) -> None:
        self.scenario, self.fidelity = scenario, fidelity
        self.searcher = GridSearcher(schedule_cache=schedules.here)
        self._last: tuple[str, _Troubled | None] | None = None

    def of(self, plan: str) -> _Troubled | None:
        """None for a plan that does not fit."""
        if self._last is None or self._last[0] != plan:
            self._last = plan, self._simulated(plan)
        return self._last[1]

    def _simulated(self, plan: str) -> _Troubled | None:
        size = self.scenario.troubled_size
        try:
            decided = self.searcher.resolved(self.scenario, (size,), (plan,))
        except NothingFitsError:
            return None
        case = decided.case(plan, size)
        built = self.searcher.schedule_cache.of_case(decided, case)
        runner = _Troubled(decided.of(plan, size), built, self.fidelity, case.samples)
        capacity = runner.healthy.cluster.machine.device.hbm_bytes
        return runner if fullest(runner.healthy, built.peaks).peak_bytes <= capacity else None


class _Troubled:
    """Steps of one plan with something wrong, against the healthy one."""

    def __init__(self, scenario: Scenario, built: BuiltSchedule, fidelity: Fidelity, samples: int) -> None:
        self.scenario, self.built, self.fidelity, self.samples = scenario, built, fidelity, samples
        self.healthy = self.step(HEALTHY)

    @property
    def table(self) -> SlowdownTable:
        table = self.scenario.file.slowdown
        assert table is not None, "or there was nothing to do"
        return table

    @cached_property
    def summary(self) -> HealthyStep:
        return _healthy(self.healthy, self.samples)

    def step(self, perturbation: Perturbation) -> SimulatedStep:
        return simulated(self.scenario, self.built, self.fidelity, perturbation=perturbation)

    def slowdown(self, perturbation: Perturbation) -> float:
        return self.step(perturbation).step_s / self.healthy.step_s

    def case(self, perturbation: Perturbation) -> TroubledStep:
        if perturbation.is_timed and self.fidelity != "flow":
            return TroubledStep(step_s=None, slowdown=None, sentence=FLOW_ONLY)
        try:
            step = self.step(perturbation)
        except (JobStopsError, InputError) as error:
            return TroubledStep(step_s=None, slowdown=None, sentence=str(error).rpartition(" devices: ")[2])
        off = speed_error(step)
        return TroubledStep(
            step_s=step.step_s,
            slowdown=step.step_s / self.healthy.step_s,
            sentence=why_faster(time_spent(step), time_spent(self.healthy), "a healthy step"),
            speed_error=0.0 if off is None else off.step,
        )

    def devices(self, factor: float) -> LaggingDevices:
        cluster = self.healthy.cluster
        count = cluster.folding.rank_count
        chosen = np.sort(np.argsort(-count, kind="stable")[:MOST_CLASSES])
        slowdown = np.full(len(count), math.nan)
        for cls in chosen.tolist():
            slowdown[cls] = self.slowdown(lagging_device(cluster, cls, factor))
        return LaggingDevices(class_of=classes_of_devices(cluster), slowdown=tuple(slowdown.tolist()))

    def links(self, factor: float) -> Iterator[LaggingLinks]:
        found = list(lagging_links(self.healthy.cluster, factor))
        largest = sorted(range(len(found)), key=lambda at: -found[at].num_links)[:MOST_CLASSES]
        for at, each in enumerate(found):
            yield LaggingLinks(
                link_class=each.link_class,
                example=each.example,
                num_links=each.num_links,
                slowdown=self.slowdown(each.perturbation) if at in largest else math.nan,
            )


def _healthy(step: SimulatedStep, samples: int) -> HealthyStep:
    spent, moved = exposure(step), traffic(step)
    sent = {boundary: sum(moved.total(boundary, part) for part in PARTS) for boundary in BOUNDARIES}
    total = sum(sent.values())
    return HealthyStep(
        step_s=step.step_s,
        samples=samples,
        kernel_share=spent.compute / step.step_s,
        between_nodes_share=spent.inter_node / step.step_s,
        crossing_share=sent["inter_node"] / total if total else 0.0,
    )
