"""Deltas and the verdict, worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from simfrontier.trace import Trace
from simfrontier.trace.comparison import Comparison, compare
from simfrontier.trace.delta import deltas, judge, number_of, step_times
from tests.trace.fakes import measured, span, trace

MB = 1e6
MESH = {"mesh": "node 2, package 3, gcd 4"}


def one_rank(*durations_s: float, bytes_of: float = 2 * MB, kind: str = "all_gather") -> Trace:
    """Gathers one after the other."""
    spans, now = [], 0.0
    for op, duration in enumerate(durations_s):
        spans.append(span(op, now, now + duration, axes="node+gcd", kind=kind, message_bytes=bytes_of))
        now += duration
    return trace(tuple(spans), notes=MESH)


def plan(name: str, sim_s: float, real_s: float, iqr_s: float | None = None) -> Comparison:
    """A plan of one gather that is the whole step."""
    notes = {} if iqr_s is None else {"step_iqr_s": str(iqr_s), "step_median_s": str(real_s)}
    return compare(name, one_rank(sim_s), replace(one_rank(real_s), notes=notes))


def test_calls_that_are_alike_are_one_row() -> None:
    """Three gathers of 1, 2, 3 s that really take 2, 3, 9 s: medians 2 and 3, ratio 1.5; the ratios 2, 1.5, 3 lie 1,
    0.5 and 2 apart from 1, in the median 1. A group over node + gcd has 2 × 4 ranks."""
    (row,) = deltas(compare("p", one_rank(1, 2, 3), one_rank(2, 3, 9)))
    assert (row.kind, row.name, row.axes, row.group_size) == ("all_gather", "weights", "node+gcd", 8)
    assert (row.calls, row.message_bytes, row.is_collective) == (3, 2 * MB, True)
    assert (row.sim_s, row.real_s, row.ratio, row.apart) == (2.0, 3.0, 1.5, 1.0)
    assert row.real_total_s == 14.0


def test_rows_are_by_kind_name_axes_and_size_and_local_work_by_kind() -> None:
    """On two ranks: ops 0 and 1 differ in size; the two matmuls are one row, though their names differ."""
    own = (
        span(0, 0.0, 1.0, axes="node", message_bytes=1.0),
        span(1, 1.0, 4.0, axes="node", message_bytes=2.0),
        span(2, 0.0, 2.0, name="a"),
        span(3, 2.0, 6.0, name="b"),
        span(4, 6.0, 6.5, kind="norm"),
    )
    rows = deltas(compare("p", trace(own, own), trace(own, own)))
    assert [(r.kind, r.name, r.message_bytes, r.calls) for r in rows] == [
        ("all_gather", "weights", 2.0, 1),
        ("all_gather", "weights", 1.0, 1),
        ("matmul", "", 0.0, 2),
        ("norm", "", 0.0, 1),
    ]
    # Two ranks share a row: calls and totals are of one rank.
    assert [r.real_total_s for r in rows] == [3.0, 1.0, 6.0, 0.5]
    assert [r.group_size for r in rows] == [0, 0, 0, 0]  # no trace notes its mesh
    assert all(r.ratio == 1.0 for r in rows)


def test_waits_are_from_readiness_to_the_groups() -> None:
    """Two ranks ready 0 and 2 s before the start: 1 s in the median; really 4 and 0 s: 2 s."""
    sim = [span(0, 5.0, 6.0, axes="node", ready_s=5.0 - wait) for wait in (0.0, 2.0)]
    real = [span(0, 5.0, 6.0, axes="node", ready_s=5.0 - wait) for wait in (4.0, 0.0)]
    (row,) = deltas(compare("p", trace(*[(s,) for s in sim]), trace(*[(s,) for s in real])))
    assert (row.sim_wait_s, row.real_wait_s) == (1.0, 2.0)


def test_what_was_simulated_to_take_no_time_has_no_ratio() -> None:
    (row,) = deltas(compare("p", one_rank(0.0), one_rank(1.0)))
    assert math.isnan(row.ratio) and math.isnan(row.apart)


def test_clocks_that_disagree_make_no_negative_times() -> None:
    real = trace((span(0, 2.0, 1.9, axes="node+gcd", ready_s=2.1),))
    (row,) = deltas(compare("p", one_rank(1.0), real))
    assert (row.real_s, row.real_wait_s) == (0.0, 0.0)


def test_a_step_is_the_noted_median_or_else_the_last_end() -> None:
    comparison = compare("p", one_rank(1, 2), one_rank(2, 2))
    assert (step_times(comparison).sim_s, step_times(comparison).real_s) == (3.0, 4.0)
    assert step_times(comparison).real_iqr_s is None
    noted = replace(comparison.real, notes={"step_median_s": "6.0", "step_iqr_s": "0.5"})
    times = step_times(compare("p", comparison.sim, noted))
    assert (times.real_s, times.real_iqr_s, times.ratio) == (6.0, 0.5, 2.0)


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "-1"])
def test_notes_that_are_no_numbers_say_nothing(text: str) -> None:
    assert number_of({"a": text}, "a") is None and number_of({}, "a") is None
    assert number_of({"a": "0.5"}, "a") == 0.5


def test_the_verdict_is_the_median_over_all_large_collectives() -> None:
    """Ratios of the large ones: 1.1, 0.9 and 1.4: apart 0.1, 0.1, 0.4 → 0.1; median ratio 1.1. The small one, ten
    times too slow, does not count."""
    small = compare("small", one_rank(1.0, bytes_of=MB - 1), one_rank(10.0, bytes_of=MB - 1))
    both = [plan("a", 1.0, 1.1), plan("b", 2.0, 1.8), plan("c", 10.0, 14.0), small]
    verdict = judge(both[:3], MB, 0.25)
    assert judge(both, MB, 0.25).judged == verdict.judged == 3
    assert (verdict.apart, verdict.ratio) == (pytest.approx(0.1), pytest.approx(1.1))
    assert verdict.is_near and not judge(both, MB, 0.05).is_near
    assert verdict.agree and verdict.ranking == "alike"
    # Everything counted, the ratios are 0.9, 1.1, 1.4 and 10: apart 0.1, 0.1, 0.4 and 9, in the median 0.25.
    assert judge(both, 0, 0.25).apart == pytest.approx(0.25)


def test_a_message_of_just_the_least_size_counts() -> None:
    assert judge([plan("a", 1.0, 1.0)], 2 * MB, 0.25).judged == 1
    assert judge([plan("a", 1.0, 1.0)], 2 * MB + 1, 0.25).judged == 0


def test_with_nothing_to_judge_by_there_is_no_agreement() -> None:
    verdict = judge([plan("a", 1.0, 1.0)], 1e12, 0.25)
    assert (verdict.judged, verdict.is_exact, verdict.is_near, verdict.agree) == (0, True, False, False)


def test_a_difference_is_no_agreement() -> None:
    verdict = judge([compare("a", one_rank(1.0), one_rank(1.0, bytes_of=3 * MB))], MB, 0.25)
    assert (verdict.num_different, verdict.is_near, verdict.agree) == (1, True, False)


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
    assert verdict.agree == (ranking != "differ")


@given(st.floats(0.01, 100), st.integers(0, 1000))
def test_a_stretched_trace_lies_as_far_apart_as_it_was_stretched(factor: float, seed: int) -> None:
    """Ends come up to a tenth earlier, so the median ratio is within 0.9 to 1 of the factor."""
    sim = one_rank(1.0, 2.0, 0.5, 4.0)
    verdict = judge([compare("p", sim, measured(sim, factor, seed))], 0, 0.25)
    assert 0.9 * factor * (1 - 1e-9) <= verdict.ratio <= factor * (1 + 1e-9)
