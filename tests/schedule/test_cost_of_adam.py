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


def per_parameter(schedule: Schedule, kind: str = "adam", others: int = SCALARS) -> set[float]:
    """Bytes that each op of the optimizer moves for an element that it steps; `others`: those of its scalars."""
    out = set()
    for op in {op.number: op for _, op in schedule.roles[0].instances() if op.kind == kind}.values():
        assert isinstance(op, Compute)
        masters = [schedule.tensors[ref.name] for ref in op.reads if schedule.tensors[ref.name].role == "master"]
        elements = sum(master.local_elements(schedule.mesh) for master in masters)
        norms = 2 * 4 * sum(schedule.tensors[ref.name].role == "norms" for ref in (*op.reads, *op.writes))
        scalars = others * (2 if masters[0].dtype == "fp64" else 1) + norms
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


@pytest.mark.parametrize("family", ["ddp", "zero2", "zero3"])
def test_lamb_moves_64_bytes_a_parameter(family: str) -> None:
    """Before its scale: flatten 4, cast 6, unscale 8; gradient, master and two moments read, update and moments
    written, 7 × 4. After it: update and master read, master written, 3 × 4; new weights 4 + 2."""
    made = built(family, "bf16", optimizer="lamb")
    assert per_parameter(made, "lamb_update") == {4 + 6 + 8 + 7 * 4}
    assert per_parameter(made, "lamb", others=0) == {3 * 4 + 4 + 2}


def test_narrow_states_move_fewer_bytes() -> None:
    """Moments of 2 bytes are read and written: 8 less. A master of 2 as well: flatten 4, nothing cast, unscale 4,
    gradient, master and moments read 8, master and moments written 6, new weights 4."""
    assert per_parameter(built("zero1", "bf16", moments="bf16")) == {SIXTEEN_BITS - 8}
    assert per_parameter(built("zero1", "bf16", moments="bf16", master="bf16")) == {4 + 4 + 8 + 6 + 4}
