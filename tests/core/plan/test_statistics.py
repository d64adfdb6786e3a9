"""What a model keeps of all samples for later steps: a GPT with a running mean of its last features."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from simfrontier.answers.step import gathers
from simfrontier.core.collectives import load_library
from simfrontier.core.engine import simulate_step
from simfrontier.core.machine import load_machine
from simfrontier.core.plan import Engine, build, make_plan
from simfrontier.core.program import Collective, OpName, Schedule, check, digest, from_json, to_json
from simfrontier.core.workload import Phase, State, Value, Workload, WorkOp, find_model, gpt, uses
from tests.core.program.builders import mesh_of, options_of
from tests.core.program.mutations import dropped, mutated, says, where

BATCH, SEQUENCE, HIDDEN = 8, 32, 64  # of `tiny`


def workload() -> Workload:
    work = gpt(find_model("tiny"), BATCH, "none", precision="fp32")  # type: ignore[arg-type]
    total = WorkOp(
        named=OpName("mean.sum"),
        kind="cast",
        iteration=(("b", BATCH), ("s", SEQUENCE), ("h", HIDDEN)),
        reads=uses("final_norm.out"),
        writes=uses("mean.sum"),
    )
    kept = WorkOp(
        named=OpName("mean.kept"),
        kind="cast",
        iteration=(("h", HIDDEN),),
        reads=uses("mean.sum"),
        states=("mean",),
        written_states=("mean",),
    )
    head = Phase(forward=(*work.head.forward, total, kept), backward=work.head.backward)
    value = Value(local="mean.sum", dims=("h",), shape=(HIDDEN,), dtype="fp32", per_layer=False)
    states = {"mean": State(module="mean", dims=("h",), shape=(HIDDEN,))}
    return replace(work, head=head, values={**work.values, "mean.sum": value}, states=states)


@cache
def made(overlapped: bool = False) -> Schedule:
    mesh, options = mesh_of(2, 1, 2), options_of("ddp", **({"overlap_statistics": True} if overlapped else {}))
    return build(workload(), make_plan("ddp", options, mesh), mesh, Engine())


def statistics(schedule: Schedule) -> list[Collective]:
    return [op for op in schedule.ops if isinstance(op, Collective) and op.name == "statistic"]


@pytest.mark.parametrize("overlapped", [False, True])
def test_a_sum_over_samples_is_one_all_reduce(overlapped: bool) -> None:
    schedule = made(overlapped)
    assert check(schedule).is_clean
    (call,) = statistics(schedule)
    assert call.kind == "all_reduce" and set(call.axes) == {"node", "gcd"}
    assert schedule.tensors[call.src[0].name].num_elements == HIDDEN
    assert (call.lane == "statistic") is overlapped
    again = from_json(to_json(schedule), "file")
    assert digest(again) == digest(schedule)


def test_a_rank_waits_for_it_unless_it_runs_beside() -> None:
    """64 numbers of 4 bytes on 4 ranks: 256 bytes brought, 2 · 3/4 of them sent."""
    machine, library = load_machine("toy-cluster"), load_library("transfers")
    found = {
        overlapped: gathers(simulate_step(made(overlapped), machine, library, "analytic"))
        for overlapped in (False, True)
    }
    for one in found.values():
        assert one is not None
        assert [(call.value, call.rank_bytes, call.sent_bytes) for call in one.calls] == [("mean.sum", 256, 384)]
    blocking, beside = found[False], found[True]
    assert blocking is not None and beside is not None
    assert blocking.held_s == blocking.calls[0].seconds > 0 and beside.held_s == 0


def test_a_sum_that_is_not_reduced_is_a_finding() -> None:
    says(mutated(made(), dropped(where("all_reduce", name="statistic"))), "mean.kept", "mean.sum")
