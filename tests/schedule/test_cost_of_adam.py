"""What an optimizer step reads and writes in device memory, pass by pass, as DeepSpeed 0.16.5 does it."""

from __future__ import annotations

import pytest

from simfrontier.schedule import Compute, Schedule
from simfrontier.schedule.cost import traffic_bytes
from tests.plan.grids import axonn, megatron, schedule_of
from tests.plan.test_precision import built

SCALARS = 2 * 4  # overflow and norm, in the wide type
# flatten, cast, unscale, Adam, new weights, of g bytes per number of the model and w of the master
SIXTEEN_BITS = (2 + 2) + (2 + 4) + (4 + 4) + (4 * 4 + 3 * 4) + (4 + 2)
SAME_TYPE = {4: (4 + 4) + (4 + 4) + (4 * 4 + 3 * 4) + (4 + 4), 8: (8 + 8) + (8 + 8) + (4 * 8 + 3 * 8) + (8 + 8)}


def per_parameter(schedule: Schedule) -> set[float]:
    """Bytes that each op of the optimizer moves for an element that it steps."""
    out = set()
    for op in {op.number: op for _, op in schedule.roles[0].instances() if op.kind == "adam"}.values():
        assert isinstance(op, Compute)
        masters = [schedule.tensors[ref.name] for ref in op.reads if schedule.tensors[ref.name].role == "master"]
        elements = sum(master.local_elements(schedule.mesh) for master in masters)
        scalars = SCALARS * (2 if masters[0].dtype == "fp64" else 1)
        out.add((traffic_bytes(op, schedule.tensors, schedule.mesh) - scalars) / elements)
    return out


@pytest.mark.parametrize("family", ["ddp", "zero1", "zero2", "zero3", "hsdp", "zeropp", "zero-topo"])
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_every_plan_moves_52_bytes_a_parameter_of_a_16_bit_model(family: str, precision: str) -> None:
    assert SIXTEEN_BITS == 52
    assert per_parameter(built(family, precision)) == {SIXTEEN_BITS}


@pytest.mark.parametrize(("precision", "size"), [("fp32", 4), ("fp64", 8)])
def test_nothing_is_cast_where_the_master_has_the_model_s_type(precision: str, size: int) -> None:
    assert per_parameter(built("zero1", precision)) == {SAME_TYPE[size]}


def test_on_grids_too() -> None:
    for options in (megatron(2, 2, data="zero1"), axonn(2, 1, 2)):
        assert per_parameter(schedule_of(options, 8, micros=2)) == {SIXTEEN_BITS}
