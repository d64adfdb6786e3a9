"""The job beside a scenario's: another scenario's plan on other nodes of the machine, which is simulated with it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simfrontier.answers.study.schedule_cache import ScheduleCache
from simfrontier.base.arrays import Ints
from simfrontier.base.errors import InputError
from simfrontier.core.engine import Neighbour
from simfrontier.core.machine import JobNodes, Machine, Perturbation
from simfrontier.core.network import nodes_of_job
from simfrontier.inputs.scenario import Scenario

KEY = "neighbour"
_BUILT = ScheduleCache()


def neighbour_of(scenario: Scenario, num_devices: int) -> Neighbour | None:
    """The job beside a job of that size, on the first nodes of the machine that are free, or on those of its own list;
    None where the scenario has none. Raises InputError where it cannot be there."""
    other = scenario.beside
    if other is None:
        return None
    ((plan, _),), (devices,) = other.plans.items(), other.file.run.devices
    try:
        nodes = _nodes(scenario.machine, num_devices, other.machine, devices)
        built = _BUILT.get(other, plan, devices)
    except InputError as error:
        raise error.within(key=(KEY,) if error.key[:1] != (KEY,) else ()) from None
    perturbation = scenario.file.perturbation
    return Neighbour(
        schedule=built.schedule,
        machine=replace(
            other.of(plan, devices).machine,
            job_nodes=JobNodes(
                placement="list", listed=tuple(nodes.tolist()), group_of=scenario.machine.job_nodes.group_of
            ),
        ),
        library=other.library,
        perturbation=Perturbation(pools=perturbation.pools, background=perturbation.background),
        placement=other.file.run.placement,
        parts=built.parts,
    )


def _nodes(machine: Machine, num_devices: int, others: Machine, other_devices: int) -> Ints:
    """The nodes of the other job, by their numbers in the machine."""
    per_node = machine.devices_per_node
    mine, needed = nodes_of_job(machine, -(-num_devices // per_node)), -(-other_devices // per_node)
    count = len(machine.job_nodes.group_of) or machine.num_nodes
    job = others.job_nodes
    if job.placement == "list":
        listed = np.array(job.listed)
        if len(listed) < needed:
            text = f"got {other_devices} devices, which need {needed} nodes; its nodes.list has {len(listed)}"
            raise InputError(text, key=(KEY, "devices"))
        if listed.max() >= count:
            text = f"its nodes.list has node {listed.max()}; this scenario's machine has 0 to {count - 1}"
            raise InputError(text, key=(KEY, "scenario"))
        shared = np.intersect1d(listed[:needed], mine)
        if len(shared):
            text = f"node {shared[0]} is of both jobs; allowed: others in its nodes.list"
            raise InputError(text, key=(KEY, "scenario"))
        return listed[:needed]
    free = np.setdiff1d(np.arange(count), mine)
    if len(free) < needed:
        text = f"got {other_devices} devices on {needed} nodes; {machine.name} has {len(free)} left"
        raise InputError(text, key=(KEY, "devices"))
    return free[:needed]
