"""Every resource of a job as one flat list of links: wires, memories, compute units, global pools."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Floats, Ints
from simfrontier.core.machine import HEALTHY, NET, End, Machine, Perturbation
from simfrontier.core.network.degraded import degrade
from simfrontier.core.network.groups import groups_of_job
from simfrontier.core.network.hashes import Hashes, combine, number_hash
from simfrontier.core.network.link_ids import LinkIds
from simfrontier.core.network.node_classes import ClassRates
from simfrontier.core.network.pools import pools_of


class ResourceKind(IntEnum):
    """What a link is a resource of: bytes on a wire, bytes of device memory, or compute units."""

    WIRE = 0
    HBM = 1
    UNITS = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fabric(LinkIds):
    """The links of `num_nodes` whole nodes, by their ids, and where the ranks of a job sit on them.

    capacity    [num_links] wires: nominal bytes/s; memories: achieved bytes/s; compute units: their number
    kind        [num_links] ResourceKind
    link_class  [num_links] index into class_names
    group_of_node  [num_nodes] the group of the dragonfly, or the leaf of the fat tree, that each node is in
    device_of   [num_ranks] device of each rank; device d is position d % devices_per_node of node d // devices_per_node
    devices     [num_ranks] factors on the compute speeds of the ranks' devices
    networks    [num_ranks] factors on the rates at which the ranks' nodes reach the network
    """

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
        """Lay out the links; ranks fill the devices in order unless `placement` (rank -> device) says otherwise.

        num_devices: number of ranks, by default all devices of the nodes. Of a perturbation that changes over time,
        what is wrong at the beginning of step 0. classes: the class of each node, whose devices have the mean speeds of
        the class (`classes_of_nodes`; None: each node is by itself). Raises InputError where the perturbation names
        what is not there.
        """
        per_node = machine.devices_per_node
        num_slots = num_nodes * per_node
        num_ranks = num_slots if num_devices is None else num_devices
        assert 0 < num_ranks <= num_slots and 0 < num_nodes <= machine.num_nodes, (num_ranks, num_nodes, machine.name)
        device_of = np.arange(num_ranks, dtype=np.int64) if placement is None else np.array(placement, np.int64)
        assert device_of.shape == (num_ranks,) and device_of.min() >= 0 and device_of.max() < num_slots
        assert np.bincount(device_of).max() == 1, "two ranks on one device"

        group_of_node = groups_of_job(machine, num_nodes)
        wires, device, pools = machine.node.links, machine.device, pools_of(machine, group_of_node)
        num_pools = len(pools.capacity)
        names = (*dict.fromkeys(wire.link_class for wire in wires), "hbm", "compute units", pools.link_class)
        num_classes = len(names)
        capacity = np.concatenate(
            [
                np.tile(np.array([wire.bytes_per_s for wire in wires], float), num_nodes),
                np.full(num_slots, device.hbm_bytes_per_s * device.hbm_share),
                np.full(num_slots, float(device.num_compute_units)),
                pools.capacity,
            ]
        )
        link_class = np.concatenate(
            [
                np.tile(np.array([names.index(wire.link_class) for wire in wires], np.int16), num_nodes),
                np.full(num_slots, num_classes - 3, np.int16),
                np.full(num_slots, num_classes - 2, np.int16),
                np.full(num_pools, num_classes - 1, np.int16),
            ]
        )
        sizes = [num_nodes * len(wires), num_slots, num_slots, num_pools]
        kind = np.repeat(
            np.array([ResourceKind.WIRE, ResourceKind.HBM, ResourceKind.UNITS, ResourceKind.WIRE], np.int8), sizes
        )
        links = LinkIds(machine=machine, num_nodes=num_nodes, pools=pools)
        devices, networks = degrade(links, capacity, perturbation.at((0, 0.0)), classes)
        fabric = cls(
            machine=machine,
            num_nodes=num_nodes,
            num_ranks=num_ranks,
            pools=pools,
            capacity=capacity,
            kind=kind,
            link_class=link_class,
            class_names=names,
            group_of_node=group_of_node,
            device_of=device_of,
            devices=devices.at(np.divmod(device_of, per_node)),
            networks=networks.at(device_of // per_node),
        )
        for array in (capacity, kind, link_class, group_of_node, device_of, fabric.speed):
            array.flags.writeable = False
        return fabric

    @property
    def speed(self) -> Floats:
        """[num_ranks] factor on the compute speed of the rank's device, as it is simulated."""
        return self.devices.mean

    def node_speeds(self) -> tuple[Floats, Floats]:
        """Factors on the speeds of devices [num_nodes, devices of a node] and on the rates at which nodes reach the
        network [num_nodes]; 1 where no rank is."""
        per_node = self.machine.devices_per_node
        speed, network = np.ones(self.num_nodes * per_node), np.ones(self.num_nodes)
        speed[self.device_of], network[self.device_of // per_node] = self.speed, self.networks.mean
        return speed.reshape(self.num_nodes, per_node), network

    @property
    def hbm_of(self) -> Ints:
        """[num_ranks] link id of each rank's memory."""
        return self.hbm_base + self.device_of

    @property
    def units_of(self) -> Ints:
        """[num_ranks] link id of each rank's compute units."""
        return self.units_base + self.device_of

    def link_hashes(self) -> Hashes:
        """[num_links] what tells links apart before their loads do: class and capacity."""
        return combine(number_hash(self.capacity), self.link_class.astype(np.uint64))

    def rank_hashes(self) -> Hashes:
        """[num_ranks] what tells ranks apart before their loads do: speed, memory and compute units."""
        own = number_hash(self.capacity[self.hbm_base : self.pool_base])
        memories, units = own[: self.num_devices], own[self.num_devices :]
        return combine(number_hash(self.speed), memories[self.device_of], units[self.device_of])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupLayout:
    """The groups of a pattern as visits, sorted by group, then by node.

    group_of   [num_ranks]   group of each rank
    group      [num_visits]  the group that visits
    node       [num_visits]  the node visited
    mask       [num_visits]  which positions of the node belong to the group, as bits
    following  [num_visits]  the visit of the same group to its next node, around to the first
    order      [num_visits]  running number of the visit within its group
    """

    num_groups: int
    size: int
    group_of: NDArray[np.int32]
    group: Ints
    node: Ints
    mask: Ints
    following: Ints
    order: Ints

    @property
    def spans_nodes(self) -> bool:
        """Whether the groups reach over several nodes; all groups of a pattern agree on that."""
        return len(self.group) > self.num_groups


def lay_out(fabric: Fabric, groups: NDArray[np.integer]) -> GroupLayout:
    """Sort the members of the groups ([num_groups, size] ranks, every rank in exactly one group) into visits."""
    num_groups, size = groups.shape
    assert groups.size == fabric.num_ranks, "the groups of a pattern hold every rank once"
    group_of = np.full(fabric.num_ranks, -1, np.int32)
    group_of[groups.ravel()] = np.repeat(np.arange(num_groups, dtype=np.int32), size)
    assert group_of.min() >= 0, "the groups of a pattern hold every rank once"

    node, position = np.divmod(np.sort(fabric.device_of[groups], axis=1), fabric.machine.devices_per_node)
    first = np.ones((num_groups, size), bool)  # the member opens a visit
    first[:, 1:] = node[:, 1:] != node[:, :-1]
    starts = np.flatnonzero(first)
    mask = np.bitwise_or.reduceat(np.int64(1) << position.ravel(), starts)
    group = starts // size
    opens = np.searchsorted(group, np.arange(num_groups))  # first visit of each group
    num_visits = np.diff(np.append(opens, len(group)))
    assert (num_visits == 1).all() or (num_visits > 1).all(), "groups within a node and over nodes in one pattern"
    following = np.arange(1, len(group) + 1)
    following[opens + num_visits - 1] = opens
    return GroupLayout(
        num_groups=num_groups,
        size=size,
        group_of=group_of,
        group=group,
        node=node.ravel()[starts],
        mask=mask,
        following=following,
        order=np.arange(len(group)) - opens[group],
    )


def ends(fabric: Fabric, link: int) -> tuple[str, str]:
    """Where a wire or a pool comes from and leads to, such as ("node 0 gcd 1", "node 0 nic0") or ("net 0", "net 3")."""
    if link >= fabric.pool_base:
        return fabric.pools.ends(link - fabric.pool_base)
    assert link < fabric.hbm_base, f"{fabric.describe(link)} joins no boxes"
    node, wire = divmod(link, fabric.wires_per_node)
    both = fabric.machine.node.links[wire]
    return box(fabric, node, both.src), box(fabric, node, both.dst)


def box(fabric: Fabric, node: int, end: End) -> str:
    """Boxes are named by node, the switch is not: there is one, or one per group of nodes between which pools lie."""
    if end != NET:
        return f"node {node} {'gcd ' if isinstance(end, int) else ''}{end}"
    return fabric.pools.switch(int(fabric.group_of_node[node]))


def joining_links(fabric: Fabric) -> list[int]:
    """The links that join boxes: all wires of nodes, and the pools between switches."""
    return [*range(fabric.hbm_base), *(fabric.pool_base + pool for pool in fabric.pools.joining())]
