"""What a machine is: frozen values for devices, links, a node's graph and the dragonfly between nodes.

A machine knows no schedule and no collective. Bandwidths here are nominal and per direction; the share of them that a
plain point-to-point copy achieves stands beside them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

End = int | str  # a device's local number, "nic0" .., or "net"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where one number of a machine comes from; tables (links, rings) count their entries."""

    key: str
    value: float
    unit: str
    kind: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkClass:
    """Links of one sort: nominal bytes/s per direction, and the share (0..1] a point-to-point copy gets of them."""

    name: str
    bytes_per_s: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One directed link of a node, e.g. `xgmi 0>6`; capacity is nominal."""

    name: str
    link_class: str
    src: End
    dst: End
    bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node's directed link graph; a link's local id is its index in `links`.

    Links between devices come first, sorted by (src, dst); then for each NIC its pcie up, pcie down, tx (`nic0>net`)
    and rx (`net>nic0`).
    """

    links: tuple[Link, ...]
    nic_device: tuple[int, ...]  # per NIC: the device that it hangs on
    nic_of: tuple[int, ...]  # per device: the NIC of its own package; empty where there is no NIC
    routes: tuple[tuple[tuple[int, ...], ...], ...]  # [a][b]
    routes_out: tuple[tuple[int, ...], ...]  # per device, to the network; empty where there is no NIC
    routes_in: tuple[tuple[int, ...], ...]
    rings: tuple[tuple[int, ...], ...]  # directed and closed, over all devices: used while in one node
    chains: tuple[tuple[int, ...], ...]  # open, entry device to exit device: used when a ring spans nodes

    def route(self, a: int, b: int) -> tuple[int, ...]:
        """Local link ids from device a to b: fewest hops, then widest, then lowest ids; () from a device to itself."""
        return self.routes[a][b]

    def to_network(self, a: int) -> tuple[int, ...]:
        """Device -> (in-package hop, where the NIC hangs on the other device) -> pcie up -> nic tx."""
        assert self.routes_out, "a machine of one node has no network"
        return self.routes_out[a]

    def from_network(self, a: int) -> tuple[int, ...]:
        """nic rx -> pcie down -> (in-package hop) -> device."""
        assert self.routes_in, "a machine of one node has no network"
        return self.routes_in[a]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dragonfly:
    """Groups of nodes, all to all; node i is in group i // nodes_per_group.

    `bytes_per_s` is the nominal pool of global links from one group to another (per ordered pair of groups). Of the
    traffic between two groups, `nonminimal_share` goes by way of a third group and so loads two global pools (UGAL).
    """

    nodes_per_group: int
    num_groups: int
    bytes_per_s: float
    nonminimal_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GCD or GPU.

    Matrix products of 16-bit numbers run at rate(m, n, k, batch) = R * x / (x + x0) with the square-equivalent edge
    x = (batch * m * n * k)^(1/3), R = `matmul_flops_per_s` and x0 = `matmul_half_edge` (the edge that gets half of R).
    R and x0 are fitted on square products; that other shapes run like the square of equal work is assumed.
    """

    hbm_bytes: float
    hbm_bytes_per_s: float  # nominal
    hbm_share: float  # of it, what a streaming kernel achieves
    num_compute_units: int
    peak_flops_per_s: float  # 16-bit matrix peak, the denominator of MFU
    matmul_flops_per_s: float
    matmul_half_edge: float
    kernel_gap_s: float  # between two kernels of one stream

    def matmul_rate(self, m: int, n: int, k: int, batch: int = 1) -> float:
        """Achieved flop/s of `batch` products (m x k)(k x n), 2*m*n*k flops each."""
        edge = math.cbrt(batch * m * n * k)
        return self.matmul_flops_per_s * edge / (edge + self.matmul_half_edge)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The host process of one rank."""

    hook_s: float  # host time per module hook


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A whole machine; `library` is the collective library it uses unless a scenario names another."""

    name: str
    title: str
    library: str
    num_nodes: int
    devices_per_node: int
    devices_per_package: int
    node: Node
    dragonfly: Dragonfly | None
    device: Device
    host: Host
    link_classes: Mapping[str, LinkClass] = field(hash=False)
    sources: tuple[Provenance, ...]

    @property
    def packages_per_node(self) -> int:
        """How many packages (MI250X: two GCDs each) a node has."""
        return self.devices_per_node // self.devices_per_package

    @property
    def num_devices(self) -> int:
        """Devices of the whole machine."""
        return self.num_nodes * self.devices_per_node

    def provenance(self) -> tuple[Provenance, ...]:
        """Every number of the machine with its source, in the order of the machine's file."""
        return self.sources
