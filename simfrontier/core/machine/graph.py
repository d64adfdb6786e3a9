"""A node's directed link graph, from the tables of a machine's file."""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import permutations

from simfrontier.base.errors import InputError, Key
from simfrontier.core.machine.form import MachineFile
from simfrontier.core.machine.hardware import BUS, NET, SWITCH, End, Link, LinkClass, Node

Route = tuple[int, ...]
Routes = tuple[tuple[Route, ...], ...]
_Outgoing = Mapping[End, Sequence[tuple[int, End]]]  # of each end: (link id, to)


def routes(links: Sequence[Link], num_devices: int) -> Routes:
    """Local link ids of the route of every ordered pair [a][b]; () on the diagonal and where b cannot be reached."""
    between = [number for number, link in enumerate(links) if isinstance(link.src, int) and isinstance(link.dst, int)]
    outgoing = _outgoing(links, between)
    return tuple(
        tuple(found.get(to, ()) for to in range(num_devices))
        for found in (_from(start, outgoing, links) for start in range(num_devices))
    )


def way(links: Sequence[Link], usable: Collection[int], start: End, end: End) -> Route:
    """Local link ids of the route from one end to another, devices, NICs or the network, over the usable links; ()
    where there is none."""
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


PCIE, NIC = "pcie", "nic"  # link classes of the route from a device to the network
PORT = "port"  # link class between a device and the switch of its node
LINKS: Key = ("node", "links")
NICS: Key = ("node", "nics", "device")


def node_of(file: MachineFile, classes: Mapping[str, LinkClass]) -> Node:
    """The graph of a machine's node. Raises InputError at the key that does not fit."""
    num_devices, per_package = file.devices_per_node, file.devices_per_package
    if file.node.links is not None and file.node.rings is not None:
        pairs = _pairs(file.node.links.pairs, num_devices)
        links = [_link(classes[pairs[a, b]], a, b) for a, b in sorted(pairs)]
        paths = routes(links, num_devices)
        for a, b in ((a, b) for a in range(num_devices) for b in range(num_devices) if a != b and not paths[a][b]):
            text = f"device {b} cannot be reached from device {a}, allowed: every pair has a route"
            raise InputError(text, key=LINKS)
        rings = _orders(("node", "rings"), file.node.rings.orders, pairs, num_devices, closed=True)
    elif file.node.switch is not None:
        around = tuple(range(num_devices))
        pairs = dict.fromkeys(permutations(around, 2), PORT)
        links = [link for a in around for link in (_link(classes[PORT], a, SWITCH), _link(classes[PORT], SWITCH, a))]
        paths = tuple(tuple((2 * a, 2 * b + 1) if a != b else () for b in around) for a in around)
        rings = (around, around[::-1])
    else:
        around = tuple(range(num_devices))
        pairs = dict.fromkeys(permutations(around, 2), BUS)
        links = [_link(classes[BUS], BUS, BUS, BUS)]
        paths = tuple(tuple((0,) if a != b else () for b in around) for a in around)
        rings = (around, around[::-1])
    nic_device: tuple[int, ...] = ()
    nic_of: tuple[int, ...] = ()
    chains: tuple[tuple[int, ...], ...] = ()
    out: list[tuple[int, ...]] = []
    back: list[tuple[int, ...]] = []
    if file.node.nics is not None and file.node.chains is not None:
        nic_device = file.node.nics.device
        nic_of = _nic_of(nic_device, num_devices, per_package)
        chains = _orders(("node", "chains"), file.node.chains.orders, pairs, num_devices, closed=False)
        first = len(links)
        for nic, device in enumerate(nic_device):
            links += _nic_links(nic, device, classes)
        for device, nic in enumerate(nic_of):
            up, down, tx, rx = range(first + 4 * nic, first + 4 * nic + 4)
            out.append((*paths[device][nic_device[nic]], up, tx))
            back.append((rx, down, *paths[nic_device[nic]][device]))
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


def _pairs(table: Mapping[str, Sequence[Sequence[int]]], num_devices: int) -> dict[tuple[int, int], str]:
    """Link class of every ordered pair that has a link of its own."""
    pairs: dict[tuple[int, int], str] = {}
    for name, listed in table.items():
        for a, b in listed:
            key, link = (*LINKS, "pairs", name), f"link [{a}, {b}]"
            _check_devices(key, (a, b), num_devices, f"{link}: ")
            if a == b:
                raise InputError(f"{link} joins a device to itself, allowed: two different devices", key=key)
            if (a, b) in pairs:
                text = f"{link} is there already (as {pairs[a, b]}), allowed: one entry per pair of devices"
                raise InputError(text, key=key)
            pairs[a, b] = pairs[b, a] = name
    return pairs


def _nic_of(nic_device: Sequence[int], num_devices: int, per_package: int) -> tuple[int, ...]:
    _check_devices(NICS, nic_device, num_devices)
    by_package: dict[int, int] = {}
    for nic, device in enumerate(nic_device):
        other = by_package.setdefault(device // per_package, nic)
        if other != nic:
            raise InputError(
                f"NIC {nic} on device {device} is the second NIC of package {device // per_package} "
                f"(NIC {other} is the first), allowed: one NIC per package",
                key=NICS,
            )
    for package in range(num_devices // per_package):
        if package not in by_package:
            raise InputError(f"package {package} has no NIC, allowed: one NIC per package", key=NICS)
    return tuple(by_package[device // per_package] for device in range(num_devices))


def _orders(
    key: Key, orders: Sequence[Sequence[int]], pairs: Iterable[tuple[int, int]], num_devices: int, *, closed: bool
) -> tuple[tuple[int, ...], ...]:
    """Rings (closed) or chains (open): each goes once over every device along direct links, and is there both ways."""
    known, key = set(pairs), (*key, "orders")
    for order in map(list, orders):
        _check_devices(key, order, num_devices, f"{order}: ")
        if sorted(order) != list(range(num_devices)):
            raise InputError(f"got {order}, allowed: each of the devices 0..{num_devices - 1} once", key=key)
        steps = list(zip(order, order[1:] + order[:1], strict=True))
        for a, b in steps if closed else steps[:-1]:
            if (a, b) not in known:
                raise InputError(f"{order} steps from {a} to {b}, allowed: steps along a link", key=key)
    there = Counter(_canonical(order, closed) for order in orders)
    for order in map(list, orders):
        back = order[::-1]
        if there[_canonical(back, closed)] != there[_canonical(order, closed)]:
            raise InputError(f"{order} lacks its way back {back}, allowed: every order in both directions", key=key)
    return tuple(tuple(order) for order in orders)


def _canonical(order: Sequence[int], closed: bool) -> tuple[int, ...]:
    """A closed ring may start anywhere."""
    start = order.index(min(order)) if closed else 0
    return (*order[start:], *order[:start])


def _check_devices(key: Key, devices: Iterable[int], num_devices: int, what: str = "") -> None:
    for device in devices:
        if not 0 <= device < num_devices:
            raise InputError(f"{what}device {device} does not exist, allowed: 0..{num_devices - 1}", key=key)
