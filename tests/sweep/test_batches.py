"""How points of a sweep are handed to workers: those of the same schedules together, in smaller parts at the end."""

from __future__ import annotations

from hypothesis import given, strategies as st

from simfrontier.sweep.runner import MOST_TOGETHER, batches_of
from simfrontier.sweep.study import Point
from tests.sweep.studies import HOOK, MICRO


def points_of(sizes: list[int]) -> list[Point]:
    """Points in an order in which those of the same schedules, so many of each, stand apart."""
    pairs = sorted((place, micro) for micro, size in enumerate(sizes) for place in range(size))
    return [
        Point(number=number, scenario="a.toml", settings={MICRO: micro, HOOK: 1e-6 * (1 + number)})
        for number, (_, micro) in enumerate(pairs)
    ]


def batches(sizes: list[int], num_workers: int) -> list[list[Point]]:
    points = points_of(sizes)
    digests = [bytes([number % 256]) * 32 for number in range(len(points))]
    made = list(batches_of(points, digests, set(range(len(points))), num_workers))
    assert all(digest == digests[point.number].hex() for batch in made for point, digest in batch)
    return [[point for point, _ in batch] for batch in made]


@given(sizes=st.lists(st.integers(1, 70), min_size=1, max_size=12), num_workers=st.integers(1, 40))
def test_every_point_is_in_one_batch(sizes: list[int], num_workers: int) -> None:
    made = batches(sizes, num_workers)
    numbers = [point.number for batch in made for point in batch]
    assert sorted(numbers) == list(range(sum(sizes)))
    assert all(1 <= len(batch) <= MOST_TOGETHER for batch in made)


def test_points_of_the_same_schedules_are_one_batch() -> None:
    """Sixteen schedules of twelve points each on two workers: only the last are cut."""
    made = batches([12] * 16, 2)
    whole = [batch for batch in made if len(batch) == 12 and len({point.settings[MICRO] for point in batch}) == 1]
    assert len(whole) >= 14


def test_batches_end_small() -> None:
    """Of 1,000 points of the same schedules the last batch of two workers is short."""
    sizes = [len(batch) for batch in batches([1000], 2)]
    assert sizes[0] == 16 and max(sizes[-2:]) <= 4


def test_points_that_share_nothing_go_together_too() -> None:
    """A call for each of 1,000 points would cost more than it is worth."""
    assert len(batches([1] * 1000, 2)) < 120
