"""The error of a step by left-out runs: intervals, rankings, and the gate on families of runs."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simfrontier.answers.accuracy.published_runs.facts import JobFacts
from simfrontier.answers.accuracy.published_runs.left_out import (
    COVERED,
    IN_VIEW,
    OTHER_DEVICE,
    Calibration,
    Lead,
    LeftOut,
    rankings_of,
    read_left_out,
    source_of,
    write_left_out,
)
from tests.accuracy import changes, families_of, read_baseline, write_baseline
from tests.answers.accuracy.published_runs.rows import run

PEAK = 100e12
FACTS = JobFacts(
    shape="",
    layers=2,
    billions=1.0,
    token_gflops=6.0,
    lora_rank=0,
    devices=8,
    batch=8,
    micro_batch=1,
    sequence=2048,
    precision="bf16",
    checkpointing="none",
    tensor=1,
    pipeline=1,
    context=1,
    expert=1,
    data="zero3",
)


def row(source: str, off: float, sd: float = 0.1, **changed: object) -> LeftOut:
    """A run whose logarithm of predicted / measured is `off`."""
    made = LeftOut(
        run=f"{source} {off}",
        source=source,
        machine="here",
        peak_tflops=100.0,
        stack="one",
        job=f"{source} {off}",
        predicted_s=math.exp(off),
        measured_s=1.0,
        sd=sd,
        peak_bytes=1e9,
        facts=FACTS,
    )
    return replace(made, **changed)  # type: ignore[arg-type]


def test_an_interval_reaches_as_far_as_nine_tenths_of_the_weight_of_other_sources_are_off() -> None:
    """20 sources of one run each: the 18th is the 90 % quantile. With 100 runs of the first, which weigh 10, the rest
    has 19 of 29, so that all but 2.9 of the weight lies up to the 18th again; a source of 100 far off moves it."""
    rows = [row(f"s{n}", 0.01 * n * (-1) ** n) for n in range(1, 21)]
    assert Calibration(rows=tuple(rows)).half_width(0.1, PEAK, without="") == pytest.approx(0.18)
    assert Calibration(rows=tuple(rows)).half_width(0.2, PEAK, without="") == pytest.approx(0.36)  # twice the deviation
    assert Calibration(rows=tuple(rows)).half_width(0.1, PEAK, without="s1") == pytest.approx(0.19)
    assert Calibration(rows=tuple(rows)).half_width(0.1, PEAK) == pytest.approx(0.18 * IN_VIEW)  # of a new run
    again = [replace(rows[0], run=f"again {n}") for n in range(99)]
    assert Calibration(rows=(*rows, *again)).half_width(0.1, PEAK, without="") == pytest.approx(0.18)
    far = [replace(rows[19], run=f"again {n}") for n in range(99)]
    assert Calibration(rows=(*rows, *far)).half_width(0.1, PEAK, without="") == pytest.approx(0.2)


def test_runs_on_other_devices_weigh_less() -> None:
    """40 sources on another device, far off, weigh as much as 10 on this one: 9 tenths of 20 is at the 32nd of 40."""
    near = [row(f"near {n}", 0.01 * (n + 1)) for n in range(10)]
    far = [row(f"far {n}", 1.0 + 0.01 * n, peak_tflops=200.0) for n in range(40)]
    expected = 1.0 + 0.01 * (math.ceil((COVERED * (10 + 40 * OTHER_DEVICE) - 10) / OTHER_DEVICE) - 1)
    assert Calibration(rows=(*near, *far)).half_width(0.1, PEAK, without="") == pytest.approx(expected)
    assert Calibration(rows=(*near, *far)).half_width(0.1, 2 * PEAK, without="") > expected


@pytest.mark.parametrize("num_sources", [12, 30])
def test_nine_of_ten_runs_of_new_sources_lie_inside(num_sources: int) -> None:
    """Sources that err alike within and by chance between each other, of which one is left out at a time."""
    draw = np.random.default_rng(7)
    inside = []
    for _ in range(60):
        shifts = draw.standard_t(4, num_sources) * 0.1
        rows = [
            row(f"{n}", float(shift + noise), run=f"{n} {at}")
            for n, shift in enumerate(shifts)
            for at, noise in enumerate(draw.normal(0, 0.03, 5))
        ]
        half = Calibration(rows=tuple(each for each in rows if each.source != "0")).half_width(0.1, PEAK, without="")
        inside += [abs(each.off) <= half for each in rows if each.source == "0"]
    assert 0.86 <= np.mean(inside) <= 1.0


def test_a_ranking_is_sure_from_the_lead_on_at_which_nine_of_ten_are_right() -> None:
    """Of pairs with a lead of 2 % half are right, of those with 5 % and more all."""

    def pair(name: str, predicted: float, measured: float) -> tuple[LeftOut, LeftOut]:
        times = (1.0, 1.0), (math.exp(predicted), math.exp(measured))
        first, second = (
            row("a", 0.0, run=f"{name} {at}", job=name, predicted_s=made, measured_s=was)
            for at, (made, was) in enumerate(times)
        )
        return first, second

    near = [pair(f"near {n}", 0.02, 0.02 * (-1) ** n) for n in range(20)]
    far = [pair(f"far {n}", 0.05 + 0.01 * n, 0.1) for n in range(20)]
    known = Calibration(rows=tuple(one for both in (*near, *far) for one in both))
    assert len(known.leads) == 40
    assert math.log1p(known.sure_lead(True)) == pytest.approx(0.05, abs=1e-6)
    alone = Calibration(rows=(*far[0], *near[0]))
    assert alone.sure_lead(True, without="near 0") > 0.05 and alone.sure_lead(True, without="far 0") < 0.03
    judged = rankings_of(known.leads, lambda job: 0.03)
    assert judged is not None and (judged.pairs, judged.right, judged.sure, judged.sure_right) == (40, 30, 20, 20)
    assert (judged.right_share, judged.too_close_share, judged.sure_right_share) == (0.75, 0.5, 1.0)
    assert rankings_of((), lambda job: 0.0) is None


def test_plans_of_two_stacks_differ_by_the_errors_of_both() -> None:
    """Runs of stack one are 10 % too long and those of two 10 % too short: a lead must be above that."""
    rows = [row("a", math.log(1.1)), row("b", -math.log(1.1), stack="two")]
    found = Calibration(rows=tuple(rows)).sure_lead(False)
    assert found == pytest.approx(1.1 ** (2 * 0.08 / 0.1) - 1.0)  # as many deviations of a run that states everything
    assert Calibration(rows=(rows[0], replace(rows[1], stack="one"))).sure_lead(False) == 0.0
    assert Lead(source="a", job="b", predicted=0.1, measured=-0.1).is_right is False


def test_the_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = (row("a, of two", 0.25), row("b", -0.5, stack="none"))
    write_left_out(tmp_path / "t.csv", rows)
    again = read_left_out(tmp_path / "t.csv")
    assert [(each.source, each.stack, each.job) for each in again] == [(r.source, r.stack, r.job) for r in rows]
    assert [each.off for each in again] == pytest.approx([0.25, -0.5], abs=1e-4)


def test_a_source_is_a_repository_or_site_else_the_system() -> None:
    assert (
        source_of(run(source="NVIDIA/Megatron-LM@0efdb23 README line 3", system="Megatron-LM")) == "NVIDIA/Megatron-LM"
    )
    assert source_of(run(source="README", system="Megatron-DeepSpeed")) == "Megatron-DeepSpeed"


def test_the_gate_fails_where_a_family_gets_worse_by_a_tenth_or_loses_a_run(tmp_path: Path) -> None:
    rows = [row("a", 0.1, run="1"), row("a", -0.1, run="2"), row("b", 0.3, run="3", machine="there")]
    write_baseline(tmp_path / "t.csv", families_of(rows))
    before = read_baseline(tmp_path / "t.csv")

    def worse(now: list[LeftOut]) -> set[str]:
        return {change.family for change in changes(before, families_of(now)) if change.is_worse}

    farther = replace(rows[2], predicted_s=math.exp(0.4))
    of_it = {"all", "there (machine)", "b (source)", "one at 100 TFLOPS a device (stack)"}
    assert worse(rows) == set()
    assert worse([*rows[:2], farther]) == worse(rows[:2]) == of_it
    assert worse([*rows, row("c", 0.15, run="4", machine="new")]) == set()  # a new family has no baseline
