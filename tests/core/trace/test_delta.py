"""Deltas and the verdict, worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace

from simfrontier.core.trace.comparison import compare
from simfrontier.core.trace.verdict import deltas, step_times
from tests.core.trace.fakes import span, trace
from tests.core.trace.gathers import one_rank

MB = 1e6


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
