"""The scenario of the job beside a scenario's, which its table `neighbour` names."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from simfrontier.base.errors import InputError, nearest
from simfrontier.core.machine import Machine
from simfrontier.inputs.scenario.form import NeighbourTable

if TYPE_CHECKING:
    from simfrontier.inputs.scenario.scenario import Scenario

TABLE = "neighbour"
SAME = ("node", "dragonfly", "fat_tree", "num_nodes")  # what is one for both jobs


def scenario_beside(
    table: NeighbourTable | None, machine: Machine, folder: Path, load: Callable[[Path], Scenario]
) -> Scenario | None:
    """The other job's scenario, of the one plan and size that it runs with; None without a table. Raises InputError at
    a key of the table."""
    if table is None:
        return None
    path = folder / table.scenario
    try:
        other = load(path if os.path.lexists(path) else Path(table.scenario))
    except InputError as error:
        raise error.within(key=(TABLE, "scenario")) from None
    if table.plan is not None and table.plan not in other.plans:
        raise InputError(f'plan "{table.plan}": {nearest(table.plan, other.plans)}', key=(TABLE, "plan"))
    plan, devices = table.plan or next(iter(other.plans)), table.devices or max(other.file.run.devices)
    _refuse(other, plan, machine)
    run = other.file.run.model_copy(update={"devices": [devices]})
    return replace(other, plans={plan: other.plans[plan]}, file=other.file.model_copy(update={"run": run}))


def _refuse(other: Scenario, plan: str, machine: Machine) -> None:
    """Raise InputError for what of the other scenario cannot be beside this one's job, or would be passed over."""
    differs = [part for part in SAME if getattr(other.machine, part) != getattr(machine, part)]
    if other.machine.name != machine.name or differs:
        got = f"of another machine, {other.machine.name}" if not differs else f"whose machine has another {differs[0]}"
        raise InputError(f"got a scenario {got}; allowed: of {machine.name} as it is here", key=(TABLE, "scenario"))
    if plan in other.searches:
        text = f'plan "{plan}" of {other.where} is searched for; allowed: a plan with all its sizes'
        raise InputError(text, key=(TABLE, "plan"))
    if other.file.perturbation:
        text = f"{other.where} has a table perturbation; allowed: none, this scenario's counts for both"
        raise InputError(text, key=(TABLE, "scenario"))
