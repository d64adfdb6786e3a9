"""Bytes and utilisation of a job's links in a step, by link class, in total and over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from simfrontier.answers.step.bytes_moved import Traffic, payload_weights
from simfrontier.base.arrays import Floats, Ints
from simfrontier.core.engine import SimulatedStep
from simfrontier.core.machine import NET, Link, Machine
from simfrontier.core.network import Pattern, ResourceKind
from simfrontier.core.program import Compute


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLoad:
    """One directed link of an average node: payload bytes per step, and its utilisation (share of nominal capacity)
    over the whole step.
    """

    name: str
    link_class: str
    src: str
    dst: str
    num_bytes: float
    utilisation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLinks:
    """All links of an average node, and the mean utilisation of each link class (global pools included)."""

    links: tuple[LinkLoad, ...]
    by_class: Mapping[str, tuple[float, float]]


def node_links(step: SimulatedStep, moved: Traffic) -> NodeLinks:
    """Return the bytes and utilisation of links in a step with traffic `moved`, averaged over the nodes of the job;
    pools between dragonfly groups are averaged over the pools that carry anything."""
    fabric = step.pricing.fabric
    loads = moved.on_link
    per_node = loads[: fabric.hbm_base].reshape(fabric.num_nodes, fabric.wires_per_node).mean(axis=0)
    wires = fabric.machine.node.links
    links = tuple(
        LinkLoad(
            name=wire.name,
            link_class=wire.link_class,
            src=str(wire.src),
            dst=str(wire.dst),
            num_bytes=float(size),
            utilisation=float(size / wire.bytes_per_s / step.step_s),
        )
        for wire, size in zip(wires, per_node, strict=True)
    )
    by_class = {}
    for number, name in enumerate(fabric.class_names):
        mine = (fabric.link_class == number) & (loads > 0)
        if mine.any():
            busy = float((loads[mine] / fabric.capacity[mine]).mean() / step.step_s)
            by_class[name] = (float(np.mean(loads[mine])), busy)
    return NodeLinks(links=links, by_class=by_class)


NUM_PARTS: Final = 1000  # of a step: a rate is a mean over one of them
DRAWN_PARTS: Final = 400  # of a step as a page draws it


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkUse:
    """Payload bytes in each of several equal intervals of a step, per link class or per link name of a node, as in
    `Traffic.on_link`; `capacity`: total bytes/s of the links of the class that carry traffic. NIC links form two
    classes, `out` to the network and `in` from it. `times_s`: start of each interval; every interval lasts `part_s`.
    """

    times_s: Floats
    part_s: float
    num_bytes: Mapping[str, Floats]
    capacity: Mapping[str, float]

    def share(self, name: str) -> Floats:
        """Return the utilisation of a link class, or of a link, in each time interval."""
        return self.num_bytes[name] / (self.part_s * self.capacity[name])


def by_class(use: LinkUse, machine: Machine) -> LinkUse:
    """Return link traffic by name, summed by link class as `link_use` returns it."""
    classes = {wire.name: _class_of(wire) for wire in machine.node.links}
    num_bytes: dict[str, Floats] = {}
    capacity: defaultdict[str, float] = defaultdict(float)
    for name, each in use.num_bytes.items():
        mine = classes.get(name, name)
        num_bytes[mine] = num_bytes[mine] + each if mine in num_bytes else each
        capacity[mine] += use.capacity[name]
    return LinkUse(times_s=use.times_s, part_s=use.part_s, num_bytes=num_bytes, capacity=capacity)


def link_use(
    step: SimulatedStep, moved: Traffic, by: Literal["class", "name"] = "class", num_parts: int = NUM_PARTS
) -> LinkUse:
    """Return the traffic on links over time in a step with traffic `moved`. A call is placed at the time of its group's
    lowest rank, and its bytes are spread evenly from start to end (the simulator does not keep its own rates).
    """
    pricing = step.pricing
    names, group = _groups(step, by)
    edges = np.linspace(0.0, step.step_s, num_parts + 1)
    total = np.zeros((len(names), num_parts))
    tables: dict[str, Floats] = {}  # by pattern, bytes [rank class of the lowest rank, group of links] per byte sent
    for role_timeline in step.roles:
        view = step.view(role_timeline.classes[0])
        calls: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        known: dict[int, tuple[str, float] | None] = {}
        for at, op in enumerate(view.ops):
            if op.number not in known:
                known[op.number] = None if isinstance(op, Compute) else (pricing.key_of(op), pricing.volume_bytes(op))
            if (sends := known[op.number]) is not None:
                calls[sends[0]].append((at, sends[1]))
        for key, each in calls.items():
            if key not in tables:
                tables[key] = _per_byte(step, pricing.counted[key], payload_weights(pricing, key), group, len(names))
            ops, sizes = np.array([at for at, _ in each]), np.array([size for _, size in each])
            for row, cls in enumerate(view.classes):
                if tables[key][cls].any():
                    start, end = view.timeline.start[row, ops], view.timeline.end[row, ops]
                    total += np.outer(tables[key][cls], spread(start, end, sizes, edges))
    used = (moved.on_link > 0.0) & (group >= 0)
    capacity = np.bincount(group[used], pricing.fabric.capacity[used], len(names))
    shown = [number for number in range(len(names)) if capacity[number] > 0.0]
    return LinkUse(
        times_s=edges[:-1],
        part_s=step.step_s / num_parts,
        num_bytes={names[number]: total[number] for number in shown},
        capacity={names[number]: float(capacity[number]) for number in shown},
    )


def shares_of_node(use: LinkUse, machine: Machine, num_nodes: int) -> dict[str, Floats]:
    """Return the utilisation of each link of an average node in each time interval. `use`: traffic by link name of a
    job on `num_nodes` nodes. The averages over the step equal the utilisations of `node_links`.
    """
    wires = {wire.name: wire.bytes_per_s for wire in machine.node.links}
    return {
        name: each / (use.part_s * num_nodes * wires[name]) for name, each in use.num_bytes.items() if name in wires
    }


def spread(start: Floats, end: Floats, amount: Floats, edges: Floats) -> Floats:
    """Return the amount in each interval between two edges, if each amount is spread evenly from its
    start to its end.
    """
    num = len(edges) - 1
    first = np.clip(np.searchsorted(edges, start, "right") - 1, 0, num - 1)
    last = np.clip(np.searchsorted(edges, end, "left") - 1, first, num - 1)
    within = first == last
    out = np.zeros(num)
    out += np.bincount(first[within], amount[within], num)
    first, last, start, end = first[~within], last[~within], start[~within], end[~within]
    rate = amount[~within] / (end - start)
    out += np.bincount(first, (edges[first + 1] - start) * rate, num)
    out += np.bincount(last, (end - edges[last]) * rate, num)
    # the parts between the first and the last, which are full; where there is none, sums leave no rounding behind
    change = np.bincount(first + 1, rate, num + 1) - np.bincount(last, rate, num + 1)
    count = np.bincount(first + 1, minlength=num + 1) - np.bincount(last, minlength=num + 1)
    full: Floats = np.where(np.cumsum(count) > 0, np.cumsum(change), 0.0)[:num] * np.diff(edges)
    return out + full


def _groups(step: SimulatedStep, by: Literal["class", "name"]) -> tuple[list[str], Ints]:
    """Return the names of groups of links (by class or name), and the group of every link [num_links];
    -1: in no group.
    """
    fabric = step.pricing.fabric
    names: list[str] = []
    of_wire = []
    for wire in fabric.machine.node.links:
        name = wire.name if by == "name" else _class_of(wire)
        names += [] if name in names else [name]
        of_wire.append(names.index(name))
    group = np.full(fabric.num_links, -1)
    group[: fabric.hbm_base] = np.tile(of_wire, fabric.num_nodes)
    if fabric.num_links > fabric.pool_base:
        group[fabric.pool_base :] = len(names)
        names.append(fabric.class_names[fabric.link_class[fabric.pool_base]])
    assert (fabric.kind[group >= 0] == ResourceKind.WIRE).all(), "memories and compute units carry no messages"
    return names, group


def _class_of(wire: Link) -> str:
    return wire.link_class + (" out" if wire.dst == NET else " in" if wire.src == NET else "")


def _per_byte(step: SimulatedStep, pattern: Pattern, weight: Floats, group: Ints, num_groups: int) -> Floats:
    """Return the bytes on each group of links per byte that a rank sends, by the rank class of the lowest rank of a
    communication group [num_rank_classes, num_groups].
    """
    folding = step.pricing.folding
    acts, lowest = np.unique(pattern.group_of, return_index=True)
    cls = np.zeros(pattern.num, np.int64)
    cls[acts] = folding.rank_class[lowest]
    wires = slice(0, pattern.num_wire_loads)
    cell = cls[pattern.act[wires]] * num_groups + group[pattern.link[wires]]
    shape = folding.num_rank_classes, num_groups
    return np.bincount(cell, weight, shape[0] * shape[1]).astype(np.float64).reshape(shape)
