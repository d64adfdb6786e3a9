"""Fits to whole steps: a linear law is found again, and what is left out has no say."""

from __future__ import annotations

import numpy as np
import pytest

from simfrontier.accuracy.published_runs.fit import NOISE, Fit, Sensitivities

MOVES = np.array([[1.0, 0.0], [1.0, 0.5], [0.5, 1.0], [0.0, 1.0], [0.3, 0.3], [0.9, 0.1]])


def law(off: np.ndarray, prior_sd: float = 1e3) -> Sensitivities:
    return Sensitivities(off=off, moves=MOVES, from_prior=np.zeros(2), prior_sd=np.full(2, prior_sd))


def test_an_exact_law_is_found() -> None:
    true = np.array([0.2, -0.1])
    made = fitted(law(-MOVES @ true), 6)
    assert made.change == pytest.approx(true, abs=1e-6)


def test_a_run_that_is_left_out_has_no_say() -> None:
    true = np.array([0.2, -0.1])
    off = -MOVES @ true
    off[5] = 3.0
    without = fitted(law(off), 5)
    assert without.change == pytest.approx(true, abs=1e-6)


def test_one_run_that_is_far_off_has_little_say() -> None:
    true = np.array([0.2, -0.1])
    off = -MOVES @ true
    off[4] += 50 * NOISE
    assert fitted(law(off), 6).change == pytest.approx(true, abs=2 * NOISE)


def test_what_no_run_tells_stays_as_it_is_known() -> None:
    blind = law(np.zeros(6), prior_sd=0.1)
    unseen = Sensitivities(
        off=np.full(6, 0.5),
        moves=np.zeros((6, 2)),
        from_prior=np.array([0.3, 0.0]),
        prior_sd=blind.prior_sd,
    )
    assert fitted(unseen, 6).change == pytest.approx([-0.3, 0.0])


def test_a_fit_is_as_sure_as_its_runs_and_what_is_known() -> None:
    """Of n runs that move as the first parameter does, each sure to NOISE, and one thing known to NOISE: the variance
    is NOISE² / (n + 1). What no run moves stays as sure as it was."""
    for count in (1, 4, 24):
        alike = Sensitivities(
            off=np.zeros(count),
            moves=np.tile([1.0, 0.0], (count, 1)),
            from_prior=np.zeros(2),
            prior_sd=np.array([NOISE, 0.3]),
        )
        change, sd = fitted(alike, count).of(np.array([1.0, 0.0]))
        assert change == 0.0
        assert sd == pytest.approx(NOISE / np.sqrt(count + 1))
        assert fitted(alike, count).of(np.array([0.0, 2.0]))[1] == pytest.approx(0.6)


def fitted(law: Sensitivities, first: int) -> Fit:
    """The fit to the first so many runs."""
    return law.without(np.arange(len(law.off)) >= first)
