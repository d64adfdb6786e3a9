"""What values of published runs count, and fits to whole steps."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, strategies as st

from simfrontier.answers.accuracy.published_runs.fit import NOISE, Fit, Sensitivities
from simfrontier.answers.accuracy.published_runs.rates import Flops, Measure, Rate, step_flops, value_of
from simfrontier.core.workload import GptShape

GPT = GptShape(
    name="gpt",
    num_layers=3,
    hidden=8,
    heads=2,
    vocabulary=50,
    sequence=4,
    source="toy",
    residual="sequential",
    tied=True,
)


def test_flops_by_hand() -> None:
    # a layer has 12 h² = 768 elements of matrices: 2 · 768 flops a token, and 2 · 2 · s · h = 128 of attention: 1,664;
    # 3 layers 4,992; the head 2 · 50 · 8 = 800. Forward and backward: 3 · 5,792 = 17,376 a token, 4 tokens a sequence
    assert step_flops(GPT, 1, "model", recomputes=False) == 4 * 17_376
    # the layers' forward again: 4,992 more
    assert step_flops(GPT, 1, "recomputed", recomputes=False) == 4 * (17_376 + 4_992)
    assert step_flops(GPT, 2, "hardware", recomputes=True) == 8 * (17_376 + 4_992)
    assert step_flops(GPT, 1, "hardware", recomputes=False) == 4 * 17_376


def test_flops_as_neox_logged_them_by_hand() -> None:
    # 3 layers of 12 h² + 13 h (biases, two norms) = 872 parameters, embedding 50 · 8 and positions 4 · 8, final norm 16
    parameters = GPT.num_parameters
    assert step_flops(GPT, 2, "neox_2021", recomputes=True) == 2 * 4 * (6 * parameters + 60 * 4 * 8 * 3)


def test_flops_of_the_published_formula() -> None:
    # 96 B s l h² (1 + s / 6h + V / 16lh) of arXiv 2104.04473: 4 · 24 B s l h² for the layers with their attention, and
    # 6 B s h V for the head
    b, s, layers, h, v = 2, 4, 3, 8, 50
    formula = 96 * b * s * layers * h * h * (1 + s / (6 * h) + v / (16 * layers * h))
    assert step_flops(GPT, b, "recomputed", recomputes=True) == pytest.approx(formula)


def test_megatrons_formula_takes_every_model_for_a_gpt() -> None:
    narrow = replace(GPT, gated=True, ffn_hidden=20, kv_heads=1)
    # 96 B s l h² (1 + s / 6h + V / 16lh) with recomputation: as above
    assert step_flops(narrow, 2, "megatron", True) == pytest.approx(step_flops(GPT, 2, "recomputed", True))


def test_values_by_hand() -> None:
    # 6 sequences of 4 tokens in 2 s on 3 devices
    def value(measure: str, **more: object) -> float:
        rate = Rate(measure=measure, **more)  # type: ignore[arg-type]
        return value_of(rate, 2.0, GPT, samples=6, devices=3, recomputes=False, peak_flops_per_s=1e6)

    assert value("step_s") == 2.0
    assert value("step_ms") == 2000.0
    assert value("tokens_per_s") == 12.0
    assert value("tokens_per_s_per_device") == 4.0
    assert value("samples_per_s") == 3.0
    assert value("samples_per_s_per_device") == 1.0
    flops_per_s = 6 * 4 * 17_376 / 2.0 / 3
    assert value("tflops_per_device", flops="model") == pytest.approx(flops_per_s / 1e12)
    assert value("tflops_per_device", flops="model", devices=2) == pytest.approx(2 * flops_per_s / 1e12)
    assert value("percent_of_peak", flops="model") == pytest.approx(100 * flops_per_s / 1e6)


@given(st.sampled_from(get_args(Measure)), st.floats(1e-3, 1e4), st.sampled_from(["model", "recomputed", "hardware"]))
def test_a_value_is_one_of_time_or_of_its_inverse(measure: str, seconds: float, flops: Flops) -> None:
    rate = Rate(measure=measure, flops=flops)  # type: ignore[arg-type]

    def value(step_s: float) -> float:
        return value_of(rate, step_s, GPT, 6, 3, True, 1e12)

    expected = value(1.0) * seconds if rate.rises_with_time else value(1.0) / seconds
    assert value(seconds) == pytest.approx(expected)


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
