"""The drawing of a node with a switch inside: lines from all devices to its centre, none through another device."""

from __future__ import annotations

import html
import math
import re
from itertools import combinations
from xml.etree import ElementTree

import pytest

from simfrontier.analysis.links import LinkLoad, NodeLinks
from simfrontier.machine import Machine, catalog, load_machine
from simfrontier.report.node import NIC_WIDTH, layout, node_drawing

SWITCHED = [name for name in catalog() if load_machine(name).node.has_switch]


def drawn(machine: Machine) -> str:
    loads = [
        LinkLoad(
            name=each.name,
            link_class=each.link_class,
            src=str(each.src),
            dst=str(each.dst),
            num_bytes=5e8,
            utilisation=0.25,
        )
        for each in machine.node.links
    ]
    return node_drawing(machine, NodeLinks(links=tuple(loads), by_class={}), 0.5, "A node")


@pytest.mark.parametrize("name", SWITCHED)
def test_every_link_is_a_line_and_the_switch_stands_once(name: str) -> None:
    machine = load_machine(name)
    svg = drawn(machine)
    ElementTree.fromstring(svg)  # well-formed
    assert len(re.findall("<line ", svg)) == len(machine.node.links)
    assert svg.count(">switch</text>") == 1
    assert "port 3>switch (port): 500\u00a0MB per step, 25.0\u00a0% of its capacity" in html.unescape(svg)


@pytest.mark.parametrize("name", SWITCHED)
def test_no_line_to_the_switch_passes_another_device(name: str) -> None:
    where = layout(load_machine(name))
    centre = where.centre
    for a, b in combinations(where.devices, 2):
        assert math.dist(a, b) > 2 * where.radius
    for device in where.devices:
        for other in where.devices:
            if other != device:
                (x, y), (u, v) = ((p[0] - centre[0], p[1] - centre[1]) for p in (device, other))
                if x * u + y * v > 0:  # on the same side of the switch
                    assert abs(x * v - y * u) / math.hypot(x, y) > where.radius, (device, other)


@pytest.mark.parametrize("name", SWITCHED)
def test_nics_of_a_row_stand_apart(name: str) -> None:
    for (x, y), (u, v) in combinations(layout(load_machine(name)).nics, 2):
        assert y != v or abs(x - u) > NIC_WIDTH


def test_a_node_without_a_switch_has_none_drawn() -> None:
    assert ">switch</text>" not in drawn(load_machine("frontier"))
