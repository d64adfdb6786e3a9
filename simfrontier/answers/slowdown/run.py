"""Simulate degraded components: every plan of a scenario on a healthy machine, in every case, and with one device or
one link of each class lagging.

Ranks of one class in the folding of a healthy step behave alike, and so do links: one step is simulated for each class,
with one member slowed. Members that are equivalent in a healthy step differ once one of them is slowed, and which of
its neighbours share its traffic may then matter: results within a class were observed to differ by up to 5e-6 of a
step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from simfrontier.answers.search import GridSearcher, NothingFitsError
from simfrontier.answers.slowdown.results import (
    HealthyStep,
    LaggingDevices,
    LaggingLinks,
    Slowdown,
    SlowedPlan,
    TroubledStep,
    case_sentence,
    verdict_of,
)
from simfrontier.answers.step import BOUNDARIES, PARTS, time_spent, why_faster
from simfrontier.answers.study import ScheduleCache, SimulatedCase, simulated
from simfrontier.base.arrays import Ints
from simfrontier.base.errors import InputError
from simfrontier.base.workers import Local, PerProcess, Workers
from simfrontier.core.cost import Pricing
from simfrontier.core.engine import Fidelity, JobStopsError, SimulatedStep, speed_error
from simfrontier.core.machine import HEALTHY, DegradedLink, DegradedPool, Perturbation, SlowDevice, SlowMemory
from simfrontier.core.network import Fabric
from simfrontier.inputs.scenario import Scenario, SlowdownTable


def lagging_links(pricing: Pricing, factor: float) -> Iterator[tuple[LaggingLinks, Perturbation]]:
    """Yield every class of equivalent wires, memories and global pools that a schedule loads, with the perturbation in
    which one of them has `factor` of its capacity in both directions; for each link class of the machine, the groups
    with the most links first.
    """
    fabric, folding = pricing.fabric, pricing.folding
    reverse = reverses(fabric)
    links = np.flatnonzero(np.isin(folding.link_class, loaded_classes(pricing)) & (reverse >= 0))
    both = np.minimum(links, reverse[links])
    pairs = np.unique(both)
    ends = np.sort(folding.link_class[np.stack([pairs, reverse[pairs]], axis=1)], axis=1)
    _, first, count = np.unique(ends, axis=0, return_index=True, return_counts=True)
    chosen = pairs[first]
    order = np.lexsort((chosen, -count, fabric.link_class[chosen]))
    for link, size in zip(chosen[order].tolist(), count[order].tolist(), strict=True):
        name = fabric.class_names[fabric.link_class[link]]
        alike = LaggingLinks(link_class=name, example=fabric.describe(link), num_links=size)
        yield alike, degraded(fabric, link, factor)


def loaded_classes(pricing: Pricing) -> Ints:
    """Return the link classes that any pattern of a schedule loads."""
    folding = pricing.folding
    rows = [folding.column(key, cls).rows for key in pricing.patterns for cls in range(len(folding.count(key)))]
    return np.unique(np.concatenate(rows))


def reverses(fabric: Fabric) -> Ints:
    """Return the link in the opposite direction of each link [num_links]: the link itself for memories and for wires
    without an opposite one; -1 for compute units, and for pools that no perturbation names.
    """
    wires = fabric.machine.node.links
    ends = {(wire.src, wire.dst): number for number, wire in enumerate(wires)}
    back = np.array([ends.get((wire.dst, wire.src), number) for number, wire in enumerate(wires)], np.int64)
    out = np.arange(fabric.num_links)
    out[: fabric.hbm_base] = (np.arange(fabric.num_nodes)[:, None] * fabric.wires_per_node + back).ravel()
    out[fabric.units_base : fabric.pool_base] = -1
    pools = np.full(fabric.num_links - fabric.pool_base, -1, np.int64)
    if fabric.machine.dragonfly is not None and len(pools):
        groups = fabric.num_pool_groups
        pools = fabric.pool_base + np.arange(groups**2).reshape(groups, groups).T.ravel()
    out[fabric.pool_base :] = pools
    return out


def degraded(fabric: Fabric, link: int, factor: float) -> Perturbation:
    """Return the perturbation in which a link, and the link in the opposite direction, has `factor` of its capacity."""
    if link >= fabric.pool_base:
        source, target = divmod(link - fabric.pool_base, fabric.num_pool_groups)
        ways = ((source, target), (target, source))
        return Perturbation(pools=tuple(DegradedPool(source=a, target=b, factor=factor) for a, b in ways))
    if link >= fabric.hbm_base:
        return Perturbation(memories=(SlowMemory(device=link - fabric.hbm_base, factor=factor),))
    node, number = divmod(link, fabric.wires_per_node)
    wire = fabric.machine.node.links[number]
    names = [each.name for each in fabric.machine.node.links if (each.src, each.dst) == (wire.dst, wire.src)]
    return Perturbation(
        links=tuple(DegradedLink(node=node, link=name, factor=factor) for name in dict.fromkeys((wire.name, *names)))
    )


MOST_CLASSES = 64  # of devices, and of links, that are simulated for a plan: those with the most members
DOES_NOT_FIT = "does not fit"
FLOW_ONLY = "changes within the step: at fidelity flow only"


def num_slowdowns(scenario: Scenario) -> int:
    """Return the number of times that `run_slowdown` calls its `progress`."""
    table = scenario.file.slowdown
    return 0 if table is None else len(scenario.plans) * (len(table.cases) + 2)


def run_slowdown(
    scenario: Scenario,
    fidelity: Fidelity,
    progress: Callable[[str], None] = lambda _: None,
    workers: Workers | None = None,
    schedules: PerProcess[ScheduleCache] | None = None,
) -> Slowdown | None:
    """Simulate the cases of the scenario's table `slowdown`, each compared with a healthy machine (whatever the table
    `perturbation` says); None without that table. Single messages are not simulated: fidelity `chunk` is replaced by
    `flow`. `workers`: simulate the cases in parallel (None: in this process); `schedules`: cache of built schedules,
    which is read and filled."""
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


def _plans(
    scenario: Scenario,
    table: SlowdownTable,
    fidelity: Fidelity,
    workers: Workers,
    schedules: PerProcess[ScheduleCache],
    progress: Callable[[str], None],
) -> Iterator[SlowedPlan]:
    """Yield the plans in order. Each result of a plan is computed by a worker call of its own, so that plans with long
    simulations are distributed over the workers.
    """
    known = PerProcess(_HealthyPlans, scenario, fidelity, schedules)
    asked: list[tuple[Callable[..., Any], Any]] = [
        *((_troubled_step, case.perturbation) for case in table.cases),
        (_lagging_devices, table.device_factor),
        (_lagging_links, table.link_factor),
    ]
    names = (*(case.label for case in table.cases), "lagging devices", "lagging links")
    made = workers.in_order(_asked, ((known, plan, *each) for plan in scenario.plans for each in asked))
    for plan in scenario.plans:
        healthy: HealthyStep | None = None
        answers = []
        for name in names:
            healthy, answer = next(made)
            answers.append(answer)
            progress(f"{plan}: {name}")
        if healthy is None:
            yield SlowedPlan(plan=plan, misfit=DOES_NOT_FIT, cases={})
            continue
        *cases, devices, links = answers
        by_label = {case.label: answer for case, answer in zip(table.cases, cases, strict=True)}
        yield SlowedPlan(plan=plan, healthy=healthy, cases=by_label, devices=devices, links=links)


def _asked(
    known: PerProcess[_HealthyPlans], plan: str, ask: Callable[..., Any], given: Any
) -> tuple[HealthyStep | None, Any]:
    """Return the healthy step of a plan, and the result of `ask` for it; None if the plan does not fit into memory."""
    healthy = known.here.of(plan)
    return (None, None) if healthy is None else (_healthy_step(healthy), ask(healthy, given))


class _HealthyPlans:
    """Simulated healthy steps of plans; only the last one is kept, as a process works on one plan after the other."""

    def __init__(self, scenario: Scenario, fidelity: Fidelity, schedules: PerProcess[ScheduleCache]) -> None:
        self.scenario, self.fidelity = scenario, fidelity
        self.searcher = GridSearcher(schedule_cache=schedules.here)
        self.of = lru_cache(maxsize=1)(self._simulated)

    def _simulated(self, plan: str) -> SimulatedCase | None:
        """Simulate the healthy step of a plan; None if the plan does not fit."""
        size = self.scenario.troubled_size
        try:
            decided = self.searcher.resolved(self.scenario, (size,), (plan,))
        except NothingFitsError:
            return None
        healthy = SimulatedCase.of(decided, plan, size, self.fidelity, self.searcher.schedule_cache, HEALTHY)
        return healthy if healthy.fits else None


def _with_trouble(healthy: SimulatedCase, perturbation: Perturbation) -> SimulatedStep:
    return simulated(healthy.here, healthy.built, healthy.step.fidelity, perturbation=perturbation)


def _slowdown(healthy: SimulatedCase, perturbation: Perturbation) -> float:
    return _with_trouble(healthy, perturbation).step_s / healthy.step.step_s


def _troubled_step(healthy: SimulatedCase, perturbation: Perturbation) -> TroubledStep:
    if perturbation.is_timed and healthy.step.fidelity != "flow":
        return TroubledStep(step_s=None, slowdown=None, sentence=FLOW_ONLY)
    try:
        step = _with_trouble(healthy, perturbation)
    except (JobStopsError, InputError) as error:
        return TroubledStep(step_s=None, slowdown=None, sentence=str(error).rpartition(" devices: ")[2])
    off = speed_error(step)
    return TroubledStep(
        step_s=step.step_s,
        slowdown=step.step_s / healthy.step.step_s,
        sentence=why_faster(time_spent(step), time_spent(healthy.step), "a healthy step"),
        speed_error=0.0 if off is None else off.step,
    )


def _lagging_devices(healthy: SimulatedCase, factor: float) -> LaggingDevices | None:
    """Return the slowdown by lagging device; None if the factor is 1."""
    if factor == 1.0:
        return None
    folding, fabric = healthy.step.pricing.folding, healthy.step.pricing.fabric
    slowdown = np.full(len(folding.rank_count), math.nan)
    for cls in np.sort(np.argsort(-folding.rank_count, kind="stable")[:MOST_CLASSES]).tolist():
        device = int(fabric.device_of[folding.representative[cls]])
        slowed = _with_trouble(healthy, Perturbation(slow=(SlowDevice(device=device, factor=factor),)))
        slowdown[cls] = slowed.step_s / healthy.step.step_s
    class_of = np.full(fabric.num_devices, -1, np.int64)
    class_of[fabric.device_of] = folding.rank_class
    return LaggingDevices(class_of=class_of, slowdown=tuple(slowdown.tolist()))


def _lagging_links(healthy: SimulatedCase, factor: float) -> tuple[LaggingLinks, ...]:
    """Return the slowdown by class of lagging link; empty if the factor is 1."""
    found = [] if factor == 1.0 else list(lagging_links(healthy.step.pricing, factor))
    largest = sorted(range(len(found)), key=lambda at: -found[at][0].num_links)[:MOST_CLASSES]
    return tuple(
        replace(alike, slowdown=_slowdown(healthy, perturbation)) if at in largest else alike
        for at, (alike, perturbation) in enumerate(found)
    )


def _healthy_step(healthy: SimulatedCase) -> HealthyStep:
    spent, step_s = healthy.exposure, healthy.step.step_s
    sent = {boundary: sum(healthy.traffic.total(boundary, part) for part in PARTS) for boundary in BOUNDARIES}
    total = sum(sent.values())
    return HealthyStep(
        step_s=step_s,
        samples=healthy.case.samples,
        kernel_share=spent.compute / step_s,
        between_nodes_share=spent.inter_node / step_s,
        crossing_share=sent["inter_node"] / total if total else 0.0,
    )
