"""What a machine is: frozen values for devices, links, a node's graph and the network between nodes.

A machine knows no schedule and no collective. Bandwidths here are nominal and per direction; the share of them that a
plain point-to-point copy achieves stands beside them. A table of a machine's file has the keys of the value of that
name; the annotations say what it may hold, and which numbers carry a source there (see `simfrontier.base.io`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, Literal

from annotated_types import Ge, Le

from simfrontier.base.errors import InputError
from simfrontier.base.io import SOURCED, AtLeastOne, Derived, Names, NotNegative, Part, Positive, Share, Switch
from simfrontier.base.limits import NODES
from simfrontier.core.codecs import timed_codecs
from simfrontier.core.machine.copies import Copies
from simfrontier.core.machine.elementary import maximum
from simfrontier.core.machine.job_nodes import FIRST_NODES, JobNodes
from simfrontier.core.machine.kernels import PLAIN_KERNELS, AttentionKernel, Kernels, Tiles, misaligned

COMPUTE_UNITS: Final = 1_000_000  # devices have hundreds

GROUPS: Final = 2_048  # every pair of groups has a link: 4 million

End = int | str  # a device's local number, "nic0" .., "net", or "bus"
UPLINK = "uplink"  # the link class that every fat tree has, of its leaves' uplinks
Nodes = Annotated[int, Ge(1), Le(NODES.most), SOURCED]
SWITCH = "switch"  # the far end of every device's link in a node with a switch inside
NET = "net"  # the far end of every NIC's link
BUS = "bus"  # both ends of the one link of a node whose devices share it


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where one number of a machine comes from; tables (links, rings) count their entries. `interval`: 90 % confidence
    interval of a number that was fitted, where it is known."""

    key: str
    value: float
    unit: str
    kind: str
    source: str
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkClass:
    """Links of one sort: nominal bytes/s per direction, and the share (0..1] a large point-to-point copy gets of them.

    A copy of S bytes takes (S + half_bytes) / (share * bytes_per_s): one of `half_bytes` gets half of the rate.

    What only single messages feel (fidelity `chunk`): `latency_s` from a link's end to what comes next; whether a link
    hands a message on as it comes (`cut_through`) or when it has come as a whole; and `burst_bytes`, which a link that
    was idle lets through at once.
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
    """How an emulated fabric cuts messages, in bytes: at most `payload_bytes` of a message in a packet, `header_bytes`
    more for every packet, `message_bytes` more for every message, and, on the way back, `reply_bytes` for every
    packet and `reply_message_bytes` for every message."""

    payload_bytes: int
    header_bytes: int
    message_bytes: int
    reply_bytes: int
    reply_message_bytes: int

    def sent_bytes(self, num_bytes: float) -> float:
        """What a message's links carry in its direction."""
        packets = -(-(num_bytes + self.message_bytes) // self.payload_bytes)
        return num_bytes + self.message_bytes + packets * self.header_bytes

    def replied_bytes(self, num_bytes: float) -> float:
        """What the links of the opposite direction carry for it."""
        packets = -(-(num_bytes + self.message_bytes) // self.payload_bytes)
        return packets * self.reply_bytes + self.reply_message_bytes


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

    Links between devices come first, sorted by (src, dst), or, of a node with a switch inside, those of each device to
    and from the switch, or the one `bus` that they share; then for each NIC its
    pcie up, pcie down, tx (`nic0>net`) and rx (`net>nic0`).
    """

    links: tuple[Link, ...]
    nic_device: tuple[int, ...]  # per NIC: the device that it hangs on
    nic_of: tuple[int, ...]  # per device: the NIC of its own package; empty where there is no NIC
    routes: tuple[tuple[tuple[int, ...], ...], ...]  # [a][b]
    routes_out: tuple[tuple[int, ...], ...]  # per device, to the network; empty where there is no NIC
    routes_in: tuple[tuple[int, ...], ...]
    rings: tuple[tuple[int, ...], ...]  # directed and closed, over all devices: used while in one node
    chains: tuple[tuple[int, ...], ...]  # open, entry device to exit device: used when a ring spans nodes

    @property
    def has_bus(self) -> bool:
        """Whether all devices of the node share one resource, so that it is the route of every pair."""
        return any(link.src == BUS for link in self.links)

    @property
    def has_switch(self) -> bool:
        """Whether all devices of the node hang on one switch."""
        return any(link.dst == SWITCH for link in self.links)

    def route(self, a: int, b: int) -> tuple[int, ...]:
        """Local link ids from device a to b: fewest hops, then widest, then lowest ids; () from a device to itself."""
        return self.routes[a][b]

    @property
    def num_inside(self) -> int:
        """Number of links before those of the NICs."""
        return len(self.links) - 4 * len(self.nic_device)

    def leg(self, link: int) -> tuple[int, ...]:
        """Of a NIC's link, both links between its device and the network in that direction, in order; of any other
        link that link alone."""
        if link < self.num_inside:
            return (link,)
        nic, which = divmod(link - self.num_inside, 4)
        up, down, tx, rx = range(self.num_inside + 4 * nic, self.num_inside + 4 * nic + 4)
        return (up, tx) if which in (0, 2) else (rx, down)

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
    """Groups of nodes, all to all; node i is in group i // nodes_per_group, unless a scenario has a topology.

    `bytes_per_s` is the nominal pool of global links from one group to another (per ordered pair of groups). Of the
    traffic between two groups, `nonminimal_share` goes through a third group and so loads two global pools (UGAL).
    """

    nodes_per_group: Nodes
    num_groups: Annotated[int, Ge(1), Le(GROUPS), SOURCED]
    bytes_per_s: Annotated[float, Derived(math.nan)]  # the link class `global`
    nonminimal_share: Annotated[Part, SOURCED]


@dataclass(frozen=True, slots=True, kw_only=True)
class FatTree:
    """Leaf switches under levels that are non-blocking; node i hangs under leaf i // nodes_per_leaf, but
    for a scenario with a topology.

    `bytes_per_s` is the nominal pool of one leaf's uplinks in each direction: what the NICs of its nodes inject at
    most, over `taper` (1: the leaves are non-blocking, too). Of it, plain copies get the share that they get of a NIC.
    """

    nodes_per_leaf: Nodes
    num_leaves: Nodes
    taper: Annotated[AtLeastOne, SOURCED]
    bytes_per_s: Annotated[float, Derived(math.nan)]  # of NICs and taper


@dataclass(frozen=True, slots=True, kw_only=True)
class Matmul:
    """Matrix products of one type of numbers: the nominal peak, and what is achieved.

    They run at rate(m, n, k, batch) = R * x / (x + x0) with the square-equivalent edge x = (batch * m * n * k)^(1/3),
    R = `matmul_flops_per_s` and x0 = `matmul_half_edge` (the edge that gets half of R). R and x0 are fitted on square
    products; that other shapes run like the square of equal work is assumed. Where the device has `tiles`, they take
    the place of x0: R is then the rate of full waves, of `num_compute_units` tiles each. Sizes that do not divide by 64
    elements cost `misaligned` for each halving.
    """

    peak_flops_per_s: Annotated[Positive, SOURCED]
    matmul_flops_per_s: Annotated[Positive, SOURCED]
    matmul_half_edge: Annotated[NotNegative, SOURCED]
    tiles: Annotated[Tiles | None, Derived(None)] = None
    num_compute_units: Annotated[int, Derived(1)] = 1
    misaligned: Annotated[float, Derived(0.0)] = 0.0

    def rate(self, m: int, n: int, k: int, batch: int = 1) -> float:
        """Achieved flop/s of `batch` products (m x k)(k x n), 2*m*n*k flops each."""
        full = self.matmul_flops_per_s / misaligned(self.misaligned, m, n, k)
        if self.tiles is not None:
            return full / self.tiles.slowdown(m, n, k, batch, self.num_compute_units)
        edge = math.cbrt(batch * m * n * k)
        return full * edge / (edge + self.matmul_half_edge)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulForms:
    """What the form of a linear module's product does to its rate: a factor on the rate of `Matmul`, by form.

    Forms have their BLAS (column-major) names, for weights that lie as [outputs, inputs]: the forward product is `tn`,
    that of the inputs' gradient `nn`, that of the weights' gradient `nt`. Where products are `tuned`, each of the first
    two runs as the fastest form, found before the step, as AxoNN does (axonn-ai/axonn, branch add-timers-gordon-bell);
    what it takes to have an operand transposed is not counted.
    """

    tn: Annotated[Positive, SOURCED] = 1.0
    nn: Annotated[Positive, SOURCED] = 1.0
    nt: Annotated[Positive, SOURCED] = 1.0
    tuned: Annotated[bool, Switch(), SOURCED] = False

    def factor(self, form: Literal["tn", "nn", "nt"] | None) -> float:
        """On the rate of a product of that form; None, a product without one, runs as the law says."""
        if form is None:
            return 1.0
        own = {"tn": self.tn, "nn": self.nn, "nt": self.nt}
        return maximum(self.tn, maximum(self.nn, self.nt)) if self.tuned and form != "nt" else own[form]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecSpeeds:
    """How fast a device codes and decodes by one family of codecs: bytes of uncompressed 32-bit values per second."""

    encode_bytes_per_s: Annotated[Positive, SOURCED]
    decode_bytes_per_s: Annotated[Positive, SOURCED]


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GCD or GPU. Matrix products of 16-bit numbers are always known, those of wider ones where the file has
    them.

    `speed_sd` is the relative standard deviation of speed between devices of the machine, `call_sd` that of the time of
    a kernel on one device from one launch to the next, `matmul_sd` that of the natural logarithm of measured rates of
    matrix products around the law of `Matmul`; 0 where the file does not say.
    `codecs`: speeds by name of the codec (`codecs.timed_codecs`), of those that the file knows.
    """

    hbm_bytes: Annotated[Positive, SOURCED]
    hbm_bytes_per_s: Annotated[Positive, SOURCED]  # nominal
    hbm_share: Annotated[Share, SOURCED]  # of it, what a streaming kernel achieves
    num_compute_units: Annotated[int, Ge(1), Le(COMPUTE_UNITS), SOURCED]
    peak_flops_per_s: Annotated[Positive, SOURCED]  # 16-bit matrix peak, the denominator of a 16-bit model's MFU
    matmul_flops_per_s: Annotated[Positive, SOURCED]  # of 16-bit numbers
    matmul_half_edge: Annotated[NotNegative, SOURCED]
    kernel_gap_s: Annotated[NotNegative, SOURCED]  # between two kernels of one stream
    speed_sd: Annotated[Part, SOURCED] = 0.0
    call_sd: Annotated[Part, SOURCED] = 0.0
    matmul_sd: Annotated[Part, SOURCED] = 0.0
    fp8: Matmul | None = None
    fp32: Matmul | None = None
    fp64: Matmul | None = None
    matmul_forms: MatmulForms = MatmulForms()
    tiles: Tiles | None = None
    misaligned: Annotated[NotNegative, SOURCED] = 0.0  # see `kernels.misaligned`
    attention: Mapping[AttentionKernel, Annotated[Positive, SOURCED]] = field(default_factory=dict, hash=False)
    codecs: Mapping[Annotated[str, Names(timed_codecs)], CodecSpeeds] = field(default_factory=dict, hash=False)

    def matmuls(self) -> dict[str, Matmul]:
        """How products run, by the type of their numbers; what the machine's file does not say is not there."""
        narrow = Matmul(
            peak_flops_per_s=self.peak_flops_per_s,
            matmul_flops_per_s=self.matmul_flops_per_s,
            matmul_half_edge=self.matmul_half_edge,
            tiles=self.tiles,
            num_compute_units=self.num_compute_units,
            misaligned=self.misaligned,
        )
        fp8 = (
            None if self.fp8 is None else replace(self.fp8, tiles=self.tiles, num_compute_units=self.num_compute_units)
        )
        every = {"fp8": fp8, "fp16": narrow, "bf16": narrow, "fp32": self.fp32, "fp64": self.fp64}
        return {name: one for name, one in every.items() if one is not None}

    def matmul_rate(self, m: int, n: int, k: int, batch: int = 1) -> float:
        """Achieved flop/s of `batch` products (m x k)(k x n) of 16-bit numbers, 2*m*n*k flops each."""
        return self.matmuls()["fp16"].rate(m, n, k, batch)

    def roofline_s(self, math_s: float, num_bytes: float) -> float:
        """The slower of `math_s` seconds of arithmetic and of moving `num_bytes` through memory, s."""
        return maximum(math_s, num_bytes / (self.hbm_bytes_per_s * self.hbm_share))

    def kernel_s(self, math_s: float, num_bytes: float, speed: float = 1.0) -> float:
        """Time of a kernel, s: the gap before it, then its roofline time, on a device of `speed` times the typical
        one."""
        return self.kernel_gap_s + self.roofline_s(math_s, num_bytes) / speed


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The host process of one rank."""

    hook_s: Annotated[NotNegative, SOURCED]  # host time per module hook


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A whole machine; `library` is the collective library it uses unless a scenario names another.

    Between nodes there is a dragonfly, a fat tree, or one switch that holds nobody up.
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
    device_word: str = "device"  # what people call one
    kernels: Kernels = PLAIN_KERNELS  # of the software stack
    job_nodes: JobNodes = FIRST_NODES  # those that a job gets

    @property
    def packages_per_node(self) -> int:
        """How many packages (MI250X: two GCDs each) a node has."""
        return self.devices_per_node // self.devices_per_package

    @property
    def num_devices(self) -> int:
        """Devices of the whole machine."""
        return self.num_nodes * self.devices_per_node

    def matmul(self, dtype: str) -> Matmul:
        """How matrix products of that type of numbers run. Raises InputError where the machine's file does not say."""
        known = self.device.matmuls()
        if dtype not in known:
            raise InputError(
                f"machine {self.name} has no rate of matrix products of {dtype} numbers (device.{dtype}); "
                f"allowed: {', '.join(known)}"
            )
        return known[dtype]

    def provenance(self) -> tuple[Provenance, ...]:
        """Every number of the machine with its source, in the order of the machine's file."""
        return self.sources
