"""One device or one link at a time: which of them are alike, and what is wrong where one of each kind lags.

Ranks of one class of a healthy step's folding do the same, and so do links: one step is simulated for each class, with
one of it slower. What is alike while all is well is told apart where one is singled out, and which of its neighbours
share its traffic may then matter: members of a class were seen to differ by up to 5e-6 of a step.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simfrontier.answers.slowdown.results import LaggingLinks
from simfrontier.base.arrays import Ints
from simfrontier.core.cost import Pricing
from simfrontier.core.machine import DegradedLink, DegradedPool, Perturbation, SlowDevice, SlowMemory
from simfrontier.core.network import Fabric


def classes_of_devices(pricing: Pricing) -> Ints:
    """The rank class on each device of the nodes [num_devices], -1 where there is none."""
    out = np.full(pricing.fabric.num_devices, -1, np.int64)
    out[pricing.fabric.device_of] = pricing.folding.rank_class
    return out


def lagging_device(pricing: Pricing, cls: int, factor: float) -> Perturbation:
    """What is wrong where a device of a rank class computes at a part of its speed."""
    device = int(pricing.fabric.device_of[pricing.folding.representative[cls]])
    return Perturbation(slow=(SlowDevice(device=device, factor=factor),))


def lagging_links(pricing: Pricing, factor: float) -> Iterator[tuple[LaggingLinks, Perturbation]]:
    """Every class of wires, memories and global pools that a schedule loads, where one of it has a part of its
    capacity both ways, and what is wrong then; of each class of the machine the kinds with the most links first."""
    fabric, folding = pricing.fabric, pricing.folding
    reverse = reverses(fabric)
    links = np.flatnonzero(np.isin(folding.link_class, loaded_classes(pricing)) & (reverse >= 0))
    both = np.minimum(links, reverse[links])
    pairs = np.unique(both)
    ends = np.sort(folding.link_class[np.stack([pairs, reverse[pairs]], axis=1)], axis=1)
    _, first, count = np.unique(ends, axis=0, return_index=True, return_counts=True)
    chosen = pairs[first]
    order = np.lexsort((chosen, -count, fabric.link_class[chosen]))
    for link, size in zip(chosen[order].tolist(), count[order].tolist(), strict=True):
        name = fabric.class_names[fabric.link_class[link]]
        alike = LaggingLinks(link_class=name, example=fabric.describe(link), num_links=size)
        yield alike, degraded(fabric, link, factor)


def loaded_classes(pricing: Pricing) -> Ints:
    """The link classes that any pattern of a schedule loads."""
    folding = pricing.folding
    rows = [folding.column(key, cls).rows for key in pricing.patterns for cls in range(len(folding.count(key)))]
    return np.unique(np.concatenate(rows))


def reverses(fabric: Fabric) -> Ints:
    """The link that leads the other way [num_links]: of a wire without one, and of a memory, itself; -1 for compute
    units, and for pools that no perturbation names."""
    wires = fabric.machine.node.links
    ends = {(wire.src, wire.dst): number for number, wire in enumerate(wires)}
    back = np.array([ends.get((wire.dst, wire.src), number) for number, wire in enumerate(wires)], np.int64)
    out = np.arange(fabric.num_links)
    out[: fabric.hbm_base] = (np.arange(fabric.num_nodes)[:, None] * fabric.wires_per_node + back).ravel()
    out[fabric.units_base : fabric.pool_base] = -1
    pools = np.full(fabric.num_links - fabric.pool_base, -1, np.int64)
    if fabric.machine.dragonfly is not None and len(pools):
        groups = fabric.num_pool_groups
        pools = fabric.pool_base + np.arange(groups**2).reshape(groups, groups).T.ravel()
    out[fabric.pool_base :] = pools
    return out


def degraded(fabric: Fabric, link: int, factor: float) -> Perturbation:
    """What is wrong where a link, and the one that leads the other way, has a part of its capacity."""
    if link >= fabric.pool_base:
        source, target = divmod(link - fabric.pool_base, fabric.num_pool_groups)
        ways = ((source, target), (target, source))
        return Perturbation(pools=tuple(DegradedPool(source=a, target=b, factor=factor) for a, b in ways))
    if link >= fabric.hbm_base:
        return Perturbation(memories=(SlowMemory(device=link - fabric.hbm_base, factor=factor),))
    node, number = divmod(link, fabric.wires_per_node)
    wire = fabric.machine.node.links[number]
    names = [each.name for each in fabric.machine.node.links if (each.src, each.dst) == (wire.dst, wire.src)]
    return Perturbation(
        links=tuple(DegradedLink(node=node, link=name, factor=factor) for name in dict.fromkeys((wire.name, *names)))
    )
