"""What a perturbation makes of a fabric: speeds of devices and capacities of links, while they are being laid out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simfrontier.arrays import Floats, Ints
from simfrontier.errors import InputError
from simfrontier.machine import Perturbation, Spread
from simfrontier.network.boxes import NET

if TYPE_CHECKING:
    from simfrontier.network.fabric import Fabric


def degrade(fabric: Fabric, perturbation: Perturbation) -> None:
    """Lower capacities and speeds of a fabric whose arrays may still be written. Raises InputError where something is
    named that is not there."""
    speed = _speeds(fabric, perturbation)
    fabric.speed[:] = speed[fabric.device_of]
    capacity, (hbm, units, pools) = fabric.capacity, (fabric.hbm_base, fabric.units_base, fabric.pool_base)
    for memory in perturbation.memories:
        _refuse_beyond("memory: got device", memory.device, fabric.num_devices, "devices")
        capacity[hbm + memory.device] *= memory.factor
    capacity[hbm:units][speed == 0.0] = 0.0
    if (networks := perturbation.differing("networks")) is not None:
        _wires(fabric)[:, _to_network(fabric)] *= _factors(perturbation, networks, fabric.num_nodes)[:, None]
    for node in perturbation.nodes:
        if node.factor == 0.0:
            first = node.node * fabric.wires_per_node
            capacity[first : first + fabric.wires_per_node] = 0.0
    for wire in perturbation.links:
        capacity[fabric.link_named(wire.node, wire.link)] *= wire.factor
    for nic in perturbation.nics:
        _refuse_beyond("NIC: got node", nic.node, fabric.num_nodes, "nodes")
        _refuse_beyond(f"NIC of node {nic.node}: got", nic.nic, len(fabric.machine.node.nic_device), "NICs", "a node")
        name = f"nic{nic.nic}"
        ends = ((name, NET), (NET, name))
        for number, link in enumerate(fabric.machine.node.links):
            if (link.src, link.dst) in ends:
                capacity[nic.node * fabric.wires_per_node + number] *= nic.factor
    for pool in perturbation.pools:
        capacity[pools + fabric.pools.degraded(pool.source, pool.target)] *= pool.factor
    for busy in perturbation.background:
        capacity[pools:] *= busy.factor


def _speeds(fabric: Fabric, perturbation: Perturbation) -> Floats:
    """Factors on the speeds of all devices of the nodes [num_devices]."""
    machine, num_devices, num_nodes = fabric.machine, fabric.num_devices, fabric.num_nodes
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


def _wires(fabric: Fabric) -> Floats:
    """The capacities of all wires [num_nodes, wires of a node], which may be written."""
    return fabric.capacity[: fabric.hbm_base].reshape(fabric.num_nodes, -1)


def _to_network(fabric: Fabric) -> Ints:
    """Numbers of the wires of a node that lead to or from the network. Raises InputError where there are none."""
    ends = [number for number, wire in enumerate(fabric.machine.node.links) if NET in (wire.src, wire.dst)]
    if not ends:
        text = f'{fabric.machine.name} has no network between nodes; allowed: "devices"'
        raise InputError(text, key=("perturbation", "spread", "of"))
    return np.array(ends)


def _refuse_beyond(what: str, got: int, count: int, things: str, where: str = "this job") -> None:
    if not got < count:
        raise InputError(f"{what} {got}; {where} has {things} 0 to {count - 1}", key=("perturbation",))
