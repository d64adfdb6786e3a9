"""Rates of computing: products worked by hand, what was measured of them, and published training below the bound."""

import math
from typing import Any

import pytest

from simfrontier.accuracy.predictors.rates import (
    BYTES,
    BoundedRate,
    gemm_flops_per_s,
    gemm_sd,
    predict_rate,
    rate_fitted,
    training_bound,
    training_flops_per_s,
)
from simfrontier.accuracy.residual import NotCovered, Prediction
from simfrontier.dtypes import DTYPE_BYTES
from simfrontier.machine import load_machine
from simfrontier.measured import RateRow
from simfrontier.workload import GptShape, find_model
from tests.accuracy.standins import rate_row
from tests.measured.tables import shipped


def training(**changed: Any) -> RateRow:
    shapeless = {"what": "training", "m": None, "n": None, "k": None, "model": "175B", "quantity": "share_of_peak"}
    return rate_row(**{**shapeless, "value": 0.3614, **changed})


def gpt_shape(name: str) -> GptShape:
    shape = find_model(name)
    assert isinstance(shape, GptShape)
    return shape


def test_a_product_is_priced_as_the_slower_of_multiplying_and_moving() -> None:
    # toy-pair: 2 Tflop/s * x / (x + 100), 100 GB/s, a gap of 1 us.
    # 1000^3: 2e9 flop at 2e12 * 1000 / 1100 take 1.1 ms; 6 MB take 60 us: 2e9 / 1.101 ms
    machine = load_machine("toy-pair")
    assert gemm_flops_per_s(machine, 1000, 1000, 1000) == pytest.approx(2e9 / 1.101e-3, rel=1e-12)
    # (1e6 x 1)(1 x 1): 2e6 flop; edge 100: 1 Tflop/s, 2 us; 2 (1e6 + 1 + 1e6) bytes take 40.00002 us
    assert gemm_flops_per_s(machine, 10**6, 1, 1) == pytest.approx(2e6 / 41.00002e-6, rel=1e-12)


def test_a_number_of_16_bits_has_two_bytes() -> None:
    assert DTYPE_BYTES["bf16"] == DTYPE_BYTES["fp16"] == BYTES


def test_the_spread_is_that_of_the_law_and_of_devices() -> None:
    machine = load_machine("frontier")
    assert gemm_sd(machine) == pytest.approx(math.sqrt(0.0165**2 + 0.017**2))
    assert gemm_sd(load_machine("toy-pair")) == 0.0


def test_fitted_products_are_within_2_percent_and_in_their_interval() -> None:
    fitted = [each for each in shipped("compute_rates", RateRow) if rate_fitted(each)]
    assert [each.m for each in fitted] == [32768, 6400, 12800, 25600, 32768]
    for each in fitted:
        made, seconds = predict_rate(each), each.seconds
        assert isinstance(made, Prediction)
        assert seconds is not None
        assert made.value == pytest.approx(seconds, rel=0.02)
        assert made.low <= seconds <= made.high


def test_one_measured_edge_is_outside_the_law() -> None:
    """CoralGemm at 64000 is another regime: 87.5 Tflop/s where the law says 129."""
    (odd,) = [each for each in shipped("compute_rates", RateRow) if each.m == 64000]
    made = predict_rate(odd)
    assert isinstance(made, Prediction)
    assert not rate_fitted(odd)
    assert 2 * 64000**3 / made.value == pytest.approx(129e12, rel=0.01)


@pytest.mark.parametrize("machine", ["frontier", "perlmutter"])
def test_no_product_beats_what_searches_over_shapes_found(machine: str) -> None:
    results = [each.value for each in shipped("compute_rates", RateRow) if each.machine == machine and each.m is None]
    assert load_machine(machine).device.matmul_flops_per_s <= max(results)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"machine": "perlmuter"}, "no machine 'perlmuter'; did you mean \"perlmutter\"?"),
        ({"m": None}, "the shape of the product is not told"),
        (
            {"statistic": "worst"},
            "worst: a typical device is predicted; the spread (speed_sd) was read off these",
        ),
        ({"what": "training"}, "a rate of training is held against a bound (training_bound)"),
    ],
)
def test_a_rate_without_a_law_says_why(changed: dict[str, Any], reason: str) -> None:
    assert predict_rate(rate_row(**changed)) == NotCovered(reason=reason)
    assert not rate_fitted(rate_row(**changed))


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


def test_a_rate_above_the_bound_would_falsify_the_model() -> None:
    high = training_bound(training(value=0.65))
    assert isinstance(high, BoundedRate)
    assert high.published_flops_per_s == pytest.approx(0.65 * 191.5e12)
    assert not high.holds


def test_a_rate_of_the_whole_machine_is_divided_by_its_devices() -> None:
    made = training_bound(
        training(machine="perlmutter", model="80B GPT", quantity="machine_flops_per_s", value=182e15, devices=1024)
    )
    assert isinstance(made, BoundedRate)
    assert made.published_flops_per_s == pytest.approx(177.7e12, rel=1e-3)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"model": "22B"}, "layers and hidden size of '22B' are not told"),
        ({"model": "1T"}, "layers and hidden size of '1T' are not told"),
        ({"model": "330B"}, "layers and hidden size of '330B' are not told"),
        (
            {"quantity": "scaling_efficiency"},
            "scaling_efficiency is a ratio of two runs; no rate of either is told",
        ),
        (
            {"quantity": "machine_flops_per_s", "devices": None},
            "machine_flops_per_s without a number of devices is no rate of one",
        ),
    ],
)
def test_a_run_that_cannot_be_bounded_says_why(changed: dict[str, Any], reason: str) -> None:
    assert training_bound(training(**changed)) == NotCovered(reason=reason)


@pytest.mark.parametrize("name", ["gpt-5b", "gpt-175b"])
def test_micro_batches_of_four_times_as_many_sequences_raise_the_bound_by_6_percent_at_most(name: str) -> None:
    machine, shape = load_machine("frontier"), gpt_shape(name)
    few, usual, many = (training_flops_per_s(machine, shape, batch) for batch in (8, 64, 256))
    assert few < usual < many < 1.06 * usual
    assert many < machine.device.matmul_flops_per_s
