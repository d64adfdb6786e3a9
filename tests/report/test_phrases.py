"""Numbers and sentences of the page, one by one."""

import math

import pytest

from simfrontier.machine import load_machine
from simfrontier.report.drawing import colour
from simfrontier.report.node import layout, node_drawing
from simfrontier.report.phrases import distance, exactly, in_words, listed, number, percent, quantity, signed
from simfrontier.report.view import rate_among
from tests.report.studies import full


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


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


@pytest.mark.parametrize(
    ("value", "unit", "message"),
    [
        (4.7431, "s", "4.74 s"),
        (16.87e-6, "s", "16.9 µs"),
        (64e9, "bytes", "64 GB"),
        (5.001e9, "bytes", "5.00 GB"),
        (0, "bytes", "0 B"),
        (math.inf, "s", "–"),
    ],
)
def test_quantities_have_three_digits_and_a_unit(value: float, unit: str, message: str) -> None:
    assert plain(quantity(value, unit)) == message


def test_given_numbers_keep_four_digits() -> None:
    assert plain(exactly(1638.4e9, "bytes/s")) == "1.638 TB/s"
    assert exactly(0.85, "") == "0.85"


@pytest.mark.parametrize(
    ("share", "message"), [(0.1323, "13.2 %"), (0.9999, "100 %"), (9.18, "918 %"), (-0.0004, "0.0 %"), (math.nan, "–")]
)
def test_shares_are_per_cent(share: float, message: str) -> None:
    assert plain(percent(share)) == message


@pytest.mark.parametrize(
    ("predicted", "message"),
    [(1.0, "58 % below"), (2.46, "2.6 % above"), (2.4, "equal within 0.5 %"), (4.796, "100 % above")],
)
def test_distances_are_said_plainly(predicted: float, message: str) -> None:
    assert plain(distance(predicted, 2.398)) == message


@pytest.mark.parametrize(
    ("share", "message"),
    [(0.0231, "+2.3 %"), (-0.0018, "−0.2 %"), (-0.0001, "0.0 %"), (0.0, "0.0 %"), (-1.5, "−150 %"), (math.nan, "–")],
)
def test_changes_have_a_sign(share: float, message: str) -> None:
    assert plain(signed(share)) == message


def test_counts_and_lists_in_words() -> None:
    assert [in_words(x) for x in (20.55e9, 133_000, 12.0)] == ["20.6 billion", "133 thousand", "12.0"]
    assert [listed(x) for x in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


def test_a_rate_says_why_there_is_none() -> None:
    rates = {"a": 1.0, "b": math.nan}
    assert [rate_among(rates, plan) for plan in "abc"] == [(1.0, ""), (None, "does not fit"), (None, "not run")]


@pytest.mark.parametrize("name", ["frontier", "lumi-g", "toy-cluster", "toy-pair", "toy-quad"])
def test_no_two_parts_of_a_node_are_drawn_on_each_other(name: str) -> None:
    placed = layout(load_machine(name))
    points = [*placed.devices, *placed.nics]
    apart = [math.dist(a, b) for i, a in enumerate(points) for b in points[:i]]
    assert min(apart) >= 2 * placed.radius - 8
    assert all(0 < x < placed.width and placed.top < y < placed.top + placed.height for x, y in points)


def test_the_drawing_has_a_line_for_every_link() -> None:
    done, _ = full()
    links = next(o.links for o in done.outcomes if o.links is not None)
    svg = node_drawing(done.scenario.machine, links, 1.0, "title")
    assert svg.count("<line ") == len(done.scenario.machine.node.links) == svg.count("<title>")


def test_colours_go_from_grey_to_dark() -> None:
    assert [colour(share) for share in (-1.0, 0.0, 1.0, 2.0)] == ["#bec6d0", "#bec6d0", "#8c1230", "#8c1230"]
    assert colour(0.5) not in (colour(0.0), colour(1.0))
