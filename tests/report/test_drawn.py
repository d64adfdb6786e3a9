"""What long steps are drawn from: joined bars, and memory at the fullest moment of each stretch, by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from simfrontier.report.figures.memory import drawn_memory
from simfrontier.report.figures.timeline import DrawnBar, joined
from simfrontier.simulation import MemoryTimeline
from tests.trace.fakes import span as some_span


def bar(kind: str, start_s: float, end_s: float) -> DrawnBar:
    span = some_span(0, start_s, end_s, name=f"{kind} at {start_s:g}")
    return DrawnBar(spans=(span,), kind=kind, start_s=start_s, end_s=end_s, until_s=end_s)


def test_short_bars_that_begin_together_are_joined_by_kind_and_keep_their_time() -> None:
    """Short: less than 1 s. The first three begin within 1 s of the first: a, b, a of 0.2, 0.3 and 0.1 s, so a of 0.3 s
    from 0, then b of 0.3 s. A long bar stays as it is, and so does the one short bar behind it."""
    drawn = [bar("a", 0.0, 0.2), bar("b", 0.3, 0.6), bar("a", 0.9, 1.0), bar("a", 1.0, 3.0), bar("b", 3.0, 3.5)]
    made = joined(drawn, 1.0)
    assert [(each.kind, each.start_s) for each in made] == [
        ("a", 0.0),
        ("b", pytest.approx(0.3)),
        ("a", 1.0),
        ("b", 3.0),
    ]
    assert [each.end_s for each in made] == pytest.approx([0.3, 0.6, 3.0, 3.5])
    assert made[0].words == "<b>2 short ones, joined</b><br>300\u00a0ms in all<br>between 0\u00a0s and 1\u00a0s"
    assert [each.spans[0].name for each in made[1:]] == ["b at 0.3", "a at 1", "b at 3"]


def test_joined_bars_of_a_lane_lie_on_no_other() -> None:
    starts = np.cumsum(np.random.default_rng(0).exponential(1.0, 500))
    drawn = [bar("abc"[n % 3], float(a), float(b)) for n, (a, b) in enumerate(pairwise(starts))]
    made = sorted(joined(drawn, 8.0), key=lambda each: each.start_s)
    assert len(made) < 0.6 * len(drawn)
    assert all(one.end_s <= other.start_s + 1e-9 for one, other in pairwise(made))
    assert sum(each.end_s - each.start_s for each in made) == pytest.approx(starts[-1] - starts[0])


def test_of_many_changes_of_memory_the_fullest_moment_of_each_stretch_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stretches of three changes: sums 3, 7, 4 and 5, 1, 2; so those of 7 (6 + 1) and 5 (1 + 4), and never 6 + 4,
    the most of each kind, which are not held at once."""
    monkeypatch.setattr("simfrontier.report.figures.memory.MOST_CHANGES", 2)
    held = {"weights": np.array([1.0, 6.0, 0.0, 1.0, 1.0, 2.0]), "other": np.array([2.0, 1.0, 4.0, 4.0, 0.0, 0.0])}
    timeline = MemoryTimeline(times=np.arange(6.0), held=held, peak_bytes=7, peak_s=1.0, at_peak={})
    times, drawn = drawn_memory(timeline)
    assert times.tolist() == [0.0, 3.0]
    assert {kind: values.tolist() for kind, values in drawn.items()} == {"weights": [6.0, 1.0], "other": [1.0, 4.0]}
