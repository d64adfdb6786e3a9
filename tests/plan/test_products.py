"""The two products of a linear module's backward under sequence parallelism: the input's gather begins with the first,
and the reduction of the input's gradient runs beside the second (tests/golden/products; `make golden` rewrites it)."""

from __future__ import annotations

import pytest

from simfrontier.plan import Engine
from simfrontier.schedule import Collective, Op, Schedule, check
from simfrontier.workload import GptShape
from tests.conftest import Golden
from tests.plan.grids import megatron, other, schedule_of
from tests.simulation.steps import step

MODULES = ("qkv", "h_to_4h", "head")  # those whose input is cut along the sequence, and gathered for them
TENSOR_RANKS = 2
LARGE = GptShape(  # so large that each collective is shorter than the product beside it
    name="large",
    num_layers=2,
    hidden=8192,
    heads=64,
    vocabulary=50432,
    sequence=2048,
    source="for this test",
)


def cut(residual: str = "sequential", shape: GptShape | None = None, overlap: bool = True) -> Schedule:
    """A model on two ranks that cut it, and the sequence."""
    return schedule_of(
        megatron(TENSOR_RANKS, sequence_parallel=True),
        TENSOR_RANKS,
        shape=other(num_layers=3, residual=residual) if shape is None else shape,
        engine=Engine(persistence_elements=0, overlap=overlap),
    )


def text_of(schedule: Schedule) -> str:
    """The backward of a layer: products, communication and waits of lanes, each on its lane."""
    call = next(call for call in schedule.roles[0].calls if (call.label, call.layer) == ("backward", 1))
    return "\n".join(
        f"{op.lane:8}{line_of(op)}"
        for op in call.ops
        if isinstance(op, Collective) or op.kind == "hook" or op.name.endswith((".dgrad", ".wgrad"))
    )


def line_of(op: Op) -> str:
    names = ", ".join(ref.name for ref in (op.dst if isinstance(op, Collective) else op.reads))
    return f"wait for {names}" if op.kind == "hook" else f"{op.kind} {op.name}: {names}"


def test_a_layer_s_backward_as_text_with_and_without_overlap(golden: Golden) -> None:
    golden(
        "products/sequence_parallel.txt",
        f"one after the other\n\n{text_of(cut(overlap=False))}\n\noverlapped\n\n{text_of(cut())}\n",
    )


@pytest.mark.parametrize("residual", ["sequential", "parallel"])
def test_an_input_s_gather_is_issued_before_both_products_and_before_the_reduction(residual: str) -> None:
    schedule = cut(residual)
    assert check(schedule).is_clean
    ops = [op for _, op in schedule.roles[0].instances()]
    result = 0
    for index, op in enumerate(ops):
        if op.name.endswith(".dgrad") and op.name.removesuffix(".dgrad") in MODULES:
            gather, reduction, second = ops[index - 1], ops[index + 1], ops[index + 2]
            assert (gather.kind, reduction.kind) == ("all_gather", "reduce_scatter")
            assert second.name == op.name.replace(".dgrad", ".wgrad")
            assert gather.writes[0] in second.reads and gather.lane == reduction.lane == "tensor"
            result += 1
    assert result == 3 * 2 + 1


def test_the_gather_starts_with_the_first_product_and_the_reduction_with_the_second() -> None:
    """In simulated time, each ends before the product beside it, and nothing waits for it."""
    done = step(cut(shape=LARGE))
    program, timeline = done.program, done.timeline
    result = 0
    for index, op in enumerate(program.ops):
        if op.name.endswith(".dgrad") and op.name.removesuffix(".dgrad") in MODULES:
            gather, reduction, second = index - 1, index + 1, index + 2
            for moved, product in ((gather, index), (reduction, second)):
                assert timeline.start[0][moved] == pytest.approx(timeline.start[0][product], abs=1e-9)
                assert timeline.end[0][moved] < timeline.end[0][product]
            assert timeline.start[0][second] == pytest.approx(timeline.end[0][index], abs=1e-4)
            result += 1
    assert result == 2 * 2 + 1


def test_without_overlap_the_gather_stays_where_it_is_needed() -> None:
    ops = [op for _, op in cut(overlap=False).roles[0].instances()]
    assert all(op.lane == "compute" for op in ops)
    gathers = [index for index, op in enumerate(ops) if op.name == "input_gather"]
    assert len(gathers) == 3 * 2 + 1
    assert all(ops[index + 1].name.endswith(".wgrad") for index in gathers)
