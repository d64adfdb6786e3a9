"""Machine model: immutable classes for devices, links, the link graph of a node and the network between nodes.

A machine knows nothing of schedules or collectives. Bandwidths are nominal and per direction, each with the share that
a plain point-to-point copy achieves. A table of a machine's file has the same keys as the class of that name has
fields; the annotations give the allowed values, and mark the numbers that carry a source in the file (see
`simfrontier.base.io`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

from annotated_types import Ge, Le

from simfrontier.base.errors import InputError
from simfrontier.base.io import SOURCED, AtLeastOne, Derived, NotNegative, Part, Positive, Share
from simfrontier.base.limits import NODES
from simfrontier.base.units import counted
from simfrontier.core.machine.catalogs import Provenance
from simfrontier.core.machine.device import NARROWER, PLAIN_KERNELS, Device, Host, Kernels, Matmul
from simfrontier.core.machine.job_nodes import FIRST_NODES, JobNodes

GROUPS: Final = 2_048  # every pair of groups has a link: 4 million

End = int | str  # a device's local number, "nic0" .., "net", or "bus"
UPLINK = "uplink"  # the link class that every fat tree has, of its leaves' uplinks
Nodes = Annotated[int, Ge(1), Le(NODES.most), SOURCED]
SWITCH = "switch"  # the far end of every device's link in a node with a switch inside
NET = "net"  # the far end of every NIC's link
BUS = "bus"  # both ends of the one link of a node whose devices share it


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkClass:
    """Links of one class: nominal bytes/s per direction, and the share (0..1] of it that a large point-to-point copy
    achieves.

    A copy of S bytes takes (S + half_bytes) / (share * bytes_per_s): a copy of `half_bytes` achieves half of the rate.

    For the simulation of single messages only (fidelity `chunk`): `latency_s` from a link's end to the next hop;
    `cut_through`: whether a link forwards a message as it arrives, or only after the whole message has arrived;
    `burst_bytes`: bytes that an idle link lets through at once.
    """

    bytes_per_s: Annotated[Positive, SOURCED]
    share: Annotated[Share, SOURCED]
    half_bytes: Annotated[NotNegative, SOURCED] = 0.0
    name: Annotated[str, Derived("")]  # its key in the file
    latency_s: Annotated[float, Derived(0.0)] = 0.0
    cut_through: Annotated[bool, Derived(True)] = True
    burst_bytes: Annotated[float, Derived(0.0)] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Packets:
    """Packetisation of messages on an emulated fabric, in bytes: at most `payload_bytes` of a message per packet, plus
    `header_bytes` per packet and `message_bytes` per message, and, in the opposite direction, `reply_bytes` per packet
    and `reply_message_bytes` per message."""

    payload_bytes: int
    header_bytes: int
    message_bytes: int
    reply_bytes: int
    reply_message_bytes: int

    def sent_bytes(self, num_bytes: float) -> float:
        """Return the bytes that a message puts on the links in its own direction, headers included."""
        packets = -(-(num_bytes + self.message_bytes) // self.payload_bytes)
        return num_bytes + self.message_bytes + packets * self.header_bytes

    def replied_bytes(self, num_bytes: float) -> float:
        """Return the bytes that the replies to a message put on the links of the opposite direction."""
        packets = -(-(num_bytes + self.message_bytes) // self.payload_bytes)
        return packets * self.reply_bytes + self.reply_message_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One directed link of a node, e.g. `xgmi 0>6`; its capacity is nominal."""

    name: str
    link_class: str
    src: End
    dst: End
    bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Directed link graph of one node; the local id of a link is its index in `links`.

    First come the links inside the node: those between devices, sorted by (src, dst), or, if the node has a switch, the
    links of each device to and from the switch, or the one `bus` that all devices share. Then come four links for each
    NIC: pcie up, pcie down, tx (`nic0>net`) and rx (`net>nic0`).
    """

    links: tuple[Link, ...]
    nic_device: tuple[int, ...]  # per NIC: the device that it is attached to
    nic_of: tuple[int, ...]  # per device: the NIC of its own package; empty where there is no NIC
    routes: tuple[tuple[tuple[int, ...], ...], ...]  # [a][b]
    routes_out: tuple[tuple[int, ...], ...]  # per device, to the network; empty where there is no NIC
    routes_in: tuple[tuple[int, ...], ...]
    rings: tuple[tuple[int, ...], ...]  # directed and closed, over all devices: used while in one node
    chains: tuple[tuple[int, ...], ...]  # open, entry device to exit device: used when a ring spans nodes

    @property
    def has_bus(self) -> bool:
        """True if all devices of the node share one bus, which is then the route of every pair of devices."""
        return any(link.src == BUS for link in self.links)

    @property
    def has_switch(self) -> bool:
        """True if all devices of the node are attached to one switch."""
        return any(link.dst == SWITCH for link in self.links)

    def route(self, a: int, b: int) -> tuple[int, ...]:
        """Return the route from device a to device b as local link ids: fewest hops, then highest bandwidth, then
        lowest ids; () from a device to itself."""
        return self.routes[a][b]

    @property
    def num_inside(self) -> int:
        """Number of links inside the node; the links of the NICs follow them in `links`."""
        return len(self.links) - 4 * len(self.nic_device)

    def leg(self, link: int) -> tuple[int, ...]:
        """Return the two links between device and network, in order, that a NIC's link belongs to in its direction; for
        any link inside the node, that link alone."""
        if link < self.num_inside:
            return (link,)
        nic, which = divmod(link - self.num_inside, 4)
        up, down, tx, rx = range(self.num_inside + 4 * nic, self.num_inside + 4 * nic + 4)
        return (up, tx) if which in (0, 2) else (rx, down)

    def to_network(self, a: int) -> tuple[int, ...]:
        """Return the route from device a to the network: (in-package hop, if the NIC is attached to the other device),
        pcie up, nic tx."""
        assert self.routes_out, "a machine of one node has no network"
        return self.routes_out[a]

    def from_network(self, a: int) -> tuple[int, ...]:
        """Return the route from the network to device a: nic rx, pcie down, (in-package hop)."""
        assert self.routes_in, "a machine of one node has no network"
        return self.routes_in[a]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dragonfly:
    """Dragonfly network: groups of nodes, with global links between all pairs of groups. Node i is in group i //
    nodes_per_group, unless a scenario has a topology.

    `bytes_per_s` is the nominal capacity of the pool of global links from one group to another (per ordered pair of
    groups). Of the traffic between two groups, `nonminimal_share` goes through a third group and so loads two global
    pools (UGAL).
    """

    nodes_per_group: Nodes
    num_groups: Annotated[int, Ge(1), Le(GROUPS), SOURCED]
    bytes_per_s: Annotated[float, Derived(math.nan)]  # the link class `global`
    nonminimal_share: Annotated[Part, SOURCED]


@dataclass(frozen=True, slots=True, kw_only=True)
class FatTree:
    """Fat-tree network: leaf switches under non-blocking upper levels. Node i is under leaf i // nodes_per_leaf, unless
    a scenario has a topology.

    `bytes_per_s` is the nominal capacity of the pool of one leaf's uplinks in each direction: the highest rate at which
    the NICs of its nodes inject, divided by `taper` (1: the leaves are non-blocking, too). Plain copies achieve the
    same share of it as of a NIC's bandwidth.
    """

    nodes_per_leaf: Nodes
    num_leaves: Nodes
    taper: Annotated[AtLeastOne, SOURCED]
    bytes_per_s: Annotated[float, Derived(math.nan)]  # of NICs and taper


# ── single copies, from measured point-to-point tables ──
#
# Inside a node a copy's rate is its link class's (`LinkClass.share`, `LinkClass.half_bytes`); here is what link classes
# lack: pairs without a link of their own, copy engines, and messages between nodes, by library.


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """Model of the messages between two nodes by one communication library.

    With many messages in flight, a message of S bytes takes max(gap_s, (S + half_bytes) / bytes_per_s): the message
    rate limits small messages, the wire large ones, and a message of half_bytes achieves half of bytes_per_s. From
    `rendezvous_bytes` on, messages use the rendezvous protocol.
    """

    gap_s: Annotated[Positive, SOURCED]
    bytes_per_s: Annotated[Positive, SOURCED]
    half_bytes: Annotated[NotNegative, SOURCED]
    rendezvous_bytes: Annotated[Positive, SOURCED]

    def streamed_s(self, num_bytes: float) -> float:
        """Return the seconds per message with many messages in flight (as osu_bw measures)."""
        return max(self.gap_s, (num_bytes + self.half_bytes) / self.bytes_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """Parameters of single copies on a machine, in addition to its link classes.

    `routed_share`: share of its point-to-point rate that the narrowest link of a route of several links achieves;
    `engine_bytes_per_s`: highest rate of a copy engine (SDMA); `in_node_sd`, `between_nodes_sd`: standard deviations of
    the natural logarithm of measured times around this model, for measurements to which it was not fitted. A single
    message of S bytes between two nodes takes `short_s` up to `short_bytes`; then, while eager, eager_s + S /
    eager_bytes_per_s; then rendezvous_s + S / the library's bytes_per_s.
    """

    routed_share: Annotated[Share, SOURCED]
    engine_bytes_per_s: Annotated[Positive, SOURCED]
    in_node_sd: Annotated[Positive, SOURCED]
    between_nodes_sd: Annotated[Positive, SOURCED]
    short_bytes: Annotated[Positive, SOURCED]
    short_s: Annotated[Positive, SOURCED]
    eager_s: Annotated[Positive, SOURCED]
    eager_bytes_per_s: Annotated[Positive, SOURCED]
    rendezvous_s: Annotated[Positive, SOURCED]
    libraries: Mapping[str, Messages] = field(hash=False)

    def alone_s(self, library: str, num_bytes: float) -> float:
        """Return the one-way time in seconds of a single message between two nodes, by one of the `libraries` (as
        osu_latency measures)."""
        messages = self.libraries[library]
        if num_bytes >= messages.rendezvous_bytes:
            return self.rendezvous_s + num_bytes / messages.bytes_per_s
        if num_bytes > self.short_bytes:
            return self.eager_s + num_bytes / self.eager_bytes_per_s
        return self.short_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A whole machine; `library` is the default collective library, unless a scenario names another.

    The network between nodes is a dragonfly, a fat tree, or one non-blocking switch.
    """

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
    packets: Packets | None = None  # where the machine is emulated
    copies: Copies | None = None  # where single copies were measured
    fat_tree: FatTree | None = None
    device_word: str = "device"  # term for a device
    kernels: Kernels = PLAIN_KERNELS  # of the software stack
    job_nodes: JobNodes = FIRST_NODES  # those that a job gets

    @property
    def packages_per_node(self) -> int:
        """Number of packages (MI250X: two GCDs each) of a node."""
        return self.devices_per_node // self.devices_per_package

    @property
    def num_devices(self) -> int:
        """Number of devices of the whole machine."""
        return self.num_nodes * self.devices_per_node

    def matmul(self, dtype: str) -> Matmul:
        """Return the rates of matrix products of that number type. Raises InputError if the machine's file does not
        give them."""
        rates = self.device.matmul(dtype)
        if rates is None:
            known = [name for name in (*NARROWER, "fp16", "bf16", "fp32", "fp64") if self.device.matmul(name)]
            raise InputError(
                f"machine {self.name} has no rate of matrix products of {dtype} numbers (device.{dtype}); "
                f"allowed: {', '.join(known)}"
            )
        return rates

    def provenance(self) -> tuple[Provenance, ...]:
        """Return the source of every number of the machine, in the order of the machine's file."""
        return self.sources


# ── numbers of devices that make a full mesh: parts of one node that divide it, then whole nodes ──


class SizeError(InputError):
    """Error for a number of devices that no plan can run on."""


def mesh_sizes(
    machine: Machine, num_devices: int, per_node: int | None = None, per_package: int | None = None
) -> dict[str, int]:
    """Return the sizes of the mesh axes node, package and gcd for a job of `num_devices` devices.

    `per_node`, `per_package`: numbers of ranks per node and per package (default: all devices of the node, of the
    package). Raises InputError, with the nearest valid sizes, for a number that leaves part of a package or node idle.
    """
    given = per_node is not None or per_package is not None
    per_node, per_package = per_node or machine.devices_per_node, per_package or machine.devices_per_package
    if per_node % per_package or machine.num_devices % per_node:
        raise SizeError(
            f"got {per_node} devices per node and {per_package} per package, allowed: a divisor of the "
            f"{machine.num_devices} devices of {machine.name}, and a divisor of that",
            key=("mesh",),
        )
    inside = [*_divisors(per_package), *(per_package * packages for packages in _divisors(per_node // per_package))]
    if num_devices in inside:
        gcd = min(num_devices, per_package)
        return {"node": 1, "package": num_devices // gcd, "gcd": gcd}
    if num_devices > 0 and num_devices % per_node == 0 and num_devices <= machine.num_devices:
        return {"node": num_devices // per_node, "package": per_node // per_package, "gcd": per_package}
    whole = [num_devices // per_node * per_node, -(-num_devices // per_node) * per_node]
    works = sorted({*inside, *(size for size in whole if per_node <= size <= machine.num_devices), machine.num_devices})
    below = [size for size in works if size < num_devices][-1:]
    above = [size for size in works if size > num_devices][:1]
    cut = f", as mesh cuts its {machine.num_devices} devices" if given else ""
    fault = "are more than those of" if num_devices > machine.num_devices else "do not fill whole nodes of"
    raise SizeError(
        f"{num_devices} devices {fault} {machine.name} ({counted(machine.num_devices // per_node, 'node')} "
        f"of {per_node} devices{cut}), use {' or '.join(map(str, below + above))}",
        key=("devices",),
    )


def _divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]
