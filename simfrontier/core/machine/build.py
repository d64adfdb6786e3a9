"""The machine that a file describes: its values, and what is derived from them (the node's graph, pools of links)."""

from collections.abc import Mapping
from dataclasses import replace

from simfrontier.base.errors import InputError, Key, dotted, nearest
from simfrontier.core.machine.form import MachineFile
from simfrontier.core.machine.graph import NIC, PCIE, PORT, node_of
from simfrontier.core.machine.hardware import (
    BUS,
    UPLINK,
    Device,
    Dragonfly,
    FatTree,
    LinkClass,
    Machine,
    Matmul,
    MatmulForms,
    Provenance,
)
from simfrontier.core.machine.inherited import GLOBAL


def refuse_unfit(file: MachineFile) -> None:
    """Raises InputError."""
    _refuse_sizes(file)
    _refuse_parts(file)
    _refuse_network(file)
    _refuse_link_classes(file)


def _refuse_sizes(file: MachineFile) -> None:
    per_node, per_package = file.devices_per_node, file.devices_per_package
    if per_node % per_package:
        text = f"got {per_package}, allowed: a divisor of devices_per_node = {per_node}"
        raise InputError(text, key=("devices_per_package",))
    of_types: dict[Key, Matmul | Device | None] = {
        ("device",): file.device,
        ("device", "fp8"): file.device.fp8,
        ("device", "fp32"): file.device.fp32,
        ("device", "fp64"): file.device.fp64,
    }
    for place, rates in of_types.items():
        if rates is None:
            continue
        if rates.matmul_flops_per_s > rates.peak_flops_per_s:
            most = f"{dotted(place)}.peak_flops_per_s = {rates.peak_flops_per_s:g}"
            text = f"got {rates.matmul_flops_per_s:g}, allowed: at most {most}"
            raise InputError(text, key=(*place, "matmul_flops_per_s"))
        _refuse_forms(dotted(place), rates, file.device.matmul_forms)


def _refuse_parts(file: MachineFile) -> None:
    """Parts that a machine needs, or cannot have, because of others."""
    inside: dict[str, object] = {"links": file.node.links, "rings": file.node.rings}
    joined = [name for name, part in (("switch", file.node.switch), ("bus", file.node.bus)) if part is not None]
    if len(joined) > 1:
        raise InputError("not allowed beside node.bus, which joins all devices", key=("node", "switch"))
    for name, part in inside.items():
        if not joined and part is None:
            text = "missing, needed because there is no node.switch or node.bus, which would join all devices"
            raise InputError(text, key=("node", name))
        if joined and part is not None:
            raise InputError(f"not allowed beside node.{joined[0]}, which joins all devices", key=("node", name))
    outside: dict[Key, object] = {("node", "nics"): file.node.nics, ("node", "chains"): file.node.chains}
    for key, part in outside.items():
        if file.num_nodes > 1 and part is None:
            raise InputError(f"missing, needed because num_nodes is {file.num_nodes}", key=key)
    for key, part in {**outside, ("dragonfly",): file.dragonfly, ("fat_tree",): file.fat_tree}.items():
        if file.num_nodes == 1 and part is not None:
            raise InputError("not allowed in a machine of one node (num_nodes = 1)", key=key)


def _refuse_network(file: MachineFile) -> None:
    fly, tree = file.dragonfly, file.fat_tree
    if fly is not None and tree is not None:
        raise InputError("not allowed beside dragonfly, which joins the nodes", key=("fat_tree",))
    rooms = []
    if fly is not None:
        rooms.append((fly.num_groups * fly.nodes_per_group, "dragonfly.num_groups * dragonfly.nodes_per_group"))
    if tree is not None:
        rooms.append((tree.num_leaves * tree.nodes_per_leaf, "fat_tree.num_leaves * fat_tree.nodes_per_leaf"))
    for room, keys in rooms:
        if room < file.num_nodes:
            raise InputError(f"got {file.num_nodes}, allowed: at most {room} ({keys})", key=("num_nodes",))


def _refuse_forms(key: str, rates: Device | Matmul, forms: MatmulForms) -> None:
    most = rates.peak_flops_per_s / rates.matmul_flops_per_s
    for form, factor in (("tn", forms.tn), ("nn", forms.nn), ("nt", forms.nt)):
        if factor > most:
            text = f"at most {most:.4g}, {key}.peak_flops_per_s / {key}.matmul_flops_per_s"
            raise InputError(f"got {factor:g}, allowed: {text}", key=("device", "matmul_forms", form))


def _refuse_link_classes(file: MachineFile) -> None:
    used = dict.fromkeys(file.node.links.pairs if file.node.links is not None else (), "node.links")
    for reserved in (PCIE, NIC, PORT, GLOBAL, BUS, UPLINK):
        if reserved in used:
            text = f'got "{reserved}", which never joins two devices'
            raise InputError(text, key=("node", "links", "pairs", reserved))
    if file.node.bus is not None:
        used |= {BUS: "node.bus"}
    if file.node.switch is not None:
        used |= {PORT: "node.switch"}
    if file.node.nics is not None:
        used |= {PCIE: "node.nics", NIC: "node.nics"}
    if file.dragonfly is not None:
        used |= {GLOBAL: "dragonfly"}
    for name, user in used.items():
        if name not in file.link_classes:
            text = f'{user} needs link class "{name}", which is missing; {nearest(name, file.link_classes)}'
            raise InputError(text)
    for name in file.link_classes:
        if name not in used:
            text = f"nothing in this machine uses it; {nearest(name, used)}"
            raise InputError(text, key=("link_classes", name))


def build(file: MachineFile, sources: tuple[Provenance, ...]) -> Machine:
    """Raises InputError, at a key, where the parts of the file do not fit together."""
    refuse_unfit(file)
    classes = {name: replace(link_class, name=name) for name, link_class in file.link_classes.items()}
    tree = _fat_tree(file, classes)
    if tree is not None:
        classes[UPLINK] = LinkClass(name=UPLINK, bytes_per_s=tree.bytes_per_s, share=classes[NIC].share)
    return Machine(
        name=file.name,
        title=file.title,
        library=file.library,
        num_nodes=file.num_nodes,
        devices_per_node=file.devices_per_node,
        devices_per_package=file.devices_per_package,
        node=node_of(file, classes),
        dragonfly=_dragonfly(file, classes),
        device=file.device,
        host=file.host,
        link_classes=classes,
        sources=sources,
        copies=file.copies,
        device_word=file.device_word or ("GCD" if file.devices_per_package > 1 else "device"),
        fat_tree=tree,
    )


def _dragonfly(file: MachineFile, classes: Mapping[str, LinkClass]) -> Dragonfly | None:
    return None if file.dragonfly is None else replace(file.dragonfly, bytes_per_s=classes[GLOBAL].bytes_per_s)


def _fat_tree(file: MachineFile, classes: Mapping[str, LinkClass]) -> FatTree | None:
    """Its leaves' uplinks carry what the NICs below inject, over the taper."""
    if file.fat_tree is None:
        return None
    assert file.node.nics is not None, "a machine of several nodes has NICs"
    injected = file.fat_tree.nodes_per_leaf * len(file.node.nics.device) * classes[NIC].bytes_per_s
    return replace(file.fat_tree, bytes_per_s=injected / file.fat_tree.taper)
