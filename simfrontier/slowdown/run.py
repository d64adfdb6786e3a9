"""Simulating what trouble costs: every plan of a scenario healthy, in every case, with each kind of device and of link
lagging."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from simfrontier.analysis import BOUNDARIES, PARTS, exposure, time_spent, traffic, why_faster
from simfrontier.errors import InputError
from simfrontier.machine import HEALTHY, Perturbation
from simfrontier.scenario import Scenario, SlowdownTable
from simfrontier.simulation import Fidelity, JobStopsError, SimulatedStep, fullest
from simfrontier.slowdown.lagging import classes_of_devices, lagging_device, lagging_links
from simfrontier.slowdown.results import HealthyStep, LaggingDevices, LaggingLinks, Slowdown, SlowedPlan, TroubledStep
from simfrontier.slowdown.why import case_sentence, verdict_of
from simfrontier.study import BuiltSchedule, ScheduleCache, simulated
from simfrontier.tuning import GridSearcher, NothingFitsError

MOST_CLASSES = 64  # of devices, and of links, that are simulated for a plan: those with the most members
DOES_NOT_FIT = "does not fit"
FLOW_ONLY = "changes within the step, or from call to call: at fidelity flow only"


def num_slowdowns(scenario: Scenario) -> int:
    """How often `run_slowdown` calls its `progress`."""
    table = scenario.file.slowdown
    return 0 if table is None else len(scenario.plans) * (len(table.cases) + 2)


def run_slowdown(
    scenario: Scenario,
    fidelity: Fidelity,
    progress: Callable[[str], None] = lambda _: None,
    schedule_cache: ScheduleCache | None = None,
    jobs: int = 1,
) -> Slowdown | None:
    """What the troubles of the scenario's table `slowdown` cost, each compared with a machine on which nothing is wrong
    (whatever the table `perturbation` says); None without that table. Single messages are not simulated for it: of
    fidelity `chunk` it is `flow`. `schedule_cache`: what is built already; `jobs`: processes, each for a plan at a
    time."""
    table = scenario.file.slowdown
    if table is None:
        return None
    chosen: Fidelity = "flow" if fidelity == "chunk" else fidelity
    plans = tuple(_plans(scenario, table, chosen, schedule_cache or ScheduleCache(), jobs, progress))
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


def _plans(
    scenario: Scenario,
    table: SlowdownTable,
    fidelity: Fidelity,
    schedule_cache: ScheduleCache,
    jobs: int,
    progress: Callable[[str], None],
) -> Iterator[SlowedPlan]:
    if min(jobs, len(scenario.plans)) <= 1:
        searcher = GridSearcher(schedule_cache=schedule_cache)
        for plan in scenario.plans:
            yield _plan(scenario, plan, table, fidelity, searcher, progress)
        return
    from simfrontier.pool import Pool

    with Pool(min(jobs, len(scenario.plans))) as pool:
        calls = [(scenario, plan, table, fidelity, GridSearcher(), _silent) for plan in scenario.plans]
        for one in pool.in_order(_plan, calls):
            for _ in range(len(table.cases) + 2):
                progress(f"{one.plan}: troubles")
            yield one


def _silent(_: str) -> None:
    """Progress that nobody is told of."""


def _plan(
    scenario: Scenario,
    plan: str,
    table: SlowdownTable,
    fidelity: Fidelity,
    searcher: GridSearcher,
    progress: Callable[[str], None],
) -> SlowedPlan:
    size = scenario.troubled_size
    try:
        decided = searcher.resolved(scenario, (size,), (plan,))
    except NothingFitsError:
        return _misfit(plan, table, progress)
    case = decided.case(plan, size)
    runner = _Troubled(decided, searcher.schedule_cache.of_case(decided, case), fidelity)
    if fullest(runner.healthy, runner.built.peaks).peak_bytes > scenario.machine.device.hbm_bytes:
        return _misfit(plan, table, progress)
    cases = {}
    for each in table.cases:
        cases[each.label] = runner.case(each.perturbation)
        progress(f"{plan}: {each.label}")
    devices = runner.devices(table.device_factor) if table.device_factor < 1.0 else None
    progress(f"{plan}: lagging devices")
    links = tuple(runner.links(table.link_factor)) if table.link_factor < 1.0 else ()
    progress(f"{plan}: lagging links")
    return SlowedPlan(
        plan=plan, healthy=_healthy(runner.healthy, case.samples), cases=cases, devices=devices, links=links
    )


def _misfit(plan: str, table: SlowdownTable, progress: Callable[[str], None]) -> SlowedPlan:
    for _ in range(len(table.cases) + 2):
        progress(f"{plan} {DOES_NOT_FIT}")
    return SlowedPlan(plan=plan, misfit=DOES_NOT_FIT, cases={})


class _Troubled:
    """Steps of one plan with something wrong, against the healthy one."""

    def __init__(self, scenario: Scenario, built: BuiltSchedule, fidelity: Fidelity) -> None:
        self.scenario, self.built, self.fidelity = scenario, built, fidelity
        self.healthy = self.step(HEALTHY)

    def step(self, perturbation: Perturbation) -> SimulatedStep:
        return simulated(self.scenario, self.built, self.fidelity, perturbation=perturbation)

    def slowdown(self, perturbation: Perturbation) -> float:
        return self.step(perturbation).step_s / self.healthy.step_s

    def case(self, perturbation: Perturbation) -> TroubledStep:
        if (perturbation.is_timed or perturbation.calls_differ) and self.fidelity != "flow":
            return TroubledStep(step_s=None, slowdown=None, sentence=FLOW_ONLY)
        try:
            step = self.step(perturbation)
        except (JobStopsError, InputError) as error:
            return TroubledStep(step_s=None, slowdown=None, sentence=str(error).rpartition(" devices: ")[2])
        return TroubledStep(
            step_s=step.step_s,
            slowdown=step.step_s / self.healthy.step_s,
            sentence=why_faster(time_spent(step), time_spent(self.healthy), "a healthy step"),
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
