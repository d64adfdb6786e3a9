"""Exponentials as m 2^n: what they are, that sums of them can be merged in any order, and softmax by them."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from simfrontier_real.ops.arrays import Backend, numpy_backend, torch_backend
from simfrontier_real.ops.losses import as_pairs, softmax_by_maximum, softmax_by_pairs, summed_pairs

NUMPY = numpy_backend()
BACKENDS = pytest.mark.parametrize("backend", [NUMPY, torch_backend()], ids=["numpy", "torch"])
ROWS = st.lists(st.one_of(st.floats(-1e4, 1e4), st.just(-math.inf)), min_size=1, max_size=12)
SETTINGS = settings(deadline=None, max_examples=100)


def lse(total: Any, power: Any) -> float:
    """n ln 2 + ln m; of nothing -inf."""
    mantissa, n = float(total.reshape(())), float(power.reshape(()))
    return -math.inf if mantissa == 0 else n * math.log(2) + math.log(mantissa)


def sum_of(values: list[float]) -> tuple[Any, Any]:
    return summed_pairs(NUMPY.xp, *as_pairs(NUMPY.xp, np.array(values)), axis=0)


def merged(parts: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    mantissas, powers = (np.concatenate(each) for each in zip(*parts, strict=True))
    return summed_pairs(NUMPY.xp, mantissas, powers, axis=0)


@BACKENDS
@pytest.mark.parametrize(("dtype", "within"), [("fp32", 5e-7), ("fp64", 5e-16)])
def test_pairs_are_exponentials_by_hand(backend: Backend, dtype: str, within: float) -> None:
    """exp(0) = 1 · 2^0; ln 2 → 1 · 2^1; 10: n = round(14.427) = 14, m = e^(10 - 14 ln 2) = 1.34438…; of -inf (0, -inf).
    1e4 as well: n = round(14426.95) = 14427, m = e^(1e4 - 14427 ln 2)."""
    values = backend.array(np.array([0.0, math.log(2), 10.0, -math.inf, 1e4]), dtype)
    mantissa, power = (backend.numpy(part) for part in as_pairs(backend.xp, values))
    assert power.tolist() == [0, 1, 14, -math.inf, 14427]
    held, ln2 = backend.numpy(values), Decimal(2).ln()  # of 28 digits
    for place in (0, 1, 2, 4):
        exact = (Decimal(float(held[place])) - int(power[place]) * ln2).exp()
        assert mantissa[place] == pytest.approx(float(exact), rel=within), place
    assert mantissa[3] == 0
    assert float(mantissa[2]) == pytest.approx(math.exp(10) / 2**14, rel=10 * within)


@SETTINGS
@given(row=ROWS, cuts=st.lists(st.integers(0, 12), max_size=3), order=st.randoms(use_true_random=False))
def test_sums_of_parts_merge_in_any_order_to_the_sum_of_all(row: list[float], cuts: list[int], order: Any) -> None:
    """Parts may be empty of classes that count: their sum is (0, -inf). By pairs and by maxima alike; the largest
    logit's exponential is 1 of a sum of at most 12, so the logarithm is known to 1e-13 absolutely, and to as much of
    its size."""
    from scipy.special import logsumexp

    edges = [0, *sorted(min(cut, len(row)) for cut in cuts), len(row)]
    parts = [row[low:high] or [-math.inf] for low, high in pairwise(edges)]
    sums = [sum_of(part) for part in parts]
    order.shuffle(sums)
    one_by_one = sums[0]
    for other in sums[1:]:
        one_by_one = merged([one_by_one, other])
    expected = float(logsumexp(np.array(row))) if max(row) > -math.inf else -math.inf
    for result in (merged(sums), one_by_one):
        assert lse(*result) == pytest.approx(expected, rel=1e-13, abs=1e-13)


@BACKENDS
@pytest.mark.parametrize(("dtype", "within"), [("fp32", 1e-6), ("fp64", 1e-14)])
@pytest.mark.parametrize("height", [1.0, 1e3])
def test_softmax_in_two_passes_is_softmax(backend: Backend, dtype: str, within: float, height: float) -> None:
    """Rows with scores that nobody may see (-inf), as causal attention has them: they get 0, and no row a NaN."""
    from scipy.special import softmax

    scores = height * np.random.default_rng(3).normal(size=(2, 5, 5))
    scores = np.where(np.triu(np.ones((5, 5)), 1) > 0, -math.inf, scores)
    held = backend.array(scores, dtype)
    expected = softmax(backend.numpy(held).astype(np.float64), axis=-1)
    for result in (softmax_by_pairs(backend.xp, held), softmax_by_maximum(backend.xp, held)):
        values = backend.numpy(result)
        assert np.allclose(values, expected, rtol=0, atol=within)
        assert (values[scores == -math.inf] == 0).all()


FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(deadline=None, max_examples=300)
@given(row=st.lists(FINITE, min_size=1, max_size=40))
@BACKENDS
def test_softmax_of_any_finite_float32_is_softmax(backend: Backend, row: list[float]) -> None:
    """Up to 3.4e38: within a few roundings of float32 where float64 can tell it, and never nan."""
    from scipy.special import softmax

    values = np.array(row, np.float32)
    result = backend.numpy(softmax_by_pairs(backend.xp, backend.array(values, "fp32")))
    assert np.isfinite(result).all()
    assert np.allclose(result, softmax(values.astype(np.float64)), rtol=2e-6, atol=1e-37)
