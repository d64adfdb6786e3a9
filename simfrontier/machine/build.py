"""From a machine file that has the right form to a Machine, or to one line about what does not fit together."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import permutations

from simfrontier.errors import InputError, nearest
from simfrontier.machine.copies import Copies, Messages
from simfrontier.machine.hardware import (
    BUS,
    UPLINK,
    CodecSpeeds,
    Device,
    Dragonfly,
    End,
    FatTree,
    Host,
    Link,
    LinkClass,
    Machine,
    Matmul,
    MatmulForms,
    Node,
    Provenance,
)
from simfrontier.machine.routing import routes
from simfrontier.machine.schema import (
    CodecsFile,
    CopiesFile,
    Count,
    DeviceFile,
    DragonflyFile,
    FatTreeFile,
    MachineFile,
    MatmulFile,
    MatmulFormsFile,
)
from simfrontier.tomlfile import told

PCIE, NIC, GLOBAL = "pcie", "nic", "global"  # link classes with a fixed part, as `bus`; all others join two devices


def build(file: MachineFile, sources: tuple[Provenance, ...]) -> Machine:
    """Raises InputError `key: what, allowed` where the parts of the file do not fit together."""
    _check_sizes(file)
    _check_link_classes(file)
    classes = {
        name: LinkClass(
            name=name, bytes_per_s=c.bytes_per_s.value, share=c.share.value, half_bytes=told(c.half_bytes, 0.0)
        )
        for name, c in file.link_classes.items()
    }
    tree = _fat_tree(file, file.fat_tree, classes[NIC]) if file.fat_tree else None
    if tree is not None:
        classes[UPLINK] = LinkClass(name=UPLINK, bytes_per_s=tree.bytes_per_s, share=classes[NIC].share)
    return Machine(
        name=file.name,
        title=file.title,
        library=file.library,
        num_nodes=file.num_nodes.value,
        devices_per_node=file.devices_per_node.value,
        devices_per_package=file.devices_per_package.value,
        node=_node(file, classes),
        dragonfly=_dragonfly(file.dragonfly, classes) if file.dragonfly else None,
        device=Device(
            hbm_bytes=file.device.hbm_bytes.value,
            hbm_bytes_per_s=file.device.hbm_bytes_per_s.value,
            hbm_share=file.device.hbm_share.value,
            num_compute_units=file.device.num_compute_units.value,
            peak_flops_per_s=file.device.peak_flops_per_s.value,
            matmul_flops_per_s=file.device.matmul_flops_per_s.value,
            matmul_half_edge=file.device.matmul_half_edge.value,
            kernel_gap_s=file.device.kernel_gap_s.value,
            speed_sd=told(file.device.speed_sd, 0.0),
            matmul_sd=told(file.device.matmul_sd, 0.0),
            fp32=_matmul(file.device.fp32),
            fp64=_matmul(file.device.fp64),
            matmul_forms=_forms(file.device.matmul_forms) if file.device.matmul_forms else MatmulForms(),
            codecs=_codecs(file.device.codecs) if file.device.codecs else {},
        ),
        host=Host(hook_s=file.host.hook_s.value),
        link_classes=classes,
        sources=sources,
        copies=_copies(file.copies) if file.copies else None,
        device_word=file.device_word or ("GCD" if file.devices_per_package.value > 1 else "device"),
        fat_tree=tree,
    )


def _matmul(file: MatmulFile | None) -> Matmul | None:
    if file is None:
        return None
    return Matmul(
        peak_flops_per_s=file.peak_flops_per_s.value,
        flops_per_s=file.matmul_flops_per_s.value,
        half_edge=file.matmul_half_edge.value,
    )


def _forms(file: MatmulFormsFile) -> MatmulForms:
    return MatmulForms(
        tn=told(file.tn, 1.0), nn=told(file.nn, 1.0), nt=told(file.nt, 1.0), tuned=told(file.tuned, 0.0) == 1.0
    )


def _codecs(file: CodecsFile) -> dict[str, CodecSpeeds]:
    told_of = {"zfp": file.zfp, "mpc": file.mpc, "int8": file.int8, "int4": file.int4}
    return {
        name: CodecSpeeds(
            encode_bytes_per_s=one.encode_bytes_per_s.value, decode_bytes_per_s=one.decode_bytes_per_s.value
        )
        for name, one in told_of.items()
        if one is not None
    }


def _copies(file: CopiesFile) -> Copies:
    return Copies(
        routed_share=file.routed_share.value,
        engine_bytes_per_s=file.engine_bytes_per_s.value,
        in_node_sd=file.in_node_sd.value,
        between_nodes_sd=file.between_nodes_sd.value,
        short_bytes=file.short_bytes.value,
        short_s=file.short_s.value,
        eager_s=file.eager_s.value,
        eager_bytes_per_s=file.eager_bytes_per_s.value,
        rendezvous_s=file.rendezvous_s.value,
        libraries={
            name: Messages(
                gap_s=one.gap_s.value,
                bytes_per_s=one.bytes_per_s.value,
                half_bytes=one.half_bytes.value,
                rendezvous_bytes=one.rendezvous_bytes.value,
            )
            for name, one in file.libraries.items()
        },
    )


def _dragonfly(file: DragonflyFile, classes: dict[str, LinkClass]) -> Dragonfly:
    return Dragonfly(
        nodes_per_group=file.nodes_per_group.value,
        num_groups=file.num_groups.value,
        bytes_per_s=classes[GLOBAL].bytes_per_s,
        nonminimal_share=file.nonminimal_share.value,
    )


def _fat_tree(file: MachineFile, part: FatTreeFile, nic: LinkClass) -> FatTree:
    assert file.node.nics is not None, "a machine of several nodes has NICs"
    injected = part.nodes_per_leaf.value * len(file.node.nics.device) * nic.bytes_per_s
    return FatTree(
        nodes_per_leaf=part.nodes_per_leaf.value,
        num_leaves=part.num_leaves.value,
        taper=part.taper.value,
        bytes_per_s=injected / part.taper.value,
    )


def _check_sizes(file: MachineFile) -> None:
    per_node, per_package = file.devices_per_node.value, file.devices_per_package.value
    if per_node % per_package:
        raise InputError(f"devices_per_package: got {per_package}, allowed: a divisor of devices_per_node = {per_node}")
    for key, rates in (("device", file.device), ("device.fp32", file.device.fp32), ("device.fp64", file.device.fp64)):
        if rates is not None and rates.matmul_flops_per_s.value > rates.peak_flops_per_s.value:
            raise InputError(
                f"{key}.matmul_flops_per_s: got {rates.matmul_flops_per_s.value:g}, "
                f"allowed: at most {key}.peak_flops_per_s = {rates.peak_flops_per_s.value:g}"
            )
        if rates is not None and file.device.matmul_forms is not None:
            _check_forms(key, rates, file.device.matmul_forms)
    joined = {"node.links": file.node.links, "node.rings": file.node.rings}
    for key, part in joined.items():
        if file.node.bus is None and part is None:
            raise InputError(f"{key}: missing, needed because there is no node.bus, which would join all devices")
        if file.node.bus is not None and part is not None:
            raise InputError(f"{key}: not allowed beside node.bus, which joins all devices")
    needed = {"node.nics": file.node.nics, "node.chains": file.node.chains}
    for key, outside in needed.items():
        if file.num_nodes.value > 1 and outside is None:
            raise InputError(f"{key}: missing, needed because num_nodes is {file.num_nodes.value}")
    for key, extra in {**needed, "dragonfly": file.dragonfly, "fat_tree": file.fat_tree}.items():
        if file.num_nodes.value == 1 and extra is not None:
            raise InputError(f"{key}: not allowed in a machine of one node (num_nodes = 1)")
    if file.dragonfly is not None and file.fat_tree is not None:
        raise InputError("fat_tree: not allowed beside dragonfly, which joins the nodes")
    if file.dragonfly is not None:
        _check_room(
            file,
            file.dragonfly.num_groups,
            file.dragonfly.nodes_per_group,
            "dragonfly.num_groups * dragonfly.nodes_per_group",
        )
    if file.fat_tree is not None:
        _check_room(
            file,
            file.fat_tree.num_leaves,
            file.fat_tree.nodes_per_leaf,
            "fat_tree.num_leaves * fat_tree.nodes_per_leaf",
        )


def _check_room(file: MachineFile, groups: Count, nodes: Count, keys: str) -> None:
    room = groups.value * nodes.value
    if room < file.num_nodes.value:
        raise InputError(f"num_nodes: got {file.num_nodes.value}, allowed: at most {room} ({keys})")


def _check_forms(key: str, rates: DeviceFile | MatmulFile, forms: MatmulFormsFile) -> None:
    most = rates.peak_flops_per_s.value / rates.matmul_flops_per_s.value
    for form, factor in (("tn", forms.tn), ("nn", forms.nn), ("nt", forms.nt)):
        if factor is not None and factor.value > most:
            raise InputError(
                f"device.matmul_forms.{form}: got {factor.value:g}, allowed: at most {most:.4g}, "
                f"{key}.peak_flops_per_s / {key}.matmul_flops_per_s"
            )


def _check_link_classes(file: MachineFile) -> None:
    used = dict.fromkeys(file.node.links.pairs if file.node.links is not None else (), "node.links")
    for reserved in (PCIE, NIC, GLOBAL, BUS, UPLINK):
        if reserved in used:
            raise InputError(f'node.links.pairs.{reserved}: got "{reserved}", which never joins two devices')
    if file.node.bus is not None:
        used |= {BUS: "node.bus"}
    if file.node.nics is not None:
        used |= {PCIE: "node.nics", NIC: "node.nics"}
    if file.dragonfly is not None:
        used |= {GLOBAL: "dragonfly"}
    for name, user in used.items():
        if name not in file.link_classes:
            raise InputError(f'{user} needs link class "{name}", which is missing: {nearest(name, file.link_classes)}')
    for name in file.link_classes:
        if name not in used:
            raise InputError(f"link_classes.{name}: nothing in this machine uses it: {nearest(name, used)}")


def _node(file: MachineFile, classes: dict[str, LinkClass]) -> Node:
    num_devices, per_package = file.devices_per_node.value, file.devices_per_package.value
    if file.node.links is not None and file.node.rings is not None:
        pairs = _pairs(file.node.links.pairs, num_devices)
        links = [_link(classes[pairs[a, b]], a, b) for a, b in sorted(pairs)]
        paths = routes(links, num_devices)
        for a, b in ((a, b) for a in range(num_devices) for b in range(num_devices) if a != b and not paths[a][b]):
            said = f"device {b} cannot be reached from device {a}, allowed: every pair has a route"
            raise InputError(f"node.links: {said}")
        rings = _orders("node.rings", file.node.rings.orders, pairs, num_devices, closed=True)
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
        nic_device = tuple(file.node.nics.device)
        nic_of = _nic_of(nic_device, num_devices, per_package)
        chains = _orders("node.chains", file.node.chains.orders, pairs, num_devices, closed=False)
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


def _nic_links(nic: int, device: int, classes: dict[str, LinkClass]) -> tuple[Link, Link, Link, Link]:
    name = f"nic{nic}"
    return (
        _link(classes[PCIE], device, name),
        _link(classes[PCIE], name, device),
        _link(classes[NIC], name, "net", f"{name}>net"),
        _link(classes[NIC], "net", name, f"net>{name}"),
    )


def _pairs(table: dict[str, list[list[int]]], num_devices: int) -> dict[tuple[int, int], str]:
    """Link class of every ordered pair that has a link of its own."""
    pairs: dict[tuple[int, int], str] = {}
    for name, listed in table.items():
        for a, b in listed:
            key = f"node.links.pairs.{name}: link [{a}, {b}]"
            _check_devices(key, (a, b), num_devices)
            if a == b:
                raise InputError(f"{key} joins a device to itself, allowed: two different devices")
            if (a, b) in pairs:
                raise InputError(f"{key} is there already (as {pairs[a, b]}), allowed: one entry per pair of devices")
            pairs[a, b] = pairs[b, a] = name
    return pairs


def _nic_of(nic_device: Sequence[int], num_devices: int, per_package: int) -> tuple[int, ...]:
    _check_devices("node.nics.device", nic_device, num_devices)
    by_package: dict[int, int] = {}
    for nic, device in enumerate(nic_device):
        other = by_package.setdefault(device // per_package, nic)
        if other != nic:
            raise InputError(
                f"node.nics.device: NIC {nic} on device {device} is the second NIC of package {device // per_package} "
                f"(NIC {other} is the first), allowed: one NIC per package"
            )
    for package in range(num_devices // per_package):
        if package not in by_package:
            raise InputError(f"node.nics.device: package {package} has no NIC, allowed: one NIC per package")
    return tuple(by_package[device // per_package] for device in range(num_devices))


def _orders(
    key: str, orders: list[list[int]], pairs: Iterable[tuple[int, int]], num_devices: int, *, closed: bool
) -> tuple[tuple[int, ...], ...]:
    """Rings (closed) or chains (open): each goes once over every device along direct links, and is there both ways."""
    known = set(pairs)
    for order in orders:
        _check_devices(f"{key}.orders {order}", order, num_devices)
        if sorted(order) != list(range(num_devices)):
            raise InputError(f"{key}.orders: got {order}, allowed: each of the devices 0..{num_devices - 1} once")
        steps = list(zip(order, order[1:] + order[:1], strict=True))
        for a, b in steps if closed else steps[:-1]:
            if (a, b) not in known:
                raise InputError(f"{key}.orders: {order} steps from {a} to {b}, allowed: steps along a link")
    there = Counter(_canonical(order, closed) for order in orders)
    for order in orders:
        back = order[::-1]
        if there[_canonical(back, closed)] != there[_canonical(order, closed)]:
            raise InputError(
                f"{key}.orders: {order} lacks its way back {back}, allowed: every order in both directions"
            )
    return tuple(tuple(order) for order in orders)


def _canonical(order: list[int], closed: bool) -> tuple[int, ...]:
    """A closed ring may start anywhere."""
    start = order.index(min(order)) if closed else 0
    return tuple(order[start:] + order[:start])


def _check_devices(key: str, devices: Iterable[int], num_devices: int) -> None:
    for device in devices:
        if not 0 <= device < num_devices:
            raise InputError(f"{key}: device {device} does not exist, allowed: 0..{num_devices - 1}")
