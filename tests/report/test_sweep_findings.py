"""What is found in the rows of a sweep: fronts, neighbours, places, and which points a page shows, worked by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from simfrontier.report.findings.neighbours import NUM_NEAREST, nearest, neighbours
from simfrontier.report.findings.pareto import front_of
from simfrontier.report.findings.ranks_in_groups import ranks
from simfrontier.report.findings.sweep import PACE, short_digests, sweep_findings
from simfrontier.report.findings.sweep_columns import (
    EXPOSED_SHARE,
    KNOWN,
    QUANTITIES,
    Better,
    axis_quantities,
    is_list,
    sentence_of,
)
from simfrontier.report.findings.thinning import kept_points
from tests.report.sweeps import made_up, refused, sampled, write

NAN = math.nan
Numbers = st.lists(st.tuples(*[st.one_of(st.integers(0, 6).map(float), st.just(NAN))] * 2), max_size=30)


def test_the_front_of_six_rows() -> None:
    """Memory (less is better) and speed (more is better):

    0 (1, 1): nothing takes as little. 1 (2, 3): faster than 0. 2 (2, 2): row 1 is faster for the same memory.
    3 (3, 3): row 1 is as fast with less. 4 (4, 5): the fastest. 5: as row 0, and on the front with it.
    """
    memory, speed = np.array([1.0, 2, 2, 3, 4, 1]), np.array([1.0, 3, 2, 3, 5, 1])
    assert front_of(memory, speed, "less", "more").tolist() == [0, 5, 1, 4]


@given(Numbers, st.sampled_from(["less", "more"]), st.sampled_from(["less", "more"]))
def test_no_row_is_better_than_one_of_the_front_and_one_is_better_than_any_other(
    rows: list[tuple[float, float]], x_better: Better, y_better: Better
) -> None:
    x, y = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    costs = [(-a if x_better == "more" else a, -b if y_better == "more" else b) for a, b in rows]
    known = [at for at, (a, b) in enumerate(costs) if not (math.isnan(a) or math.isnan(b))]

    def is_beaten(at: int) -> bool:
        (a, b) = costs[at]
        return any(c <= a and d <= b and (c < a or d < b) for c, d in (costs[each] for each in known))

    assert sorted(front_of(x, y, x_better, y_better).tolist()) == [at for at in known if not is_beaten(at)]


def test_neighbours_on_a_grid_with_a_hole() -> None:
    """Three values of an axis times two of another, the point (1, 1) left out:

    0 (0, 0)  1 (1, 0)  2 (2, 0)
    3 (0, 1)            4 (2, 1)
    """
    axes = [np.array([0, 1, 2, 0, 2]), np.array([0, 0, 0, 1, 1])]
    across, up = neighbours(axes, 0), neighbours(axes, 1)
    assert across.less.tolist() == [-1, 0, 1, -1, 3] and across.more.tolist() == [1, 2, -1, 4, -1]
    assert up.less.tolist() == [-1, -1, -1, 0, 2] and up.more.tolist() == [3, -1, 4, -1, -1]


def test_points_with_equal_settings_are_no_neighbours_of_each_other() -> None:
    found = neighbours([np.array([0, 1, 1, 2])], 0)
    assert found.less.tolist() == [-1, 0, 0, 1] and found.more.tolist() == [1, 3, 3, -1]


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=25))
def test_a_neighbour_is_the_next_with_all_else_equal(points: list[tuple[int, int, int]]) -> None:
    axes = [np.array([point[axis] for point in points]) for axis in range(3)]
    found = neighbours(axes, 1)
    for at, (a, b, c) in enumerate(points):
        beside = [point[1] for point in points if (point[0], point[2]) == (a, c)]
        for way, values in ((found.less, [v for v in beside if v < b]), (found.more, [v for v in beside if v > b])):
            wanted = (max(values) if way is found.less else min(values)) if values else None
            assert (points[way[at]] if way[at] >= 0 else None) == (None if wanted is None else (a, wanted, c))


def test_the_nearest_points() -> None:
    """On an axis from 0 to 10: of 0 they are 1, 4 and 10; another scenario lies as far as the axis is long."""
    axes = [np.array([0, 1, 4, 10, 0]), np.array([0, 0, 0, 0, 1])]
    found = nearest(axes, [True, False])
    assert found.shape == (5, NUM_NEAREST)
    assert found[0].tolist()[:2] == [1, 2] and {*found[0].tolist()[2:]} == {3, 4}
    assert found[1].tolist()[:2] == [0, 2]
    assert nearest([np.array([0, 5])], [True]).tolist() == [[1, -1, -1, -1], [0, -1, -1, -1]]


def test_the_nearest_of_many_points_at_one_place_are_others() -> None:
    found = nearest([np.zeros(9, dtype=np.int64)], [True])
    assert all(at not in others or len(set(others)) == NUM_NEAREST for at, others in enumerate(found.tolist()))
    assert (found >= 0).all()


def test_ranks_by_hand() -> None:
    """Group 0: 5, 3, 3, none: places 1, 2, 2. Group 1: 7 alone."""
    found = ranks(np.array([3.0, 7, 5, 3, NAN]), np.array([0, 1, 0, 0, 0]))
    assert found.place.tolist() == [2, 1, 1, 2, 0] and found.among.tolist() == [3, 1, 3, 3, 0]
    assert ranks(np.array([NAN]), np.array([0])).place.tolist() == [0]


def test_thinning_by_hand() -> None:
    """Ten points of two rows, room for nine rows: points 3 and 9 are kept, and five rows are left for two of the eight
    others, at even distances: the first and the fifth."""
    rows = np.full(10, 2)
    assert kept_points(rows, np.array([9, 3]), 9).tolist() == [0, 3, 5, 9]
    assert kept_points(rows, np.array([9, 3]), 20).tolist() == list(range(10))
    assert kept_points(rows, np.arange(10), 5).tolist() == [0, 5]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=60), st.integers(0, 80), st.data())
def test_what_is_kept_has_room_and_holds_what_is_always_kept(sizes: list[int], most: int, data: st.DataObject) -> None:
    rows = np.array(sizes)
    always = np.array(sorted(data.draw(st.sets(st.integers(0, rows.size - 1)))), dtype=np.int64)
    kept = kept_points(rows, always, most)
    assert rows[kept].sum() <= most and kept.tolist() == sorted(set(kept.tolist()))
    if rows[always].sum() <= most:
        assert set(always.tolist()) <= set(kept.tolist())
        left = most - int(rows[kept].sum())
        assert kept.size == rows.size or left < 2 * rows.max() * max(1, rows.size - always.size)


def test_short_digests_tell_points_apart() -> None:
    assert short_digests(("a" * 64, "b" * 64, "")) == ("a" * 16, "b" * 16, "")
    assert short_digests(("a" * 20 + "b" * 44, "a" * 64)) == ("a" * 20 + "b" * 4, "a" * 24)


def test_every_column_is_told_in_words() -> None:
    assert set(KNOWN) - {"point", "digest"} <= set(QUANTITIES) <= {*KNOWN, EXPOSED_SHARE}
    assert all(of.better for name, of in QUANTITIES.items() if name.startswith(("bytes_", "exposed_", "step_time")))


def test_axes_are_named_by_the_end_of_their_keys_with_their_units() -> None:
    keys = ["machine.overrides.host.hook_s", "training.micro_batch", "library.overrides.shares.nic"]
    keys += ["machine.overrides.link_classes.nic.bytes_per_s", "engine.overlap"]
    told = axis_quantities(keys, {"engine.overlap": "truth"})
    assert [(told[key].words, told[key].unit) for key in keys] == [
        ("host hook", "s"),
        ("micro batch", "number"),
        ("shares nic", "number"),
        ("link classes nic", "bytes/s"),
        ("overlap", "truth"),
    ]
    both = axis_quantities(["machine.overrides.a.b", "library.overrides.a.b"], {})
    assert [each.words for each in both.values()] == ["machine overrides a b", "library overrides a b"]


def test_keys_have_their_sentences() -> None:
    assert sentence_of("engine.overlap").startswith("whether communication runs beside")
    assert sentence_of("plans.zero3.micro_batch") and sentence_of("at.8.model.hidden") == sentence_of("model.hidden")
    assert sentence_of("machine.overrides.host.hook_s") == "a number of the machine's file"
    assert is_list("run.devices") and not is_list("training.micro_batch")


def test_places_and_fronts_count_rows_that_the_page_does_not_show(tmp_path: Path) -> None:
    found = sweep_findings(write(tmp_path / "of", sampled(200, 2)), most_rows=60)
    every = sweep_findings(tmp_path / "of")
    assert (found.num_points, found.num_rows, found.is_thinned, every.is_thinned) == (200, 400, True, False)
    assert len(found.point_of) <= 60 and set(found.within.among.tolist()) == {200}
    assert set(found.overall.among.tolist()) == {400}

    def names(of: object, rows: tuple[int, ...]) -> list[tuple[int, str]]:
        return [(of.number_of_point(row), of.text("plan", row)) for row in rows]  # type: ignore[attr-defined]

    assert names(found, found.best) == names(every, every.best)
    assert {key: names(found, rows) for key, rows in found.front.items()} == {
        key: names(every, rows) for key, rows in every.front.items()
    }


def test_what_does_not_fit_is_neither_best_nor_on_the_front(tmp_path: Path) -> None:
    settings = [{"training.micro_batch": value} for value in (1, 2, 4)]
    rows = [made_up(0, settings[0], **{PACE: 10.0}), made_up(1, settings[1], fits=False, step_time_s=None)]
    rows += [refused(2, settings[2], "no such mesh"), made_up(2, settings[2], plan="zero1", **{PACE: 5.0})]
    found = sweep_findings(write(tmp_path / "of", rows))
    assert [found.number_of_point(row) for row in found.best] == [0, 2]
    assert (found.num_unfit, found.num_refused) == (1, 0)
    assert [(each.reason, each.num_rows, each.examples) for each in found.refused] == [("no such mesh", 1, (2,))]
    assert found.within.place.tolist() == [1, 0, 0, 1]


def test_reasons_are_grouped_the_most_frequent_first(tmp_path: Path) -> None:
    rows = [refused(at, {"engine.overlap": bool(at)}, "too narrow" if at else "one of") for at in range(4)]
    found = sweep_findings(write(tmp_path / "of", rows))
    assert [(each.reason, each.num_points, each.examples) for each in found.refused] == [
        ("too narrow", 3, (1, 2, 3)),
        ("one of", 1, (0,)),
    ]
    assert (found.num_refused, found.best, found.front) == (4, (), {})


@pytest.mark.parametrize("count", [1, 5])
def test_a_sweep_without_axes_has_no_neighbours(tmp_path: Path, count: int) -> None:
    found = sweep_findings(write(tmp_path / "of", [made_up(point, {}) for point in range(count)]))
    assert (found.axes, found.beside, found.nearest) == ((), {}, None)
