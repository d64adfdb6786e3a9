"""Ticks of logarithmic axes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simfrontier.report.figures.residuals import residual_figure
from simfrontier.report.theme import decades, powers_of_two
from tests.accuracy.standins import held
from tests.rows import call


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (2e-6, 0.1, [1e-5, 1e-4, 1e-3, 1e-2, 0.1]),
        (0.2, 30.0, [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0]),
        (1.0, 4.0, [1.0, 1.5, 2.0, 3.0, 4.0]),
    ],
)
def test_decades_have_more_between_them_the_fewer_there_are(low: float, high: float, ticks: list[float]) -> None:
    assert decades(low, high) == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("low", "high", "most", "ticks"),
    [(3.0, 17.0, 8, [4.0, 8.0, 16.0]), (4.0, 16.0, 8, [4.0, 8.0, 16.0]), (1.0, 64.0, 4, [1.0, 4.0, 16.0, 64.0])],
)
def test_powers_of_two_lie_inside_and_are_no_more_than_fit(
    low: float, high: float, most: int, ticks: list[float]
) -> None:
    assert powers_of_two(low, high, most) == ticks


def test_the_first_tick_of_residuals_is_not_below_the_smallest_message() -> None:
    rows = [replace(held(1.0, 1.1), row=call(1.0, 16, size)) for size in (3000, 70000)]
    assert residual_figure(rows)["layout"]["xaxis"]["tickvals"] == [4096, 8192, 16384, 32768, 65536]
