"""Numbers and sentences of the page, one by one."""

import math

import pytest

from simfrontier.core.machine import load_machine
from simfrontier.interfaces.report.links import layout
from simfrontier.interfaces.report.phrases import number


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (80.756, "80.8"),
        (9408.4, "9,408"),
        (0.0137102, "0.0137"),
        (0.0, "0"),
        (4.0, "4.00"),
        (164.97, "165"),
        (math.nan, "–"),
    ],
)
def test_numbers_have_three_digits(value: float, message: str) -> None:
    assert number(value) == message


@pytest.mark.parametrize("name", ["frontier", "lumi-g", "toy-cluster", "toy-pair", "toy-quad"])
def test_no_two_parts_of_a_node_are_drawn_on_each_other(name: str) -> None:
    placed = layout(load_machine(name))
    points = [*placed.devices, *placed.nics]
    apart = [math.dist(a, b) for i, a in enumerate(points) for b in points[:i]]
    assert min(apart) >= 2 * placed.radius - 8
    assert all(0 < x < placed.width and placed.top < y < placed.top + placed.height for x, y in points)
