"""The drawing of a node whose devices share a bus: a box in the middle, a line from every device, one title."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from simfrontier.analysis.links import LinkLoad, NodeLinks
from simfrontier.machine import load_machine
from simfrontier.report.drawing import colour
from simfrontier.report.node import layout, node_drawing


def test_a_bus_is_drawn_once_with_a_line_from_every_device() -> None:
    machine = load_machine("box")
    load = LinkLoad(name="bus", link_class="bus", src="bus", dst="bus", num_bytes=5e8, utilisation=0.25)
    svg = node_drawing(machine, NodeLinks(links=(load,), by_class={"bus": (5e8, 0.25)}), 0.5, "Node of the box")
    ElementTree.fromstring(svg)  # well-formed
    lines = re.findall(r'<line x1="([\d.]+)" y1="([\d.]+)" x2="560" y2="330" stroke="(\S+)"', svg)
    assert [(float(x), float(y)) for x, y, _ in lines] == list(layout(machine).devices)
    assert {shade for _, _, shade in lines} == {colour(0.5)}  # a quarter of the bus, on a scale that ends at a half
    assert re.findall("<title>(.*?)</title>", svg) == ["bus (bus): 500\u00a0MB per step, 25.0\u00a0% of its capacity"]
