"""Leaving groups out: every group once, in the order in which they come up, whoever fits."""

from __future__ import annotations

import numpy as np

from simfrontier.accuracy.leave_out import Mask, fits_without
from simfrontier.workers import Workers

VALUES = np.array([1.0, 2.0, 4.0, 8.0])
GROUPS = ["b", "a", "b", "c"]


def mean_of_others(left: Mask) -> float:
    return float(VALUES[~left].mean())


def test_each_group_is_predicted_by_the_others() -> None:
    """Without b (1 and 4) the mean is 5, without a 13 / 3, without c 7 / 3."""
    asked: list[str] = []
    made = list(fits_without(GROUPS, mean_of_others, progress=asked.append))
    assert [(group, left.tolist(), fit) for group, left, fit in made] == [
        ("b", [True, False, True, False], 5.0),
        ("a", [False, True, False, False], 13 / 3),
        ("c", [False, False, False, True], 7 / 3),
    ]
    assert asked == ["b", "a", "c"]


def test_on_two_processes_the_same_is_found(two_workers: Workers) -> None:
    alone, together = (
        [(group, fit) for group, _, fit in fits_without(GROUPS, mean_of_others, who)] for who in (None, two_workers)
    )
    assert alone == together


def test_of_no_points_nothing_is_left_out() -> None:
    assert list(fits_without([], mean_of_others)) == []
