"""All resources of a job as one flat list of links: wires, device memories, compute units, and pools between nodes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Floats, Ints
from simfrontier.base.errors import InputError, nearest
from simfrontier.core.machine import HEALTHY, NET, End, Machine, Perturbation
from simfrontier.core.network.groups import groups_of_job
from simfrontier.core.network.hashes import Hashes, combine, number_hash
from simfrontier.core.network.pools import Pools, pools_of
from simfrontier.core.network.speeds import ClassRates, class_rates, device_factors, network_factors, refuse_beyond


class ResourceKind(IntEnum):
    """Kind of resource that a link models: bytes on a wire, bytes of device memory, or compute units."""

    WIRE = 0
    HBM = 1
    UNITS = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fabric:
    """The links of `num_nodes` whole nodes, and the placement of a job's ranks on them.

    Link ids are in this order: the directed wires of node 0, node 1 ... (numbered as in `machine.node.links`), the
    memory of every device, the compute units of every device, and, if the job spans several groups of a dragonfly or
    leaves of a fat tree, their pools.

    capacity    [num_links] wires: nominal bytes/s; memories: achieved bytes/s; compute units: number of units
    kind        [num_links] ResourceKind
    link_class  [num_links] index into class_names
    group_of_node  [num_nodes] the dragonfly group, or the fat-tree leaf, of each node
    device_of   [num_ranks] device of each rank; device d is position d % devices_per_node of node d // devices_per_node
    devices     [num_ranks] factor on the compute speed of each rank's device
    networks    [num_ranks] factor on the rates of the network links of each rank's node
    """

    machine: Machine
    num_nodes: int
    pools: Pools
    num_ranks: int
    capacity: Floats
    kind: NDArray[np.int8]
    link_class: NDArray[np.int16]
    class_names: tuple[str, ...]
    group_of_node: Ints
    device_of: Ints
    devices: ClassRates
    networks: ClassRates

    @classmethod
    def build(
        cls,
        machine: Machine,
        num_nodes: int,
        perturbation: Perturbation = HEALTHY,
        *,
        num_devices: int | None = None,
        placement: NDArray[np.integer] | None = None,
        classes: Ints | None = None,
    ) -> Self:
        """Return the fabric of a job; ranks fill the devices in order unless `placement` (rank -> device) is given.

        num_devices: number of ranks, by default the number of devices of the nodes. A perturbation that changes over
        time applies as it is at the beginning of step 0. classes: the class of each node; the devices of a class are
        simulated with their mean speeds (`classes_of_nodes`; None: each node is a class of its own). Raises InputError
        if the perturbation names a missing component.
        """
        per_node = machine.devices_per_node
        num_slots = num_nodes * per_node
        num_ranks = num_slots if num_devices is None else num_devices
        assert 0 < num_ranks <= num_slots and 0 < num_nodes <= machine.num_nodes, (num_ranks, num_nodes, machine.name)
        device_of = np.arange(num_ranks, dtype=np.int64) if placement is None else np.array(placement, np.int64)
        perturbation = perturbation.at((0, 0.0))
        node_class = np.arange(num_nodes) if classes is None else classes
        devices = class_rates(device_factors(machine, num_nodes, perturbation), node_class)
        networks = class_rates(network_factors(num_nodes, perturbation), node_class)
        group_of_node = groups_of_job(machine, num_nodes)
        wires, device, pools = machine.node.links, machine.device, pools_of(machine, group_of_node)
        names = (*dict.fromkeys(wire.link_class for wire in wires), "hbm", "compute units", pools.link_class)
        wire_classes = np.array([names.index(wire.link_class) for wire in wires], np.int16)
        others = np.arange(len(names) - 3, len(names), dtype=np.int16)
        num_others = [num_slots, num_slots, pools.num_pools]
        rates = [device.hbm_bytes_per_s * device.hbm_share, float(device.num_compute_units), pools.bytes_per_s]
        fabric = cls(
            machine=machine,
            num_nodes=num_nodes,
            num_ranks=num_ranks,
            pools=pools,
            capacity=np.append(np.tile([wire.bytes_per_s for wire in wires], num_nodes), np.repeat(rates, num_others)),
            kind=np.repeat(
                np.array([ResourceKind.WIRE, ResourceKind.HBM, ResourceKind.UNITS, ResourceKind.WIRE], np.int8),
                [num_nodes * len(wires), *num_others],
            ),
            link_class=np.append(np.tile(wire_classes, num_nodes), np.repeat(others, num_others)),
            class_names=names,
            group_of_node=group_of_node,
            device_of=device_of,
            devices=devices.at(np.divmod(device_of, per_node)),
            networks=networks.at(device_of // per_node),
        )
        fabric._degrade(perturbation, devices.mean, networks.mean)
        for array in (fabric.capacity, fabric.kind, fabric.link_class, group_of_node, device_of, fabric.speed):
            array.flags.writeable = False
        return fabric

    def _degrade(self, perturbation: Perturbation, speed: Floats, network: Floats) -> None:
        """Multiply the capacities of links by the factors of the perturbation. `speed`: factors on the speeds of
        devices [num_nodes, devices of a node]; `network`: factors on the rates of the network links of each node
        [num_nodes]."""
        capacity = self.capacity
        wires = capacity[: self.hbm_base].reshape(self.num_nodes, -1)
        for memory in perturbation.memories:
            refuse_beyond("memory: got device", memory.device, self.num_devices, "devices")
            capacity[self.hbm_base + memory.device] *= memory.factor
        capacity[self.hbm_base : self.units_base][speed.ravel() == 0.0] = 0.0
        if perturbation.differing("networks") is not None:
            wires[:, self._wires_to_network()] *= network[:, None]
        for node in perturbation.nodes:
            if node.factor == 0.0:
                wires[node.node] = 0.0
        for wire in perturbation.links:
            capacity[self.link_named(wire.node, wire.link)] *= wire.factor
        for nic in perturbation.nics:
            refuse_beyond("NIC: got node", nic.node, self.num_nodes, "nodes")
            num_nics = len(self.machine.node.nic_device)
            refuse_beyond(f"NIC of node {nic.node}: got", nic.nic, num_nics, "NICs", "a node")
            ends = {f"nic{nic.nic}", NET}
            mine = [number for number, link in enumerate(self.machine.node.links) if {link.src, link.dst} == ends]
            wires[nic.node, mine] *= nic.factor
        for pool in perturbation.pools:
            capacity[self.pool_base + self.pools.degraded(pool.source, pool.target)] *= pool.factor
        for busy in perturbation.background:
            capacity[self.pool_base :] *= busy.factor

    def _wires_to_network(self) -> list[int]:
        """Return the indices of a node's wires that lead to or from the network. Raises InputError if there are
        none."""
        ends = [number for number, wire in enumerate(self.machine.node.links) if NET in (wire.src, wire.dst)]
        if not ends:
            text = f'{self.machine.name} has no network between nodes; allowed: "devices"'
            raise InputError(text, key=("perturbation", "spread", "of"))
        return ends

    # ── ranks ──

    @property
    def speed(self) -> Floats:
        """Factor on the compute speed of each rank's device, as simulated [num_ranks]."""
        return self.devices.mean

    def node_speeds(self) -> tuple[Floats, Floats]:
        """Return the factors on the speeds of devices [num_nodes, devices of a node], and those on the rates of the
        network links of each node [num_nodes]; 1 for devices and nodes without ranks."""
        per_node = self.machine.devices_per_node
        speed, network = np.ones(self.num_nodes * per_node), np.ones(self.num_nodes)
        speed[self.device_of], network[self.device_of // per_node] = self.speed, self.networks.mean
        return speed.reshape(self.num_nodes, per_node), network

    @property
    def hbm_of(self) -> Ints:
        """Link id of each rank's memory [num_ranks]."""
        return self.hbm_base + self.device_of

    @property
    def units_of(self) -> Ints:
        """Link id of each rank's compute units [num_ranks]."""
        return self.units_base + self.device_of

    def link_hashes(self) -> Hashes:
        """Return a hash of each link's class and capacity [num_links]: the initial colours of links in `folding`."""
        return combine(number_hash(self.capacity), self.link_class.astype(np.uint64))

    def rank_hashes(self) -> Hashes:
        """Return a hash of each rank's speed, memory and compute units [num_ranks]: the initial colours of ranks in
        `folding`."""
        own = number_hash(self.capacity[self.hbm_base : self.pool_base])
        memories, units = own[: self.num_devices], own[self.num_devices :]
        return combine(number_hash(self.speed), memories[self.device_of], units[self.device_of])

    # ── links ──

    @property
    def wires_per_node(self) -> int:
        """Number of directed wires of one node."""
        return len(self.machine.node.links)

    @property
    def num_devices(self) -> int:
        """Number of devices of all nodes, including devices without a rank."""
        return self.num_nodes * self.machine.devices_per_node

    @property
    def hbm_base(self) -> int:
        """Link id of the memory of device 0; lower ids are the wires of nodes."""
        return self.num_nodes * self.wires_per_node

    @property
    def units_base(self) -> int:
        """Link id of the compute units of device 0."""
        return self.hbm_base + self.num_devices

    @property
    def pool_base(self) -> int:
        """Link id of the first pool (pool 0 of `pools`)."""
        return self.units_base + self.num_devices

    @property
    def num_pool_groups(self) -> int:
        """Number of groups of nodes that pools connect; 0 in a job without pools."""
        return self.pools.num_groups

    @property
    def num_links(self) -> int:
        """Number of links of all kinds: wires, memories, compute units and pools."""
        return self.pool_base + self.pools.num_pools

    def link_named(self, node: int, name: str) -> int:
        """Return the link id of a wire of a node, or of "hbm <position>" or "compute units <position>" of one of its
        devices.

        Raises InputError for an unknown node or name, with the nearest valid name.
        """
        if not 0 <= node < self.num_nodes:
            raise InputError(f"link {name!r}: got node {node}; this job has nodes 0 to {self.num_nodes - 1}")
        per_node = self.machine.devices_per_node
        ids = {wire.name: node * self.wires_per_node + i for i, wire in enumerate(self.machine.node.links)}
        for position in range(per_node):
            ids[f"hbm {position}"] = self.hbm_base + node * per_node + position
            ids[f"compute units {position}"] = self.units_base + node * per_node + position
        if name not in ids:
            raise InputError(f"link of node {node} of {self.machine.name}: got {name!r}; {nearest(name, ids)}")
        return ids[name]

    def describe(self, link: int) -> str:
        """Return the display name of a link, such as "node 3 xgmi 0>6", "global 0>3" or "leaf 3 up"."""
        assert 0 <= link < self.num_links, link
        if link < self.hbm_base:
            node, wire = divmod(link, self.wires_per_node)
            return f"node {node} {self.machine.node.links[wire].name}"
        if link >= self.pool_base:
            return self.pools.describe(link - self.pool_base)
        base, what = (self.hbm_base, "hbm") if link < self.units_base else (self.units_base, "compute units")
        node, position = divmod(link - base, self.machine.devices_per_node)
        return f"node {node} {what} {position}"


def ends(fabric: Fabric, link: int) -> tuple[str, str]:
    """Return the names of the source and the target of a wire or pool, such as ("node 0 gcd 1", "node 0 nic0") or ("net
    0", "net 3")."""
    if link >= fabric.pool_base:
        return fabric.pools.ends(link - fabric.pool_base)
    assert link < fabric.hbm_base, f"{fabric.describe(link)} joins no boxes"
    node, wire = divmod(link, fabric.wires_per_node)
    both = fabric.machine.node.links[wire]
    return box(fabric, node, both.src), box(fabric, node, both.dst)


def box(fabric: Fabric, node: int, end: End) -> str:
    """Return the name of the component at one end of a link: a switch, or a component of the node, with the node's
    number. There is one switch for all nodes, or, in a job with pools, one for each group of nodes."""
    if end != NET:
        return f"node {node} {'gcd ' if isinstance(end, int) else ''}{end}"
    return fabric.pools.switch(int(fabric.group_of_node[node]))


def joining_links(fabric: Fabric) -> list[int]:
    """Return the ids of the links that connect two components: all wires of the nodes, and the pools between
    switches."""
    return [*range(fabric.hbm_base), *(fabric.pool_base + pool for pool in fabric.pools.joining())]
