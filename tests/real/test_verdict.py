"""The verdict of training: what is not a number never agrees, references are told apart, overflow is counted."""

import math
from dataclasses import replace

import numpy as np

from simfrontier_real.verify.checks import TrainingCheck, _usual, distance
from simfrontier_real.verify.gradients import RelativeError
from simfrontier_real.verify.verdict import TrainingVerdict, _finite, _verdict
from tests.real.mutation.cases import CASES
from tests.real.mutation.matrix import Bench

GOOD = TrainingVerdict(
    name="a",
    digest="",
    precision="fp64",
    codecs=(),
    must_agree=True,
    reason="",
    losses=(1.0,),
    reference_losses=(1.0,),
    weights_error=0.0,
    worst="",
    loss_error=0.0,
    message_bytes=1,
    scheduled_bytes=1,
    step_median_s=1.0,
    skipped_steps=0,
)


def test_a_weight_that_is_not_a_number_differs_most_whatever_comes_after_it() -> None:
    whole = {("w1", 0): np.ones(2), ("w2", 0): np.ones(2)}
    broken = {("w1", 0): np.array([math.nan, 1.0]), ("w2", 0): np.ones(2)}
    assert distance(broken, whole) == (math.inf, "w1 of layer 0")
    assert distance(whole, whole) == (0.0, "")


def test_a_result_is_good_only_with_finite_losses_and_the_scheduled_bytes() -> None:
    assert GOOD.is_good
    assert not replace(GOOD, must_agree=False, losses=(1.0, math.nan)).is_good
    assert not replace(GOOD, checks=(TrainingCheck("weights", math.inf, 1e-10),)).is_good
    assert not replace(GOOD, checks=(TrainingCheck("weights", 0.0, 1.0), TrainingCheck("losses", 1.1, 1.0))).is_good
    assert not replace(GOOD, message_bytes=2).is_good


def test_steps_are_skipped_only_where_gradients_overflow_and_never_all() -> None:
    assert not replace(GOOD, skipped_steps=1).is_good
    half = replace(GOOD, precision="fp16", losses=(1.0, 1.0), must_agree=False)
    assert replace(half, skipped_steps=1).is_good
    assert not replace(half, skipped_steps=2).is_good
    assert _verdict(replace(half, skipped_steps=2), True) == "DIFFERS: 2 of 2 steps skipped (gradients overflowed)"


def test_json_has_no_word_for_what_is_not_finite() -> None:
    assert _finite({"a": (1.0, math.nan), "b": math.inf, "c": 2}) == {"a": [1.0, None], "b": None, "c": 2}


def test_half_of_the_steps_must_be_within_the_usual_bound() -> None:
    """A step whose batch makes differences larger is none of them; of two steps both count."""
    by_step = {number: RelativeError(error) for number, error in enumerate([0.1, 0.9, 0.2, 0.3])}
    assert _usual("gradients", 0.5, by_step).seen == 0.3
    assert _usual("gradients", 0.5, {0: RelativeError(0.1), 1: RelativeError(0.9)}).seen == 0.9
    assert _usual("gradients", 0.5, {}).holds


def test_a_step_that_makes_differences_larger_is_no_fault() -> None:
    """Step 11: one tensor is 0.0098 apart, of the others at most 0.0056."""
    case = "compressed, zfp:16, stages"
    result, _ = Bench(case, CASES[case](), steps=12, seed=2).result()
    checks = {each.name: each for each in result.checks}
    peak, usual = checks["gradient of one tensor"], checks["gradient of one tensor of most steps"]
    assert result.is_good and usual.limit < peak.seen < peak.limit, list(map(str, result.checks))
