"""Sound schedules of Mugs with one operand, name or number changed: the check says what is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.program.checks.test_gradients import op_of, sound, with_operands
from tests.core.program.mutations import changed, mutated, says, where


@pytest.mark.parametrize(
    ("name", "reads", "expected"),
    [
        # one of two keys, one of two features
        (
            "group.scores.dquery",
            "d.group.scores teacher/group.key.1 group.queue",
            "teacher/group.key.0, teacher/group.key.1, group.queue, of the factors",
        ),
        ("student/join.backward", "student/d.cls", "the gradient of student/cls, student/mean by"),
        (
            "student/similarity",
            "student/cls student/memory",
            "mean read in this order, as by the other similarity",
        ),
    ],
)
def test_an_op_reads_all_gradients_of_what_it_made(name: str, reads: str, expected: str) -> None:
    says(with_operands("mugs", name, reads), f" {name}", f"expected {expected}")


def test_all_weights_of_an_op_have_gradients_or_none() -> None:
    schedule = sound("mugs")
    (lost, kept) = op_of(schedule, "local/ln2.backward").accumulates
    wrong = mutated(schedule, changed(where("norm", name="local/ln2.backward"), accumulates=(kept,)))
    says(wrong, "norm local/ln2 ", "gradients of ln2.weight, too", "found ln2.bias")
    assert lost.name == "ln2.weight.grad"


def test_streams_take_the_same_values_in_the_same_order() -> None:
    """teacher/pool stands first, so the finding is about the next stream's."""
    wrong = with_operands("mugs", "teacher/pool", writes="teacher/mean teacher/cls")
    says(wrong, "pool global/pool", "mean, cls written in this order, as by the other pool", "found cls, mean")


@pytest.mark.parametrize(("name", "value"), [("global_crops", 3), ("local_crops", 2), ("neighbours", 4), ("causal", 1)])
def test_what_a_schedule_says_of_images_is_what_its_ops_join_and_pick(name: str, value: int) -> None:
    schedule = sound("mugs")
    says(replace(schedule, meta={**schedule.meta, name: value}), f"meta {name}", f"found {value}")
