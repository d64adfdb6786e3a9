"""A measured call against the shipped models: the collective, the program that measured it, and the interval."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from simfrontier.accuracy.predictors.calls import predict_call, shown_fault
from simfrontier.accuracy.predictors.harness import Harness, harnesses_of, shipped_harnesses
from simfrontier.accuracy.residual import NotCovered, Prediction
from simfrontier.collectives import load_library
from simfrontier.cost import EqualGroups
from simfrontier.machine import load_machine
from simfrontier.measured import Pathology
from simfrontier.measured.place import RowPlace
from simfrontier.measured.rows import CallRow
from tests.some import some

ROW = CallRow(
    machine="frontier",
    collective="all_gather",
    library="rccl",
    devices=128,
    num_bytes=2**26,
    seconds=3.943e-3,
    source="axonn-ai/sc2025-pccl-reproducer@5a6353f data/all_gather_3",
    place=RowPlace("rows.csv", 2),
)
HARNESS = Harness(
    name="lists",
    title="a list of copies",
    source="somebody/bench",
    library="rccl",
    machine="frontier",
    collectives=("all_gather",),
    base_s=50e-6,
    per_rank_s=4e-6,
    copy_bytes_per_s=1e11,
)


def test_a_harness_adds_a_call_and_a_copy_for_every_rank() -> None:
    """Blocks of 512 KiB at 100 GB/s are 5.24 us, more than 4 us of starting a copy: 50 us + 128 * 5.24 us."""
    assert HARNESS.seconds(128, 2**26) == pytest.approx(50e-6 + 128 * 2**19 / 1e11)
    assert HARNESS.seconds(128, 2**20) == pytest.approx(50e-6 + 128 * 4e-6)  # 8 KiB are 0.08 us


@pytest.mark.parametrize(
    "changed",
    [{"source": "axonn"}, {"library": "nccl"}, {"machine": "lumi-g"}, {"collective": "reduce_scatter"}],
)
def test_a_harness_is_of_one_program_library_machine_and_collective(changed: dict[str, str]) -> None:
    mine = replace(ROW, source="somebody/bench@1 file")
    assert harnesses_of(mine, (HARNESS, HARNESS)) == (HARNESS, HARNESS)
    assert harnesses_of(replace(mine, **changed), (HARNESS,)) == ()  # type: ignore[arg-type]


def test_every_harness_says_where_its_numbers_come_from() -> None:
    for harness in some(shipped_harnesses()):
        assert harness.title and all(number.source and number.unit for number in harness.provenance)
        for number in harness.provenance:
            assert (number.interval is not None) == (number.kind == "fitted")
            assert number.interval is None or number.interval[0] < number.value < number.interval[1]


def test_a_prediction_is_the_collective_alone_and_its_harness() -> None:
    alone_s = EqualGroups(load_machine("frontier"), 128).seconds(load_library("rccl"), "all_gather", 2**26)
    result = predict_call(ROW, (replace(HARNESS, source="axonn-ai"),))
    assert isinstance(result, Prediction)
    assert result.harness_s == HARNESS.seconds(128, 2**26)
    assert result.value == alone_s + result.harness_s
    bare = predict_call(ROW, ())
    assert isinstance(bare, Prediction) and bare.value == alone_s


def test_the_interval_is_90_percent_of_a_normal_in_log_time() -> None:
    residual = load_library("rccl").residual
    assert residual is not None
    for row, sd in (
        (ROW, residual.model_sd),
        (replace(ROW, num_bytes=2**20), residual.small_sd),
        (replace(ROW, collective="all_reduce"), residual.of_kind["all_reduce"]),
    ):
        result = predict_call(row)
        assert isinstance(result, Prediction)
        assert math.log(result.high / result.value) == pytest.approx(1.6449 * sd, rel=1e-4)
        assert math.log(result.value / result.low) == pytest.approx(1.6449 * sd, rel=1e-4)


def test_a_row_is_a_fault_where_one_covers_it_and_its_time_shows_it() -> None:
    made = predict_call(ROW)
    assert isinstance(made, Prediction)
    fault = Pathology(reason="a stall", machine="frontier")
    slow, fast = replace(ROW, seconds=1.01 * made.high), replace(ROW, seconds=0.99 * made.low)
    assert [shown_fault(row, (fault,)) for row in (slow, fast)] == ["a stall", "a stall"]
    assert shown_fault(replace(ROW, seconds=made.value), (fault,)) is None
    assert shown_fault(slow, ()) is None
    assert shown_fault(replace(slow, library="other"), (fault,)) == "a stall"  # no model says that its time is sound


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"machine": "fronteer"}, "no model of machine 'fronteer'; did you mean \"frontier\"?"),
        ({"library": "rcl"}, "no model of library 'rcl'; did you mean \"rccl\"?"),
        (
            {"collective": "broadcast"},
            "no model of 'broadcast'; allowed: all_gather, all_reduce, all_to_all, reduce_scatter",
        ),
        ({"devices": 12}, "frontier: got 12 devices, allowed above one node: multiples of 8"),
        ({"devices": 10**6}, "frontier: got 1000000 devices, allowed: 2 to 75264"),
    ],
)
def test_what_no_model_covers_says_why(changed: dict[str, object], message: str) -> None:
    result = predict_call(replace(ROW, **changed))  # type: ignore[arg-type]
    assert isinstance(result, NotCovered) and str(result) == message
