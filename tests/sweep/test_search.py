"""A search by asking and telling: it is deterministic, and finds what it looks for."""

from __future__ import annotations

import math
from typing import Any

import pytest

from simfrontier.sweep.axes import SampledAxis
from simfrontier.sweep.search import Search
from tests.sweep.studies import HOOK, MICRO

SPACE = (
    SampledAxis(key=HOOK, number=0, between=(1e-3, 10.0), is_log=True),
    SampledAxis(key=MICRO, number=1, between=(1, 8)),
    SampledAxis(key="engine.granularity", number=2, among=("module", "layer", "op")),
)
Drawn = tuple[Any, ...]


def result(point: Drawn) -> float:
    """The least is 0, at x = 1, n = 3 and `layer`; eight have none."""
    x, n, way = point
    return math.nan if n == 8 else abs(x - 1.0) + abs(n - 3) + (way != "layer")


def searched(rounds: int, seed: int = 1, is_most: bool = False) -> list[Drawn]:
    search = Search(axes=SPACE, is_most=is_most, seed=seed)
    out = []
    for _ in range(rounds):
        points = search.ask(8)
        search.tell([-result(point) if is_most else result(point) for point in points])
        out += points
    return out


def test_points_lie_in_the_space() -> None:
    for x, n, way in searched(6):
        assert 1e-3 <= x <= 10.0 and type(n) is int and way in ("module", "layer", "op")


@pytest.mark.parametrize("is_most", [False, True])
def test_a_search_finds_better_points_than_chance(is_most: bool) -> None:
    """Of 80 points the last 40 are better on average than the first ten, which are drawn at random, by a factor."""
    found = [each for each in map(result, searched(10, is_most=is_most)) if not math.isnan(each)]
    assert sum(found[-40:]) / 40 < 0.5 * sum(found[:8]) / 8


def test_the_same_results_give_the_same_points() -> None:
    assert searched(4) == searched(4)
    assert searched(4) != searched(4, seed=2)


def test_what_is_put_first_is_asked_for_first() -> None:
    search = Search(axes=SPACE, is_most=False, seed=1)
    search.put_first({HOOK: 1.0, MICRO: 3, "engine.granularity": "layer"})
    assert search.ask(3)[0] == (1.0, 3, "layer")
