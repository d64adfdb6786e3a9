"""A scenario with the table `emulation` means the machine of the emulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simfrontier.base.io import Strict
from simfrontier.inputs.scenario.added_keys import ScenarioKeys
from simfrontier_extras.emulation.machine import Emulation, emulated

if TYPE_CHECKING:
    from simfrontier.core.machine import Machine
    from simfrontier.inputs.scenario import Scenario, ScenarioFile


class EmulationKeys(Strict):
    """`emulation`: the machine as it is emulated on one box."""

    emulation: Emulation | None = None


def table_of(scenario: Scenario) -> Emulation | None:
    """The scenario's table, where it has one."""
    return _table(scenario.file)


def _table(file: ScenarioFile) -> Emulation | None:
    assert isinstance(file, EmulationKeys)
    return file.emulation


def _machine(file: ScenarioFile, machine: Machine) -> Machine:
    table = _table(file)
    if table is None:
        return machine
    return emulated(machine, table)


ADDS = (ScenarioKeys(form=EmulationKeys, machine=_machine),)
