"""The verdict of a cross-check, worked by hand: agree, differ, too small to judge, too noisy to judge."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from simfrontier.core.trace import AddedCheck, Trace
from simfrontier.core.trace.comparison import Comparison, compare
from simfrontier.core.trace.crosscheck import CrossCheck
from simfrontier.core.trace.verdict import Outcome, judge
from tests.core.trace.fakes import measured
from tests.core.trace.gathers import one_rank

MB = 1e6


def judged(name: str, sim: Trace, real: Trace, real_s: float, iqr_s: float | None) -> Comparison:
    """A plan whose real trace notes its steps' median and, if known, their interquartile range."""
    notes = {} if iqr_s is None else {"step_iqr_s": str(iqr_s), "step_median_s": str(real_s)}
    return compare(name, sim, replace(real, notes=notes))


def plan(name: str, sim_s: float, real_s: float, iqr_s: float | None = None, bytes_of: float = 2 * MB) -> Comparison:
    """A plan of one gather that is the whole step."""
    return judged(name, one_rank(sim_s, bytes_of=bytes_of), one_rank(real_s, bytes_of=bytes_of), real_s, iqr_s)


class Faulty(AddedCheck):
    """What an extra found wrong."""

    fault, remark = "the bytes of links", ""

    def sentences(self) -> list[str]:
        return []

    def cards(self) -> list[tuple[str, str, str]]:
        return []

    def document(self) -> dict[str, object]:
        return {}

    def sections(self) -> dict[str, tuple[str, str]]:
        return {}


# ── agree ──


def test_the_verdict_is_the_median_over_all_large_collectives() -> None:
    """Ratios of the large ones: 1.1, 0.9 and 1.4: apart 0.1, 0.1, 0.4 → 0.1; median ratio 1.1. The small one, ten
    times too slow, does not count."""
    small = compare("small", one_rank(1.0, bytes_of=MB - 1), one_rank(10.0, bytes_of=MB - 1))
    both = [plan("a", 1.0, 1.1), plan("b", 2.0, 1.8), plan("c", 10.0, 14.0), small]
    verdict = judge(both[:3], MB, 0.25)
    assert judge(both, MB, 0.25).judged == verdict.judged == 3
    assert (verdict.apart, verdict.ratio) == (pytest.approx(0.1), pytest.approx(1.1))
    assert verdict.is_near and not judge(both, MB, 0.05).is_near
    assert verdict.outcome == "agree" and verdict.ranking == "alike"
    # Everything counted, the ratios are 0.9, 1.1, 1.4 and 10: apart 0.1, 0.1, 0.4 and 9, in the median 0.25.
    assert judge(both, 0, 0.25).apart == pytest.approx(0.25)


# ── too small to judge ──


def test_with_no_large_collective_nothing_is_agreed_or_denied() -> None:
    """The gather takes as long as simulated, then ten times as long: that says nothing either way. The plans' order
    (a before b; really b before a) says nothing either."""
    for several in ([plan("a", 1.0, 1.0)], [plan("a", 1.0, 10.0), plan("b", 2.0, 2.0)]):
        verdict = judge(several, 1e12, 0.25)
        assert (verdict.judged, verdict.judged_share, verdict.is_exact, verdict.is_near) == (0, 0.0, True, False)
        assert math.isnan(verdict.apart) and verdict.outcome == "too small to judge"
    assert verdict.ranking == "differ"


@pytest.mark.parametrize(
    ("small", "share", "outcome"),
    [
        # One gather of 2 MB: beside two of 1 MB it carries 2 of 4 MB, which is half; beside three 2 of 5 MB.
        (2, 0.5, "agree"),
        (3, 0.4, "too small to judge"),
    ],
)
def test_too_few_are_those_that_carry_less_than_half_of_the_bytes(small: int, share: float, outcome: Outcome) -> None:
    rest = one_rank(*[1.0] * small, bytes_of=MB)
    verdict = judge([plan("large", 1.0, 1.0), compare("small", rest, rest)], 2 * MB, 0.25)
    assert (verdict.judged, verdict.judged_share, verdict.outcome) == (1, pytest.approx(share), outcome)


# ── too noisy to judge ──


@pytest.mark.parametrize(
    ("iqr_s", "outcome"),
    [
        (None, "agree"),  # a single step: nothing is known of noise
        (0.5, "agree"),  # 0.5 of 2 s: 25 %, which is just allowed
        (0.52, "too noisy to judge"),  # 26 %
        (3.0, "too noisy to judge"),  # more than the step
    ],
)
def test_steps_that_vary_by_more_than_the_tolerance_are_not_judged(iqr_s: float | None, outcome: Outcome) -> None:
    verdict = judge([plan("a", 2.0, 2.0, iqr_s)], MB, 0.25)
    assert (verdict.outcome, verdict.real_noise) == (outcome, (iqr_s or 0.0) / 2.0)
    assert verdict.is_noisy == (outcome != "agree")


def test_noise_of_one_plan_is_noise_of_the_machine() -> None:
    """Plan b is three times too slow (apart 2, allowed 0.25), but plan a's steps vary by 0.9 of 1 s."""
    noisy, slow = plan("a", 1.0, 1.0, 0.9), plan("b", 2.0, 6.0, 0.1)
    verdict = judge([noisy, slow], MB, 0.25)
    assert (verdict.noise, verdict.is_near, verdict.outcome) == (0.9, False, "too noisy to judge")
    assert judge([plan("a", 1.0, 3.0, 0.1), slow], MB, 0.25).outcome == "differ"
    assert judge([noisy, slow], MB, 2.5).outcome == "agree"  # whoever allows 250 % can judge steps that vary by 90 %


def calibrated(residual: str, sim_s: float, real_s: float, name: str = "a") -> Comparison:
    """A plan that was simulated on times of which a second measurement differs by so much; real steps that vary by
    1 %."""
    sim = one_rank(sim_s)
    return judged(name, replace(sim, notes={"calibration_residual": residual}), one_rank(real_s), real_s, 0.01 * real_s)


@pytest.mark.parametrize(
    ("residual", "real_s", "outcome"),
    [
        ("0.25", 1.0, "agree"),
        ("0.26", 1.0, "too noisy to judge"),  # the calibration alone varies by more than is allowed
        # 1.30 of 1 s: 0.05 beyond the 0.25 allowed. Two measurements of the calibration may differ by as much, or not.
        ("0.06", 1.30, "too noisy to judge"),
        ("0.04", 1.30, "differ"),
        ("nonsense", 1.30, "differ"),  # the real steps alone: 1 %
        ("0.02", 1.20, "agree"),
    ],
)
def test_noise_of_the_calibration_counts_too(residual: str, real_s: float, outcome: Outcome) -> None:
    assert judge([calibrated(residual, 1.0, real_s)], MB, 0.25).outcome == outcome


def beside(share: str, sim_s: float, real_s: float, name: str = "a") -> Comparison:
    """A plan beside whose real steps, which hardly vary, other programs took such a share of the processors."""
    made = plan(name, sim_s, real_s, 0.001 * real_s)
    return replace(made, real=replace(made.real, notes={**made.real.notes, "others_share": share}))


@pytest.mark.parametrize(
    ("share", "real_s", "outcome"),
    [
        ("0.0", 1.3, "differ"),  # an idle machine
        ("0.02", 1.3, "differ"),  # 0.02 of 0.98, 2 %, do not make 1.25 s 1.3 s
        ("0.1", 1.3, "too noisy to judge"),  # 0.1 of 0.9, 11 %, may
        ("0.2", 1.25, "agree"),  # 0.2 of 0.8: 25 %, which is just allowed
        ("0.21", 1.0, "too noisy to judge"),  # 0.21 of 0.79: 27 %
        ("1.0", 1.0, "too noisy to judge"),
        ("nonsense", 1.3, "differ"),
    ],
)
def test_other_programs_on_the_processors_are_noise(share: str, real_s: float, outcome: Outcome) -> None:
    assert judge([beside(share, 1.0, real_s)], MB, 0.25).outcome == outcome


# ── differ ──


def other_bytes(iqr_s: float) -> Comparison:
    """Times are equal; one message is of 3 MB instead of 2."""
    return judged("a", one_rank(1.0), one_rank(1.0, bytes_of=3 * MB), 1.0, iqr_s)


@pytest.mark.parametrize(("min_bytes", "iqr_s"), [(MB, 0.0), (1e12, 0.0), (MB, 9.0), (1e12, 9.0)])
def test_other_bytes_differ_however_small_and_noisy(min_bytes: float, iqr_s: float) -> None:
    verdict = judge([other_bytes(iqr_s)], min_bytes, 0.25)
    assert (verdict.num_different, verdict.outcome) == (1, "differ")


def test_times_beyond_the_tolerance_differ() -> None:
    """1.25 s of 1 s is a quarter apart, which is allowed; 1.26 s is not."""
    assert judge([plan("a", 1.0, 1.25, 0.0)], MB, 0.25).outcome == "agree"
    verdict = judge([plan("a", 1.0, 1.26, 0.0)], MB, 0.25)
    assert (verdict.apart, verdict.outcome) == (pytest.approx(0.26), "differ")


@pytest.mark.parametrize("times", [(1.0, 1.0), (1.0, 9.0)])
def test_what_an_extra_finds_wrong_differs_whatever_the_times(times: tuple[float, float]) -> None:
    comparisons = (plan("a", *times),)
    for min_bytes in (MB, 1e12):
        check = CrossCheck(comparisons=comparisons, verdict=judge(comparisons, min_bytes, 0.25), added=(Faulty(),))
        assert check.outcome == "differ"


# ── the order of the plans ──


@pytest.mark.parametrize(
    ("plans", "ranking", "swapped", "close"),
    [
        ([plan("a", 1.0, 1.0)], "one plan", (), ()),
        ([plan("b", 2.0, 2.2), plan("a", 1.0, 0.9)], "alike", (), ()),
        ([plan("a", 1.0, 1.2), plan("b", 1.1, 1.1)], "differ", (("a", "b"),), ()),
        # Noise is known on one side only: no excuse.
        ([plan("a", 1.0, 1.2, 0.5), plan("b", 1.1, 1.1)], "differ", (("a", "b"),), ()),
        # 0.1 apart with a mean of (0.1 + 0.1) / 2 = 0.1: within noise; with 0.08 it is not.
        ([plan("a", 1.0, 1.25, 0.125), plan("b", 1.1, 1.125, 0.125)], "alike within noise", (), (("a", "b"),)),
        ([plan("a", 1.0, 1.25, 0.12), plan("b", 1.1, 1.125, 0.125)], "differ", (("a", "b"),), ()),
        # Close, but in the same order.
        ([plan("a", 1.0, 1.125, 0.125), plan("b", 1.1, 1.25, 0.125)], "alike", (), (("a", "b"),)),
        # Simulated equal: any order will do.
        ([plan("a", 1.0, 1.2), plan("b", 1.0, 1.1)], "alike", (), ()),
        # Of three, only the last two change places.
        ([plan("a", 1.0, 1.0), plan("b", 2.0, 3.0), plan("c", 3.0, 2.5)], "differ", (("b", "c"),), ()),
    ],
)
def test_plans_rank_alike_or_not(
    plans: list[Comparison], ranking: str, swapped: tuple[object, ...], close: tuple[object, ...]
) -> None:
    verdict = judge(plans, MB, 10.0)
    assert (verdict.ranking, verdict.swapped, verdict.close) == (ranking, swapped, close)
    assert verdict.outcome == ("differ" if ranking == "differ" else "agree")


@given(st.floats(0.01, 100), st.integers(0, 1000))
def test_a_stretched_trace_lies_as_far_apart_as_it_was_stretched(factor: float, seed: int) -> None:
    """Ends come up to a tenth earlier, so the median ratio is within 0.9 to 1 of the factor."""
    sim = one_rank(1.0, 2.0, 0.5, 4.0)
    verdict = judge([compare("p", sim, measured(sim, factor, seed))], 0, 0.25)
    assert 0.9 * factor * (1 - 1e-9) <= verdict.ratio <= factor * (1 + 1e-9)
