"""What a perturbation makes of the links of a job: lower capacities, and slower devices."""

from __future__ import annotations

import numpy as np

from simfrontier.base.arrays import Floats, Ints
from simfrontier.base.errors import InputError
from simfrontier.core.machine import NET, Perturbation, Spread
from simfrontier.core.network.link_ids import LinkIds
from simfrontier.core.network.node_classes import ClassRates, class_rates


def degrade(
    links: LinkIds, capacity: Floats, perturbation: Perturbation, classes: Ints | None
) -> tuple[ClassRates, ClassRates]:
    """Lower the capacities of links [num_links], and return the factors on the speeds of devices
    [num_nodes, devices of a node] and on the rates at which nodes reach the network [num_nodes], where nodes are in
    these classes [num_nodes] (None: each by itself). Raises InputError where something is named that is not there."""
    speed, networks = _speeds(links, perturbation).reshape(links.num_nodes, -1), perturbation.differing("networks")
    network = np.ones(links.num_nodes) if networks is None else _factors(perturbation, networks, links.num_nodes)
    classes = np.arange(links.num_nodes) if classes is None else classes
    of_devices, of_networks = class_rates(speed, classes), class_rates(network, classes)
    hbm, units, pools = links.hbm_base, links.units_base, links.pool_base
    for memory in perturbation.memories:
        _refuse_beyond("memory: got device", memory.device, links.num_devices, "devices")
        capacity[hbm + memory.device] *= memory.factor
    capacity[hbm:units][speed.ravel() == 0.0] = 0.0
    if networks is not None:
        _wires(links, capacity)[:, _to_network(links)] *= of_networks.mean[:, None]
    for node in perturbation.nodes:
        if node.factor == 0.0:
            first = node.node * links.wires_per_node
            capacity[first : first + links.wires_per_node] = 0.0
    for wire in perturbation.links:
        capacity[links.link_named(wire.node, wire.link)] *= wire.factor
    for nic in perturbation.nics:
        _refuse_beyond("NIC: got node", nic.node, links.num_nodes, "nodes")
        _refuse_beyond(f"NIC of node {nic.node}: got", nic.nic, len(links.machine.node.nic_device), "NICs", "a node")
        name = f"nic{nic.nic}"
        ends = ((name, NET), (NET, name))
        for number, link in enumerate(links.machine.node.links):
            if (link.src, link.dst) in ends:
                capacity[nic.node * links.wires_per_node + number] *= nic.factor
    for pool in perturbation.pools:
        capacity[pools + links.pools.degraded(pool.source, pool.target)] *= pool.factor
    for busy in perturbation.background:
        capacity[pools:] *= busy.factor
    return of_devices, of_networks


def _speeds(links: LinkIds, perturbation: Perturbation) -> Floats:
    """Factors on the speeds of all devices of the nodes [num_devices]."""
    machine, num_devices, num_nodes = links.machine, links.num_devices, links.num_nodes
    devices = perturbation.differing("devices")
    speed = np.ones(num_devices) if devices is None else _factors(perturbation, devices, num_devices)
    for slow in perturbation.slow:
        _refuse_beyond("slow device: got", slow.device, num_devices, "devices")
        speed[slow.device] *= slow.factor
    for package in perturbation.packages:
        size = machine.devices_per_package
        _refuse_beyond("package: got", package.package, num_devices // size, "packages")
        speed[package.package * size : (package.package + 1) * size] *= package.factor
    for node in perturbation.nodes:
        size = machine.devices_per_node
        _refuse_beyond("node: got", node.node, num_nodes, "nodes")
        speed[node.node * size : (node.node + 1) * size] *= node.factor
    return speed


def _factors(perturbation: Perturbation, spread: Spread, num: int) -> Floats:
    try:
        return spread.factors(num)
    except InputError as error:
        number = [each.resolved() for each in perturbation.spread].index(spread)
        raise error.within(key=("perturbation", "spread", number)) from None


def _wires(links: LinkIds, capacity: Floats) -> Floats:
    """The capacities of all wires [num_nodes, wires of a node], which may be written."""
    return capacity[: links.hbm_base].reshape(links.num_nodes, -1)


def _to_network(links: LinkIds) -> Ints:
    """Numbers of the wires of a node that lead to or from the network. Raises InputError where there are none."""
    ends = [number for number, wire in enumerate(links.machine.node.links) if NET in (wire.src, wire.dst)]
    if not ends:
        text = f'{links.machine.name} has no network between nodes; allowed: "devices"'
        raise InputError(text, key=("perturbation", "spread", "of"))
    return np.array(ends)


def _refuse_beyond(what: str, got: int, count: int, things: str, where: str = "this job") -> None:
    if not got < count:
        raise InputError(f"{what} {got}; {where} has {things} 0 to {count - 1}", key=("perturbation",))
