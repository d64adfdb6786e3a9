"""The ops of moves: what encodes and decodes is called after its move, and what only takes a part is no decoding."""

from __future__ import annotations

from collections import Counter

import pytest

from simfrontier.schedule import Collective, Compute
from tests.schedule.builders import ENGINES, mesh_of, options_of, schedule_of
from tests.some import some

CODING = ("encode", "decode", "decode_sum")


@pytest.mark.parametrize("family", ["zeropp", "zero-topo"])
def test_coding_has_the_name_of_the_collective_that_it_serves(family: str) -> None:
    made = schedule_of(options_of(family), mesh_of(2, 2, 2), ENGINES["tight"])
    calls = [op for op in made.distinct_ops() if isinstance(op, Collective)]
    sent = {ref.name: op.name for op in calls for ref in op.src}
    got = {ref.name: op.name for op in calls for ref in op.dst}
    coding = some(op for op in made.distinct_ops() if isinstance(op, Compute) and op.kind in CODING)
    for op in coding:
        served = {sent.get(ref.name) for ref in op.writes} if op.kind == "encode" else {got[op.reads[0].name]}
        assert served <= {op.name, None}, op  # nobody sends what is kept encoded
    assert {op.kind for op in coding} == {*CODING}


def test_parts_are_taken_without_a_codec() -> None:
    """ZeRO-1 keeps all gradients and steps on a part of them, ZeRO-2 adds up parts of each micro-batch's: five tensors
    of `tiny`'s blocks each. Nothing there is coded."""
    for family, wanted in (
        ("zero1", {("slice", "step_reduction"): 5}),
        ("zero2", {("slice", "gradient"): 5, ("accumulate", "gradient"): 5}),
    ):
        made = schedule_of(options_of(family), mesh_of(2, 2, 2), ENGINES["tight"])
        kinds = {*CODING, "slice", "accumulate"}
        assert Counter((op.kind, op.name) for op in made.distinct_ops() if op.kind in kinds) == wanted
