"""On how many nodes and packages the devices of a group are, of a file that says the nodes or not."""

from __future__ import annotations

from simfrontier.machine import is_machine, machine_named
from simfrontier.measured.setup import Setup


def on_nodes(devices: int, nodes: int | None, setup: Setup) -> tuple[int | None, int | None]:
    """Nodes and packages of a group: what the file says, else what the user says; None where nobody does.

    Where the nodes are told and the packages are not, the devices of each node are on as few packages as the machine
    has for them.
    """
    nodes = nodes if nodes is not None else setup.nodes
    if setup.packages is not None or nodes is None or setup.machine is None or not is_machine(setup.machine):
        return nodes, setup.packages
    return nodes, nodes * -(-(devices // nodes) // machine_named(setup.machine).devices_per_package)
