"""Translation of a wiring into lines for `ip` and `tc`: names, addresses, cables, shapers, and the route of every pair
of ranks."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from simfrontier_extras.emulation.wiring import Cable, Wiring

DATA, CONTROL = "box", "mgmt"  # devices of a rank's box: of its address on the fabric, and of the network beside it
QUEUE_BYTES = 64 << 20  # of a shaper: nothing is ever dropped
# A whole message may leave at once: no slow start, and no retransmission because a queue is long (nothing gets lost).
TCP_METRICS = "initcwnd 20000 initrwnd 20000 rto_min 60s"
LONGEST_BURST_S = 200.0  # 2**32 ticks of 64 ns are 275 s
RULE = 100  # priority; before the main table


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceLayout:
    """Lines for `ip` and `tc`: `joins` for the initial namespace, `ip[i]` and `tc[i]` for the namespace `names[i]`.

    The device `cK` sends into cable K, in the namespace number `senders[K]`; `control[r]` is the address of rank r on
    the unshaped network that runs in parallel to the fabric, `ranks[r]` the number of its namespace.
    """

    names: tuple[str, ...]
    joins: tuple[str, ...]
    ip: tuple[tuple[str, ...], ...]
    tc: tuple[tuple[str, ...], ...]
    cables: tuple[Cable, ...]
    senders: tuple[int, ...]
    ranks: tuple[int, ...]
    control: tuple[str, ...]


def lay_out(wiring: Wiring) -> NamespaceLayout:
    """Return the layout of a wiring: a box is a namespace with its own address, a cable the sending end of a veth
    pair."""
    number = {box: i for i, box in enumerate(wiring.boxes)}
    names = tuple(f"b{i}" for i in range(len(wiring.boxes)))
    own = f"link add name {DATA} type bridge"  # an address on `lo` is not one that gloo takes
    ip: list[list[str]] = [
        ["link set lo up", own, f"addr add {_data(i)}/32 dev {DATA}", f"link set {DATA} up"] for i in range(len(names))
    ]
    tc: list[list[str]] = [[] for _ in names]
    joins = []
    for there, back in _pairs(wiring):
        cable = wiring.cables[there]
        src, dst = number[cable.src], number[cable.dst]
        far = f"c{back}" if back is not None else f"r{there}"
        near_mac, far_mac = _mac(0, there), _mac(*((0, back) if back is not None else (1, there)))
        joins.append(
            f"link add name c{there} address {near_mac} mtu {wiring.packet_bytes} netns {names[src]} type veth "
            f"peer name {far} address {far_mac} mtu {wiring.packet_bytes} netns {names[dst]}"
        )
        for box, device, other, mac in ((src, f"c{there}", dst, far_mac), (dst, far, src, near_mac)):
            # TCP hands down packets, not bundles of them that the shaper would have to cut first
            ip[box].append(f"link set {device} gso_max_segs 1")
            ip[box].append(f"link set {device} up")
            ip[box].append(f"neigh add {_data(other)} lladdr {mac} dev {device} nud permanent")
    for k, cable in enumerate(wiring.cables):
        tc[number[cable.src]].append(shaper("add", k, cable))
    for box, lines in enumerate(_routes_of_boxes(wiring, number)):
        ip[box] += lines
    joins.append(f"link add name {CONTROL} type bridge")
    joins.append(f"link set {CONTROL} up")
    ranks = tuple(number[box] for box in wiring.ranks)
    for rank, box in enumerate(ranks):
        joins.append(f"link add name m{rank} type veth peer name {CONTROL} netns {names[box]}")
        joins += [f"link set m{rank} master {CONTROL}", f"link set m{rank} up"]
        ip[box] += [f"addr add {_control(rank)}/16 dev {CONTROL}", f"link set {CONTROL} up"]
    return NamespaceLayout(
        names=names,
        joins=tuple(joins),
        ip=tuple(tuple(lines) for lines in ip),
        tc=tuple(tuple(lines) for lines in tc),
        cables=wiring.cables,
        senders=tuple(number[cable.src] for cable in wiring.cables),
        ranks=ranks,
        control=tuple(_control(rank) for rank in range(len(ranks))),
    )


def shaper(verb: str, number: int, cable: Cable, factor: float = 1.0) -> str:
    """Return the line for `tc` that adds or changes the shaper of a cable. A cut cable still lets one packet through
    every few minutes: `tc` stores the time of a burst in 32 bits and does not accept a rate of 0."""
    bytes_per_s = max(factor * cable.bytes_per_s, cable.burst_bytes / LONGEST_BURST_S)
    rate = f"rate {round(8 * bytes_per_s)}bit burst {cable.burst_bytes} limit {QUEUE_BYTES}"
    return f"qdisc {verb} dev c{number} root tbf {rate}"


def _pairs(wiring: Wiring) -> list[tuple[int, int | None]]:
    """Return each cable with the cable of the opposite direction between the same boxes, if there is one."""
    waiting: dict[tuple[str, str], list[int]] = defaultdict(list)
    back_of: dict[int, int] = {}
    for k, cable in enumerate(wiring.cables):
        if waiting[cable.dst, cable.src]:
            back_of[waiting[cable.dst, cable.src].pop(0)] = k
        else:
            waiting[cable.src, cable.dst].append(k)
    backs = set(back_of.values())
    return [(k, back_of.get(k)) for k in range(len(wiring.cables)) if k not in backs]


def _routes_of_boxes(wiring: Wiring, number: dict[str, int]) -> list[list[str]]:
    """Return the routes of each box, by destination; if ranks take different routes from a box to the same destination,
    also rules by source."""
    hops: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)  # box, destination -> source -> cable
    for source, row in enumerate(wiring.routes):
        for target, way in enumerate(row):
            for k in way:
                hops[number[wiring.cables[k].src], target][source] = k
    out: list[list[str]] = [[] for _ in wiring.boxes]
    tables: set[tuple[int, int]] = set()
    ranks = [number[box] for box in wiring.ranks]
    for (box, target), cable_of in sorted(hops.items()):
        own = next((cable for source, cable in cable_of.items() if ranks[source] == box), None)
        counted = Counter(cable_of.values())
        # what a box sends itself goes by the main table: a rule cannot match before the sender's address is chosen
        main = own if own is not None else min(counted, key=lambda k: (-counted[k], k))
        to = _data(ranks[target])
        source_address = f" src {_data(box)} {TCP_METRICS}" if own is not None else ""
        out[box].append(f"route add {to}/32 {_hop(wiring, number, main)}{source_address}")
        for source, cable in sorted(cable_of.items()):
            if cable != main:
                if (box, cable) not in tables:
                    tables.add((box, cable))
                    out[box].append(f"route add default {_hop(wiring, number, cable)} table {1000 + cable}")
                rule = f"from {_data(ranks[source])} to {to} lookup {1000 + cable} priority {RULE}"
                out[box].append(f"rule add {rule}")
    return out


def _hop(wiring: Wiring, number: dict[str, int], cable: int) -> str:
    return f"via {_data(number[wiring.cables[cable].dst])} dev c{cable} onlink"


def _data(box: int) -> str:
    return f"10.0.{box // 250}.{box % 250 + 1}"


def _control(rank: int) -> str:
    return f"10.255.{rank // 250}.{rank % 250 + 1}"


def _mac(side: int, cable: int) -> str:
    return f"02:{side:02x}:{cable >> 24 & 255:02x}:{cable >> 16 & 255:02x}:{cable >> 8 & 255:02x}:{cable & 255:02x}"
