"""The compiled softmax kernels: within the stated error of float64 for all finite numbers, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy.special import softmax as of_scipy

pytest.importorskip("numba")

from simfrontier.base.errors import InputError
from simfrontier_extras.softmax.rates import IN_MEMORY
from simfrontier_extras.softmax.real.softmax import softmax

ULP = 2.0**-24
LEAST = 2.0**-125
ALLOWED = {"two-pass": 32 * ULP, "three-pass-recompute": 136 * ULP, "three-pass-reload": 136 * ULP}  # as stated
MOST = float(np.finfo(np.float32).max)

Row = NDArray[np.float32]
every = pytest.mark.parametrize("algorithm", IN_MEMORY)


def hold(row: Row, algorithm: str) -> float:
    """Hold a row against scipy in float64; the largest relative error."""
    with np.errstate(all="raise", under="ignore"):
        got = softmax(row, algorithm).astype(np.float64)
    wanted = of_scipy(row.astype(np.float64))
    off = np.abs(got - wanted)
    assert np.isfinite(got).all() and (got >= 0).all()
    sure = wanted >= LEAST
    relative = float((off[sure] / wanted[sure]).max())
    assert relative <= ALLOWED[algorithm]
    assert (off[~sure] <= LEAST).all()
    return relative


numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)
near = st.floats(-120, 120, width=32)


@every
@settings(deadline=None, max_examples=150)
@given(
    row=hnp.arrays(np.float32, st.integers(1, 300), elements=numbers)
    | hnp.arrays(np.float32, st.integers(1, 5000), elements=near, fill=near),
    at=st.sampled_from([0.0, 0.0, 5e3, -9e4, 9.08e4, -9.09e4, 2.0e7, -3e9]),
)
def test_any_finite_row_is_within_the_stated_error(algorithm: str, row: Row, at: float) -> None:
    with np.errstate(over="ignore"):
        moved = np.clip(row + np.float32(at), -np.float32(MOST), np.float32(MOST))
    hold(moved, algorithm)


@every
@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1023, 4095, 4096, 4097, 8193, 50_001])
def test_lengths_around_stripes_and_chunks(algorithm: str, length: int) -> None:
    rng = np.random.default_rng(length)
    hold(rng.uniform(-1000, 1000, length).astype(np.float32), algorithm)
    hold(rng.normal(0, 3, length).astype(np.float32), algorithm)


ROWS = {
    "largest and smallest": [MOST, -MOST],
    "twice the largest": [MOST, -MOST, MOST],
    "all smallest": [-MOST] * 3,
    "denormals": [1e-45, -1e-45, 0.0, -0.0, 1e-40],
    "one": [123.0],
    "neighbours far out": [2.0**24, 2.0**24 - 1, 2.0**24 - 2],
    "neighbours where they are 256 apart": [2.0**31, 2.0**31 - 256],
    "on the edge of float32": [90_852.0, 90_853.0, 90_700.0],
    "below the edge": [-90_852.0, -90_853.0, -1e30],
    "a large one behind small ones": [-1e30] * 5000 + [80_000.0],
    "half a chunk far below": [-5e4] * 6000 + [5e4] * 6000,
}


@every
@pytest.mark.parametrize("name", ROWS)
def test_hard_rows(algorithm: str, name: str) -> None:
    hold(np.array(ROWS[name], dtype=np.float32), algorithm)


def structured(name: str, length: int) -> Row:
    steps = np.arange(length, dtype=np.float64)
    made = {
        "equal": np.full(length, 0.317),  # m = 1.37..., whose sums all round the same way
        "rising": steps / length * 400 - 200,
        "rising steeply": steps * 0.09,
        "falling": -steps * 0.01,
        "waves": 40 * np.sin(steps),
        "one above all": np.where(steps == length - 1, 90.0, 0.0),
        "peaks 31 and 33 powers above": np.where(steps % 99_991 == 0, steps / 99_991 * 23, 0.0),
    }
    return made[name].astype(np.float32)


@every
@pytest.mark.parametrize(
    "name",
    ["equal", "rising", "rising steeply", "falling", "waves", "one above all", "peaks 31 and 33 powers above"],
)
def test_rounding_does_not_grow_with_the_row(algorithm: str, name: str) -> None:
    relative = hold(structured(name, 10**6), algorithm)
    if algorithm == "two-pass":
        assert relative <= 8 * ULP  # a float32 sum of a million equal terms in one chain would be off by thousands


@every
@pytest.mark.parametrize("far", [0.0, 1e6])
def test_masked_entries_have_probability_0(algorithm: str, far: float) -> None:
    row = np.array([-np.inf, 1.0, 2.0, -np.inf] * 600, dtype=np.float32) + np.float32(far)
    made = softmax(row, algorithm)
    assert (made[np.isneginf(row)] == 0).all()
    hold(row[np.isfinite(row)], algorithm)
    assert made[1] == pytest.approx(float(of_scipy([1.0, 2.0])[0]) / 600, rel=ALLOWED[algorithm])


@every
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_are_refused(algorithm: str, bad: float) -> None:
    rows = np.zeros((2, 6000), dtype=np.float32)
    rows[1, 5000] = bad
    rows[1, 5999] = -np.inf
    with pytest.raises(InputError, match=f"^rows: row 1: got {bad}; allowed: finite numbers, and -inf beside them$"):
        softmax(rows, algorithm)


@every
def test_a_row_of_nothing_is_refused(algorithm: str) -> None:
    with pytest.raises(InputError, match=r"^rows: row 0: got nothing but -inf; allowed"):
        softmax(np.full(5, -np.inf, dtype=np.float32), algorithm)
