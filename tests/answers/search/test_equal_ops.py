"""Ops of equal number take equally long, and tensors of equal number are equally large, in every schedule and batch."""

from __future__ import annotations

from collections import defaultdict

import pytest

from simfrontier.answers.search.equal_ops import EqualOps
from simfrontier.answers.search.pins import LossyPolicy, pins_of
from simfrontier.answers.search.space import Space
from simfrontier.answers.study import schedule_of_case
from simfrontier.core.cost import Prices
from simfrontier.core.plan import rebound
from tests.answers.search.small import scenario


@pytest.mark.parametrize(
    "pins",
    (
        {"family": "zero", "states": "zero3", "route": "two_level", "checkpointing": "full"},
        {"family": "megatron", "tensor": 4, "pipeline": 1, "sequence_parallel": True, "states": "zero1"},
        {"family": "axonn", "x": 2, "y": 2, "checkpointing": "none"},
    ),
)
def test_ops_of_equal_number_take_equally_long(pins: dict[str, str | int]) -> None:
    schedules = []
    for layers in (2, 3):
        made = scenario(16, 64, machine="frontier", layers=layers, hidden=512)
        case = next(iter(Space(made, 16, 64, pins_of(pins), LossyPolicy()).candidates())).case
        schedules.append(schedule_of_case(made, case))
    equal = EqualOps.of(schedules)
    prices = Prices(made.machine, made.library, 16)
    for times in (1, 4):
        seconds, sizes = defaultdict(set), defaultdict(set)
        for number, given in enumerate(schedules):
            schedule = rebound(given, given.mesh, times * int(given.meta["batch"]))
            for kernel, op in zip(equal.ops[number], schedule.ops, strict=True):
                seconds[kernel].add(prices.seconds(op, schedule))
            for kind, tensor in zip(equal.tensors[number], schedule.tensors.values(), strict=True):
                sizes[kind].add(tensor.held_bytes(schedule.mesh))
        assert all(len(each) == 1 for each in (*seconds.values(), *sizes.values()))
        assert len(seconds) < len(schedules[1].ops)
