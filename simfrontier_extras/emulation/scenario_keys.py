"""A scenario with the table `emulation` means the machine of the emulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge, Le

from simfrontier.io import Share, Strict
from simfrontier.limits import COUNT
from simfrontier.scenario import ScenarioKeys

if TYPE_CHECKING:
    from simfrontier.machine import Machine
    from simfrontier.scenario import Scenario, ScenarioFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulation:
    """How a machine is scaled: `scale` on the rates of links and devices (latencies stay); packets of at most
    `packet_bytes`, IP and all within it; and what a shaped link that was idle lets through at once."""

    scale: Share
    packet_bytes: Annotated[int, Ge(1280), Le(65535)] = 9000
    burst_bytes: Annotated[int, Ge(1), Le(COUNT.most)] = 18200


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
    from simfrontier_extras.emulation.machine import emulated

    return emulated(machine, table)


ADDS = (ScenarioKeys(form=EmulationKeys, machine=_machine),)
