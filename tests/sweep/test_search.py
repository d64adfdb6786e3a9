"""A search by asking and telling: it is deterministic, and finds what it looks for."""

from __future__ import annotations

import pytest

from simfrontier.sweep.search import Dimension, Number, Search

SPACE = (
    Dimension(key="x", between=(1e-3, 10.0), is_log=True),
    Dimension(key="n", between=(1, 8)),
    Dimension(key="way", values=(0, 1, 2)),
)


def result(point: dict[str, Number]) -> float | None:
    """The least is 0, at x = 1, n = 3 and way 1; eight have none."""
    if point["n"] == 8:
        return None
    return abs(float(point["x"]) - 1.0) + abs(int(point["n"]) - 3) + (point["way"] != 1)


def searched(rounds: int, seed: int = 1, is_most: bool = False) -> list[dict[str, Number]]:
    search = Search(dimensions=SPACE, is_most=is_most, seed=seed)
    out = []
    for _ in range(rounds):
        points = search.ask(8)
        results = [result(point) for point in points]
        search.tell([None if each is None else -each for each in results] if is_most else results)
        out += points
    return out


def test_points_lie_in_the_space() -> None:
    points = searched(6)
    assert all(1e-3 <= float(point["x"]) <= 10.0 for point in points)
    assert {type(point["n"]) for point in points} == {int}
    assert {point["way"] for point in points} <= {0, 1, 2}


@pytest.mark.parametrize("is_most", [False, True])
def test_a_search_finds_better_points_than_chance(is_most: bool) -> None:
    """Of 80 points the last 40 are better on average than the first ten, which are drawn at random, by a factor."""
    found = [each for each in map(result, searched(10, is_most=is_most)) if each is not None]
    assert sum(found[-40:]) / 40 < 0.5 * sum(found[:8]) / 8


def test_the_same_results_give_the_same_points() -> None:
    assert searched(4) == searched(4)
    assert searched(4) != searched(4, seed=2)


def test_what_is_put_first_is_asked_for_first() -> None:
    search = Search(dimensions=SPACE, is_most=False, seed=1)
    first = {"x": 1.0, "n": 3, "way": 1}
    search.put_first(first)
    assert search.ask(3)[0] == first
