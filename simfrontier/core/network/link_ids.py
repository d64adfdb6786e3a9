"""Numbers of the links of some nodes, and their names."""

from dataclasses import dataclass

from simfrontier.base.errors import InputError, nearest
from simfrontier.core.machine import Machine
from simfrontier.core.network.pools import Pools


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkIds:
    """Ids of the links of `num_nodes` whole nodes, in this order: the directed wires of node 0, node 1 ... (as
    `machine.node.links` numbers them), the memory of every device, the compute units of every device, and, where the
    job spans several groups of a dragonfly or leaves of a fat tree, their pools."""

    machine: Machine
    num_nodes: int
    pools: Pools

    @property
    def wires_per_node(self) -> int:
        """Number of directed wires of one node."""
        return len(self.machine.node.links)

    @property
    def num_devices(self) -> int:
        """Number of devices on the nodes, with a rank or without."""
        return self.num_nodes * self.machine.devices_per_node

    @property
    def hbm_base(self) -> int:
        """Link id of the memory of device 0; before it come all node wires."""
        return self.num_nodes * self.wires_per_node

    @property
    def units_base(self) -> int:
        """Link id of the compute units of device 0."""
        return self.hbm_base + self.num_devices

    @property
    def pool_base(self) -> int:
        """Link id of pool 0 of `pools`."""
        return self.units_base + self.num_devices

    @property
    def num_pool_groups(self) -> int:
        """Number of groups of nodes between which pools lie; 0 in a job without pools."""
        return self.pools.num_groups

    @property
    def num_links(self) -> int:
        """Number of links of all kinds."""
        return self.pool_base + len(self.pools.capacity)

    def link_named(self, node: int, name: str) -> int:
        """Link id of a wire of a node, or of "hbm <position>" or "compute units <position>" of one of its devices.

        Raises InputError for a node or name that is not there, naming the nearest valid name.
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
        """Name of a link for a reader, such as "node 3 xgmi 0>6", "global 0>3" or "leaf 3 up"."""
        assert 0 <= link < self.num_links, link
        if link < self.hbm_base:
            node, wire = divmod(link, self.wires_per_node)
            return f"node {node} {self.machine.node.links[wire].name}"
        if link >= self.pool_base:
            return self.pools.describe(link - self.pool_base)
        base, what = (self.hbm_base, "hbm") if link < self.units_base else (self.units_base, "compute units")
        node, position = divmod(link - base, self.machine.devices_per_node)
        return f"node {node} {what} {position}"
