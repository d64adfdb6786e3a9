"""The machine that a file describes: its values, and what is derived from them (the node's graph, pools of links)."""

from collections.abc import Mapping
from dataclasses import replace

from simfrontier.core.machine.checks import refuse_unfit
from simfrontier.core.machine.form import MachineFile
from simfrontier.core.machine.graph import NIC, node_of
from simfrontier.core.machine.hardware import UPLINK, Dragonfly, FatTree, LinkClass, Machine, Provenance
from simfrontier.core.machine.inherited import GLOBAL


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
