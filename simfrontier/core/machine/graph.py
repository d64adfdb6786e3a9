"""Directed link graph of a node, built from the tables of a machine's file."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import permutations

from simfrontier.base.errors import InputError, Key
from simfrontier.core.machine.form import NIC, PCIE, PORT, Links, MachineFile, NodeTable, Orders
from simfrontier.core.machine.hardware import BUS, NET, SWITCH, End, Link, LinkClass, Node

Route = tuple[int, ...]
Routes = tuple[tuple[Route, ...], ...]
Pairs = Mapping[tuple[int, int], str]  # link class of every ordered pair of devices that has a link of its own
_Outgoing = Mapping[End, Sequence[tuple[int, End]]]  # of each end: (link id, to)


def routes(links: Sequence[Link], num_devices: int) -> Routes:
    """Return the routes between all devices: [a][b] holds the local link ids from device a to device b; () on the
    diagonal and where b cannot be reached from a."""
    between = [number for number, link in enumerate(links) if isinstance(link.src, int) and isinstance(link.dst, int)]
    outgoing = _outgoing(links, between)
    return tuple(
        tuple(found.get(to, ()) for to in range(num_devices))
        for found in (_from(start, outgoing, links) for start in range(num_devices))
    )


def way(links: Sequence[Link], usable: Collection[int], start: End, end: End) -> Route:
    """Return the route between two endpoints (devices, NICs or the network) over the usable links, as local link ids;
    () if there is no route."""
    return _from(start, _outgoing(links, usable), links).get(end, ())


def _outgoing(links: Sequence[Link], usable: Collection[int]) -> _Outgoing:
    out: dict[End, list[tuple[int, End]]] = {}
    for number in sorted(usable):
        out.setdefault(links[number].src, []).append((number, links[number].dst))
    return out


def _from(start: End, outgoing: _Outgoing, links: Sequence[Link]) -> dict[End, Route]:
    # Level by level; of each end the first path (by link ids) for every width that all of its links have at least.
    # The best path to b need not extend the best path to its predecessor, since a narrow last link makes the widths
    # before it equal; but it extends the predecessor's first path of its own width.
    known: dict[End, dict[float, Route]] = {start: {math.inf: ()}}
    level = {start: known[start]}
    while level:
        reached: dict[End, dict[float, Route]] = {}
        for here, paths in level.items():
            for link_id, to in outgoing.get(here, ()):
                if to not in known:
                    first = reached.setdefault(to, {})
                    for width, path in paths.items():
                        narrowest, longer = min(width, links[link_id].bytes_per_s), (*path, link_id)
                        if narrowest not in first or longer < first[narrowest]:
                            first[narrowest] = longer
        known.update(reached)
        level = reached
    return {to: paths[max(paths)] for to, paths in known.items()}


def node_of(file: MachineFile, classes: Mapping[str, LinkClass]) -> Node:
    """Return the link graph of a machine's node. Raises InputError at the key that is inconsistent with the others."""
    num_devices = file.devices_per_node
    pairs, links, paths = _inside(file.node, num_devices, classes)
    around = tuple(range(num_devices))
    rings: tuple[Route, ...] = (around, around[::-1])
    if file.node.rings is not None:
        rings = _orders(("node", "rings"), file.node.rings, pairs, num_devices)
    nic_device: tuple[int, ...] = ()
    nic_of: tuple[int, ...] = ()
    chains: tuple[Route, ...] = ()
    out: list[Route] = []
    back: list[Route] = []
    if file.node.nics is not None and (file.node.chains is not None or file.node.switch is not None):
        nic_device = file.node.nics.devices(num_devices, file.devices_per_package)
        nic_of = _nic_of(nic_device, num_devices, file.devices_per_package)
        chains = _around(nic_device, num_devices)
        if file.node.chains is not None:
            chains = _orders(("node", "chains"), file.node.chains, pairs, num_devices)
        for device, nic in enumerate(nic_of):
            up, down, tx, rx = range(len(links) + 4 * nic, len(links) + 4 * nic + 4)
            out.append((*paths[device][nic_device[nic]], up, tx))
            back.append((rx, down, *paths[nic_device[nic]][device]))
        links += [link for nic, device in enumerate(nic_device) for link in _nic_links(nic, device, classes)]
    return Node(
        links=tuple(links),
        nic_device=nic_device,
        nic_of=nic_of,
        routes=paths,
        routes_out=tuple(out),
        routes_in=tuple(back),
        rings=rings,
        chains=chains,
    )


def _inside(node: NodeTable, num_devices: int, classes: Mapping[str, LinkClass]) -> tuple[Pairs, list[Link], Routes]:
    """Return the connections between the devices of a node: the link class of each pair of devices, the links, and the
    routes over these links. Raises InputError if a pair of devices has no route."""
    around = range(num_devices)
    if node.links is not None:
        pairs = _pairs(node.links, num_devices)
        links = [_link(classes[pairs[a, b]], a, b) for a, b in sorted(pairs)]
        paths = routes(links, num_devices)
        for a, b in permutations(around, 2):
            if not paths[a][b]:
                text = f"device {b} cannot be reached from device {a}, allowed: every pair has a route"
                raise InputError(text, key=("node", "links"))
        return pairs, links, paths
    if node.switch is not None:
        links = [link for a in around for link in (_link(classes[PORT], a, SWITCH), _link(classes[PORT], SWITCH, a))]
        paths = tuple(tuple((2 * a, 2 * b + 1) if a != b else () for b in around) for a in around)
        return dict.fromkeys(permutations(around, 2), PORT), links, paths
    paths = tuple(tuple((0,) if a != b else () for b in around) for a in around)
    return dict.fromkeys(permutations(around, 2), BUS), [_link(classes[BUS], BUS, BUS, BUS)], paths


def _link(link_class: LinkClass, src: End, dst: End, name: str = "") -> Link:
    medium = re.sub(r"\d+$", "", link_class.name)  # a number at the end of a class's name counts wires: xgmi4
    return Link(
        name=name or f"{medium} {src}>{dst}",
        link_class=link_class.name,
        src=src,
        dst=dst,
        bytes_per_s=link_class.bytes_per_s,
    )


def _nic_links(nic: int, device: int, classes: Mapping[str, LinkClass]) -> tuple[Link, Link, Link, Link]:
    name = f"nic{nic}"
    return (
        _link(classes[PCIE], device, name),
        _link(classes[PCIE], name, device),
        _link(classes[NIC], name, NET, f"{name}>{NET}"),
        _link(classes[NIC], NET, name, f"{NET}>{name}"),
    )


def _pairs(table: Links, num_devices: int) -> Pairs:
    pairs: dict[tuple[int, int], str] = {}
    for name, listed in table.pairs.items():
        for a, b in listed:
            if a == b or (a, b) in pairs or not {a, b} <= set(range(num_devices)):
                text = f"got link [{a}, {b}], allowed: two of the devices 0..{num_devices - 1}, each pair once"
                raise InputError(text, key=("node", "links", "pairs", name))
            pairs[a, b] = pairs[b, a] = name
    return pairs


def _nic_of(nic_device: Sequence[int], num_devices: int, per_package: int) -> tuple[int, ...]:
    of_package = {device // per_package: nic for nic, device in enumerate(nic_device) if 0 <= device < num_devices}
    if not len(of_package) == len(nic_device) == num_devices // per_package:
        text = f"got {list(nic_device)}, allowed: devices 0..{num_devices - 1}, one NIC per package of {per_package}"
        raise InputError(text, key=("node", "nics", "device"))
    return tuple(of_package[device // per_package] for device in range(num_devices))


def _around(nic_device: Sequence[int], num_devices: int) -> tuple[Route, ...]:
    """Return the chains of a node with a switch: for each NIC one that starts at its device and goes around, and its
    way back."""
    there = [tuple((start + step) % num_devices for step in range(num_devices)) for start in nic_device]
    return tuple(chain for way in there for chain in (way, way[::-1]))


def _orders(key: Key, table: Orders, pairs: Pairs, num_devices: int) -> tuple[Route, ...]:
    """Return the device orders of the rings (closed) or chains. Raises InputError unless each order visits every device
    once along direct links, and also exists in the reverse direction."""
    closed, orders = key[-1] == "rings", [tuple(order) for order in table.orders]
    there = sorted(_canonical(order, closed) for order in orders)
    back = sorted(_canonical(order[::-1], closed) for order in orders)
    for order in orders:
        steps = list(zip(order, order[1:] + order[:1], strict=True))
        if sorted(order) != list(range(num_devices)):
            text = f"got {list(order)}, allowed: each of the devices 0..{num_devices - 1} once"
        elif broken := [step for step in (steps if closed else steps[:-1]) if step not in pairs]:
            text = f"{list(order)} steps from {broken[0][0]} to {broken[0][1]}, allowed: steps along a link"
        elif there != back:
            text = f"got {list(map(list, orders))}, allowed: every order in both directions"
        else:
            continue
        raise InputError(text, key=(*key, "orders"))
    return tuple(orders)


def _canonical(order: Route, closed: bool) -> Route:
    """Return a ring or chain in canonical form: a closed ring starts at its lowest device."""
    start = order.index(min(order)) if closed else 0
    return (*order[start:], *order[:start])
