"""Checkpoints hold every element of every state once, written by the first rank that holds it."""

from __future__ import annotations

import math
from collections import defaultdict

import pytest

from simfrontier.core.program import Mesh, Ref, SavedState, Schedule, axis_of_roles, expand, saved_bytes, saved_states
from tests.real.grids import megatron
from tests.real.schedules import EXACT, QUANTISED, STALE, schedule

PLANS = {**{name: EXACT[name] for name in ("ddp", "zero1", "zero3", "hsdp")}, **QUANTISED, "stale": STALE}
LASTING = ("weight", "master", "optimizer", "state", "constant")


def _coordinates(mesh: Mesh, rank: int) -> dict[str, int]:
    out = {}
    for name, size in reversed(mesh.axes):
        rank, out[name] = divmod(rank, size)
    return out


def _place(schedule: Schedule, state: SavedState, at: dict[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple((axis, at[axis]) for axis in state.axes)


def _writers(schedule: Schedule, state: SavedState) -> dict[tuple[tuple[str, int], ...], list[int]]:
    """By part of a state, the ranks that write it."""
    axis, out = axis_of_roles(schedule), defaultdict(list)
    held_at = {role.at[1] for number, role in enumerate(schedule.roles) if role.at and number in state.roles}
    for rank in range(schedule.mesh.num_ranks):
        at = _coordinates(schedule.mesh, rank)
        if axis is not None and at[axis] not in held_at:
            continue
        parts = out[_place(schedule, state, at)]
        axis_at = schedule.roles[state.roles[0]].at
        first = {name: axis_at[1] if name == axis and axis_at is not None else 0 for name in at}
        if all(name in state.axes or at[name] == first[name] for name in schedule.mesh.live(schedule.mesh.names)):
            parts.append(rank)
    return dict(out)


def _touched(schedule: Schedule) -> set[Ref]:
    """What is in every checkpoint, from the expanded programs."""
    every = set()
    for role in schedule.roles:
        program = expand(schedule, role)
        for refs in zip(program.reads, program.writes, program.accumulates, strict=True):
            every |= {ref for each in refs for ref in each if schedule.tensors[ref.name].role in LASTING}
    return every


def _checked(example: Schedule) -> None:
    states = saved_states(example)
    assert {Ref(s.tensor.name, s.layer) for s in states if s.tensor.role != "copy"} == _touched(example)
    per_rank: dict[int, int] = defaultdict(int)
    for state in states:
        parts = _writers(example, state)
        assert all(len(ranks) == 1 for ranks in parts.values()), (state, parts)
        assert len(parts) == state.num_writers == example.mesh.size(state.axes)
        held = state.num_writers * state.tensor.local_elements(example.mesh)
        blocks = math.prod(example.mesh[axis] for axis, _ in state.tensor.placement.shards)
        assert held - blocks * state.tensor.padding(example.mesh) == state.tensor.num_elements
        for (rank,) in parts.values():
            per_rank[rank] += state.local_bytes
    of_all = saved_bytes(example)
    assert of_all.total == sum(per_rank.values()) == sum(state.num_bytes for state in states)
    assert of_all.largest == max(per_rank.values())
    assert of_all.num_writers == len(per_rank)


@pytest.mark.parametrize("name", PLANS)
def test_every_element_is_written_once_by_the_first_rank_that_holds_it(name: str) -> None:
    _checked(schedule(PLANS[name], (2, 2, 2), grad_accum=2))


@pytest.mark.parametrize("pipeline", [1, 4])
def test_a_pipeline_and_a_tensor_grid_write_every_element_once(pipeline: int) -> None:
    for shape in ("tied", "sequential"):
        _checked(megatron(2, pipeline, 2, shape=shape).schedule)


def test_bytes_of_a_model_by_hand() -> None:
    """The test GPT in bf16 with Adam has 2 bytes of a weight, 4 of its master and 8 of its moments an element: 14.
    Sharded over 8 ranks, they write as much together as one of ddp does; of zero1 rank 0 writes the whole weights."""
    ddp = schedule(EXACT["ddp"], (2, 2, 2), precision="bf16")
    elements = sum(state.tensor.num_elements for state in saved_states(ddp) if state.tensor.role == "weight")
    assert saved_bytes(ddp).total == saved_bytes(ddp).largest == 14 * elements
    assert saved_bytes(ddp).num_writers == 1
    zero1 = saved_bytes(schedule(EXACT["zero1"], (2, 2, 2), precision="bf16"))
    assert (zero1.total, zero1.num_writers) == (14 * elements, 8)  # every size of this model divides by 8
    assert zero1.largest == 2 * elements + 12 * elements // 8
