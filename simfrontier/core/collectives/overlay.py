"""What a calibration says about a machine's numbers: those that it lists, and what its tables ask of a shared bus."""

from __future__ import annotations

from simfrontier.base.errors import InputError
from simfrontier.core.collectives.calibration import Calibration, CallTable
from simfrontier.core.collectives.library import Library
from simfrontier.core.collectives.volume import sent_part
from simfrontier.core.machine import Machine, MeasuredNumbers

BUS_RATE = "link_classes.bus.bytes_per_s"


def machine_numbers(calibration: Calibration, machine: Machine, library: Library) -> MeasuredNumbers:
    """The numbers of the machine's file that the calibration replaces.

    On a machine with a bus, all groups of a table share it, and each takes its time alone; so the bus carries at least
    the largest total rate over all tables. It is set to that rate where the calibration does not say it. Calls that
    have a table keep the whole bus while they run, so the rate matters to groups without one. Raises InputError where
    the calibration says less than that.
    """
    numbers = dict(calibration.machine)
    rates = {table.group: total_bytes_per_s(table, machine, library) for table in calibration.calls if table.nodes == 1}
    if machine.node.has_bus and rates:
        fastest = max(rates, key=lambda group: rates[group])
        needed = rates[fastest] / machine.link_classes["bus"].share
        if numbers.setdefault(BUS_RATE, needed) < needed:
            raise InputError(
                f'machine."{BUS_RATE}": got {numbers[BUS_RATE]:g}, allowed: at least {needed:g}, the total rate of '
                f"{fastest[0]} over {fastest[1]} ranks"
            )
    return MeasuredNumbers(numbers=numbers, source=calibration.source)


def total_bytes_per_s(table: CallTable, machine: Machine, library: Library) -> float:
    """What all ranks of a node together send at the fastest point of a table: its groups fill the node."""
    name = library.choices[table.kind][0]
    sent = float(sent_part(table.kind, name, table.ranks))
    return machine.devices_per_node * sent * table.fastest_bytes_per_s
