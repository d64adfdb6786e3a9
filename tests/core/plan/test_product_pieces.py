"""Products split into pieces to overlap with communication: order, waits, bytes, time and findings."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from simfrontier.answers.step.volumes import step_needs
from simfrontier.answers.study import BuiltSchedule, schedule_of_case, simulated
from simfrontier.core.plan.tensor import MegatronOptions
from simfrontier.core.program import (
    Collective,
    Compute,
    Op,
    Schedule,
    check,
    digest,
    expand,
    from_json,
    peak_bytes,
    to_json,
    traffic_bytes,
)
from simfrontier.core.workload import Checkpointing
from tests.core.plan.grids import megatron, schedule_of
from tests.core.plan.test_optimizer_keys import scenario

TENSOR = 4


def options(pieces: int = 1, **keys: Any) -> MegatronOptions:
    return megatron(TENSOR, sequence_parallel=True, product_pieces=pieces, **keys)


def built(pieces: int = 1, micros: int = 1, **keys: Any) -> Schedule:
    return schedule_of(options(pieces, **keys), 8, micros=micros)


def words(op: Op) -> str:
    number = "" if op.piece is None else f" {op.piece.number}"
    return f"{op.name if isinstance(op, Compute) else op.kind}{number}"


@pytest.mark.parametrize("pieces", [3])
@pytest.mark.parametrize("keys", [{"data": "zero3"}, {"pipeline": 2}], ids=str)
def test_schedules_in_pieces_are_clean_and_read_as_they_were_written(pieces: int, keys: dict[str, Any]) -> None:
    made = built(pieces, micros=2, **keys)
    assert str(check(made)) == "no findings"
    assert digest(from_json(to_json(made), "a file")) == digest(made)


def test_a_piece_waits_for_its_piece_alone() -> None:
    program = expand(made := built(3), made.roles[0])
    forward = [i for i, call in enumerate(program.calls) if call.label == "forward" and call.layer == 0]
    at = {(words(program.ops[i]), program.ops[i].reads[0].name): i for i in forward}
    tensor = program.lanes.index("tensor")
    gathers = [at[f"all_gather {n}", "ln1.out"] for n in range(3)]
    products = [at[f"qkv {n}", "ln1.out.gathered.forward"] for n in range(3)]
    scatters = [at[f"reduce_scatter {n}", "attention.out.partial"] for n in range(3)]
    made_by = [at[f"dense {n}", "context"] for n in range(3)]
    for product, gather in zip(products[1:], gathers[1:], strict=True):
        assert program.waits[product] == ((tensor, program.position[gather] + 1),)
    for scatter, product in zip(scatters, made_by, strict=True):
        assert program.waits[scatter] == ((program.lane[product], program.position[product] + 1),)
    after = at["attention.residual", "x"]
    assert program.waits[after] == ((tensor, program.position[scatters[-1]] + 1),)
    whole = at["scores", "qkv.out"]  # reads all pieces, of its own lane
    assert program.waits[whole] == ()


def test_pieces_together_move_and_compute_what_the_whole_does() -> None:
    whole, cut = built(1), built(4 if 24 // TENSOR % 4 == 0 else 3)
    assert step_needs(whole).num_bytes == step_needs(cut).num_bytes

    def flops(schedule: Schedule) -> Counter[str]:
        return Counter(
            {name: sum(op.local_flops(schedule.mesh) for op in ops) for name, ops in _by_name(schedule).items()}
        )

    assert flops(whole) == flops(cut)
    assert peak_bytes(whole).num_bytes == peak_bytes(cut).num_bytes


def _by_name(schedule: Schedule) -> dict[str, list[Compute]]:
    out: dict[str, list[Compute]] = {}
    for _, op in schedule.roles[0].instances():
        if isinstance(op, Compute):
            out.setdefault(op.name, []).append(op)
    return out


def test_memory_traffic_of_a_piece_by_hand() -> None:
    """h_to_4h on 1 of 4 ranks, 24 positions, 48 features, 2 bytes: [24, 48] in, [24, 48] out (192 / 4), the weight
    [48, 48] and its bias [48]. Of three pieces each has 8 rows, and all of the weight."""
    by_pieces = {pieces: _by_name(built(pieces))["h_to_4h"] for pieces in (1, 3)}
    rows, weight = 24 * 48 * 2, (48 * 48 + 48) * 2
    mesh = built(1).mesh
    assert traffic_bytes(by_pieces[1][0], built(1).tensors, mesh) == 2 * rows + weight
    assert [traffic_bytes(op, built(3).tensors, mesh) for op in by_pieces[3][:3]] == [2 * rows // 3 + weight] * 3


def test_time_of_a_layer_by_hand() -> None:
    """Without pieces a gather and its product follow each other: c + p. In k pieces, of c' and p' each, the product
    ends k p' after the first piece is there, or p' after the last: c' + k p' where products are longer, k c' + p' where
    gathers are."""
    variants = {
        k: scenario(**{"plans.tensor.sequence_parallel": True, "plans.tensor.product_pieces": k}) for k in (1, 2, 4)
    }
    for k, here in variants.items():
        schedule = schedule_of_case(here, here.case("tensor", 16))
        step = simulated(here, BuiltSchedule(schedule=schedule), "analytic")
        view = step.view(step.critical)
        program, start, end = view.program, view.timeline.start, view.timeline.end
        row = view.classes.index(step.critical)
        of = [i for i, c in enumerate(program.calls) if (c.label, c.layer, c.micro) == ("forward", 1, 0)]
        gathers = [i for i in of if program.ops[i].kind == "all_gather" and program.ops[i].reads[0].name == "ln1.out"]
        products = [i for i in of if program.ops[i].name == "qkv"]
        assert len(gathers) == len(products) == k
        took = [end[row, i] - start[row, i] for i in (*gathers, *products)]
        c, p = took[0], took[-1]
        expected = c + max(k * p, (k - 1) * c + p) if k > 1 else c + p
        assert end[row, products[-1]] - start[row, gathers[0]] == pytest.approx(expected, rel=1e-9)


# ── what a forward gathered, kept for the backward ──


@pytest.mark.parametrize("pipeline", [1, 2])
@pytest.mark.parametrize("checkpointing", ["full", "selective", "none"])
def test_inputs_that_are_kept_are_not_gathered_again(checkpointing: Checkpointing, pipeline: int) -> None:
    """Two inputs of a layer, of qkv and of h_to_4h, and that of the head. What is done again is gathered anew anyway,
    for its products."""

    def made(again: bool) -> Schedule:
        plan = megatron(TENSOR, pipeline, sequence_parallel=True, gather_inputs_again=again)
        return schedule_of(plan, 8, micros=2, checkpointing=checkpointing)

    kept, again = made(False), made(True)
    assert str(check(kept)) == "no findings"
    assert _gathers(kept, "input_gather") == 0
    assert _gathers(again, "input_gather") == 2 * (2 * 2 + 1)  # micro-batches × (layers × two, and the head)
    assert _gathers(kept, "activation") == _gathers(again, "activation")
    if checkpointing == "none":  # they are held from the forward on
        assert peak_bytes(kept).num_bytes > peak_bytes(again).num_bytes


def _gathers(schedule: Schedule, name: str) -> int:
    every = (op for role in schedule.roles for _, op in role.instances())
    return sum(isinstance(op, Collective) and op.kind == "all_gather" and op.name == name for op in every)
