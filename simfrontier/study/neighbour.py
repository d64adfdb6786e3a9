"""The job beside a scenario's: another scenario's plan on other nodes of the machine, which is simulated with it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from simfrontier.errors import InputError, nearest
from simfrontier.machine import JobNodes, Perturbation
from simfrontier.network import nodes_of_job
from simfrontier.scenario import NeighbourTable, Scenario, load_scenario
from simfrontier.simulation import Neighbour
from simfrontier.study.schedule_cache import BuiltSchedule, ScheduleCache

KEY = "neighbour"


def neighbour_of(scenario: Scenario, num_devices: int) -> Neighbour | None:
    """The job beside a job of that size, on the first nodes of the machine that are free, or on those of its own list;
    None where the scenario has none. Raises InputError where it cannot be there."""
    table = scenario.file.neighbour
    if table is None:
        return None
    try:
        return _beside(scenario, table, num_devices)
    except InputError as error:
        raise error.within(key=(KEY,) if error.key[:1] != (KEY,) else ()) from None


def _beside(scenario: Scenario, table: NeighbourTable, num_devices: int) -> Neighbour:
    path = Path(scenario.where).parent / table.scenario
    other = _loaded(path if path.is_file() else Path(table.scenario), table.plan)
    if other.machine.name != scenario.machine.name:
        raise InputError(
            f"got a scenario of {other.machine.name}, allowed: of {scenario.machine.name}", key=("scenario",)
        )
    plan, devices = next(iter(other.plans)), table.devices or max(other.file.run.devices)
    built = _built(other, plan, devices)
    machine, per_node = scenario.machine, scenario.machine.devices_per_node
    mine = nodes_of_job(machine, -(-num_devices // per_node))
    needed = -(-devices // per_node)
    if other.machine.job_nodes.placement == "list":
        nodes = nodes_of_job(other.machine, needed)
        shared = np.intersect1d(nodes, mine)
        if len(shared):
            raise InputError(f"node {shared[0]} is of both jobs; allowed: others than of nodes.list", key=("scenario",))
    else:
        nodes = np.setdiff1d(np.arange(len(machine.job_nodes.group_of) or machine.num_nodes), mine)[:needed]
        if len(nodes) < needed:
            text = f"got {devices} devices on {needed} nodes; {machine.name} has {len(nodes)} left"
            raise InputError(text, key=("devices",))
    on = JobNodes(placement="list", listed=tuple(nodes.tolist()), group_of=machine.job_nodes.group_of)
    perturbation = scenario.file.perturbation
    return Neighbour(
        schedule=built.schedule,
        machine=replace(other.machine, job_nodes=on),
        library=other.library,
        perturbation=Perturbation(pools=perturbation.pools, background=perturbation.background),
        placement=other.file.run.placement,
        parts=built.parts,
    )


@lru_cache(maxsize=8)
def _loaded(path: Path, plan: str | None) -> Scenario:
    other = load_scenario(path)
    if plan is not None and plan not in other.plans:
        raise InputError(f'plan "{plan}": {nearest(plan, other.plans)}', key=("plan",))
    return replace(other, plans={plan: other.plans[plan]}) if plan is not None else other


_CACHE = ScheduleCache()


def _built(other: Scenario, plan: str, devices: int) -> BuiltSchedule:
    return _CACHE.get(other, plan, devices)
