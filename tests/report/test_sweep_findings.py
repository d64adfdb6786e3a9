"""What is found in the rows of a sweep: the best rows, Pareto fronts, refusals, axes in words, and what charts draw."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, strategies as st

from simfrontier.report.findings.sweep import SweptAxis, pareto_front, sweep_findings
from simfrontier.report.findings.sweep_columns import (
    EXPOSED_SHARE,
    KNOWN,
    QUANTITIES,
    Quantity,
    axis_quantities,
    sentence_of,
)
from simfrontier.report.findings.sweep_rows import MEMORY, RATE
from tests.report.sweeps import made_up, refused, sampled, write


def front_of(rows: list[tuple[int, int]]) -> list[int]:
    """The places of the rows (memory, rate) on the front."""
    return pareto_front(pd.DataFrame(rows, columns=[MEMORY, RATE])).index.tolist()


def test_the_front_of_six_rows() -> None:
    """0 (1, 1): nothing takes as little. 1 (2, 3): faster than 0. 2 (2, 2): row 1 is faster for the same memory.
    3 (3, 3): row 1 is as fast with less. 4 (4, 5): the fastest. 5: as row 0, which is the first of both."""
    assert front_of([(1, 1), (2, 3), (2, 2), (3, 3), (4, 5), (1, 1)]) == [0, 1, 4]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=30))
def test_no_row_is_better_than_one_of_the_front_and_one_is_no_worse_than_any_other(rows: list[tuple[int, int]]) -> None:
    front = [rows[at] for at in front_of(rows)]
    assert front == sorted(set(front))
    assert not any(a <= c and b >= d and (a, b) != (c, d) for a, b in rows for c, d in front)
    assert all(any(a <= c and b >= d for a, b in front) for c, d in rows)


def test_what_does_not_fit_is_neither_best_nor_on_the_front(tmp_path: Path) -> None:
    settings = [{"training.micro_batch": value} for value in (1, 2, 4)]
    rows = [made_up(0, settings[0], **{RATE: 10.0}), made_up(1, settings[1], fits=False, step_time_s=None)]
    rows += [refused(2, settings[2], "no such mesh"), made_up(2, settings[2], plan="zero1", **{RATE: 5.0})]
    found = sweep_findings(write(tmp_path / "of", rows))
    assert found.best["point"].tolist() == [0, 2]
    assert set(found.fronts["toy", 16]["point"]) <= {0, 2}
    assert (found.num_points, found.num_unfit, found.num_refused) == (3, 1, 0)
    assert [(each.reason, each.num_rows, each.points) for each in found.refused] == [("no such mesh", 1, (2,))]


def test_reasons_are_grouped_the_most_frequent_first(tmp_path: Path) -> None:
    rows = [refused(at, {"engine.overlap": bool(at)}, "too narrow" if at else "one of") for at in range(4)]
    found = sweep_findings(write(tmp_path / "of", rows))
    assert [(each.reason, each.points) for each in found.refused] == [("too narrow", (1, 2, 3)), ("one of", (0,))]
    assert (found.num_refused, len(found.best), found.fronts) == (4, 0, {})


def test_charts_of_a_large_sweep_draw_the_best_and_the_front(tmp_path: Path) -> None:
    found = sweep_findings(write(tmp_path / "of", sampled(300, 2), 3))
    drawn = found.rows_to_draw(most=100)
    assert 100 <= len(drawn) <= 100 + len(found.best) + sum(map(len, found.fronts.values()))
    for rows in (found.best, *found.fronts.values()):
        assert set(rows.index) <= set(drawn.index)
    assert drawn.equals(found.rows_to_draw(most=100))
    assert found.rows_to_draw(most=600).equals(found.ran)


def test_a_recipe_has_no_setting_of_another_plan(tmp_path: Path) -> None:
    keys = ("plans.zero3.publish", "plans.zero1.publish", "plans.*.micro_batch", "at.16.plans.zero1.codec")
    rows = [made_up(point, dict.fromkeys(keys, point), plan=plan) for point in (0, 1) for plan in ("zero3", "zero1")]
    found = sweep_findings(write(tmp_path / "of", rows))
    told = {row["plan"]: " ".join(found.settings_of(row, row["plan"])) for row in found.best.to_dict("records")}
    assert "zero3 publish" in told["zero3"] and "zero1" not in told["zero3"] and "micro batch" in told["zero3"]
    assert "zero1 publish" in told["zero1"] and "zero1 codec" in told["zero1"] and "zero3" not in told["zero1"]


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (5e8, "bytes/s", "500 MB/s"),
        (6.938e-6, "s", "6.938 µs"),
        (4096, "number", "4,096"),
        (1e6, "number", "1,000,000"),
        (0.01405, "number", "0.01405"),
        (12.5, "1/s", "12.5 1/s"),
        (True, "truth", "yes"),
        ("rccl", "text", "rccl"),
        (float("nan"), "s", "–"),
    ],
)
def test_settings_in_words(value: object, unit: object, words: str) -> None:
    axis = SweptAxis(key="a", quantity=Quantity(words="a", unit=unit), values=())  # type: ignore[arg-type]
    assert axis.in_words(value).replace("\u00a0", " ") == words


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
    assert sentence_of("engine.overlap").startswith("whether communication overlaps with")
    assert sentence_of("plans.zero3.micro_batch") and sentence_of("at.8.model.hidden") == sentence_of("model.hidden")
    assert sentence_of("machine.overrides.host.hook_s") == "a number of the machine's file"
