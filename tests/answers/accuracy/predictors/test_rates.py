"""Rates of computing: products worked by hand, what was measured of them, and published training below the bound."""

import pytest

from simfrontier.answers.accuracy.predictors.rates import (
    BoundedRate,
    gemm_flops_per_s,
    predict_rate,
    rate_fitted,
    training_bound,
)
from simfrontier.answers.accuracy.residual import Prediction
from simfrontier.core.machine import load_machine
from simfrontier.inputs.measured import RateRow
from tests.inputs.measured.tables import shipped


def test_a_product_is_priced_as_the_slower_of_multiplying_and_moving() -> None:
    # toy-pair: 2 Tflop/s * x / (x + 100), 100 GB/s, a gap of 1 us.
    # 1000^3: 2e9 flop at 2e12 * 1000 / 1100 take 1.1 ms; 6 MB take 60 us: 2e9 / 1.101 ms
    machine = load_machine("toy-pair")
    assert gemm_flops_per_s(machine, 1000, 1000, 1000) == pytest.approx(2e9 / 1.101e-3, rel=1e-12)
    # (1e6 x 1)(1 x 1): 2e6 flop; edge 100: 1 Tflop/s, 2 us; 2 (1e6 + 1 + 1e6) bytes take 40.00002 us
    assert gemm_flops_per_s(machine, 10**6, 1, 1) == pytest.approx(2e6 / 41.00002e-6, rel=1e-12)


def test_fitted_products_are_within_2_percent_and_in_their_interval() -> None:
    fitted = [each for each in shipped("compute_rates", RateRow) if rate_fitted(each)]
    assert [each.m for each in fitted] == [32768, 3200, 6400, 12800, 32768]
    for each in fitted:
        made, seconds = predict_rate(each), each.seconds
        assert isinstance(made, Prediction)
        assert seconds is not None
        assert made.value == pytest.approx(seconds, rel=0.02)
        assert made.low <= seconds <= made.high


@pytest.mark.parametrize("machine", ["frontier", "perlmutter"])
def test_no_product_beats_what_searches_over_shapes_found(machine: str) -> None:
    results = [each.value for each in shipped("compute_rates", RateRow) if each.machine == machine and each.m is None]
    assert load_machine(machine).device.matmul_flops_per_s <= max(results)


def test_published_training_stays_below_the_bound() -> None:
    made = [training_bound(each) for each in shipped("training_rates", RateRow)]
    bounded = [each for each in made if isinstance(each, BoundedRate)]
    known = {(each.row.machine, each.shape.name) for each in bounded}
    assert known == {
        ("alps", "gpt-60b"),
        ("frontier", "gpt-5b"),
        ("frontier", "gpt-80b"),
        ("frontier", "gpt-320b"),
        ("frontier", "gpt-160b"),
        ("frontier", "gpt-175b"),
        ("perlmutter", "gpt-40b"),
        ("perlmutter", "gpt-80b"),
    }
    assert len(bounded) == 11
    assert all(each.holds for each in bounded)
    # and the bound is no empty one: the best run reaches seven tenths of it
    assert max(each.published_flops_per_s / each.bound_flops_per_s for each in bounded) > 0.7
