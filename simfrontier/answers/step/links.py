"""Bytes and utilisation of one average node's links, by link and by link class, for the drawing on the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simfrontier.answers.step.bytes_moved import Traffic
from simfrontier.core.engine import SimulatedStep


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLoad:
    """One directed link of an average node: payload bytes per step, and the share of its nominal capacity that they are
    over the whole step."""

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
    """Averages over the nodes of the job of a step that moves so many bytes; pools between dragonfly groups are
    averaged over the pools that carry anything."""
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
