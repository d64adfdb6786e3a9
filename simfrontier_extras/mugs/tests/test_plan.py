"""The collectives of a Mugs step, in the order and with the bytes of the original; and what the check finds wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from simfrontier.core.collectives.volume import messages_of, sent_share
from simfrontier.core.plan.plan import Engine
from simfrontier.core.plan.to_schedule import build
from simfrontier.core.plan.zero import ZERO, DdpOptions
from simfrontier.core.program import Call, Collective, Compute, Mesh, Op, Ref, Schedule
from simfrontier.core.workload import find_model
from simfrontier_extras.mugs.model import mugs
from simfrontier_extras.mugs.models import MugsShape
from tests.core.program.mutations import Edit, changed, dropped, mutated, says, where

DDP_BUCKET = 25 * 2**20 // 4  # elements: 25 MiB of FP32 (torch DistributedDataParallel)
KEYS = tuple(Ref(f"teacher/instance.key.{view}.gathered.forward") for view in (0, 1))
RUNS = [("s", 8, 64), ("s", 16, 64), ("b", 24, 42), ("l", 40, 16)]


def ddp(mesh: Mesh, batch: int, model: str, overlapped: bool = False, bucket: int = DDP_BUCKET) -> Schedule:
    options = DdpOptions(family="ddp", overlap_statistics=overlapped)
    shape = find_model(model)
    assert isinstance(shape, MugsShape)
    plan = ZERO["ddp"][1]("ddp", options, mesh, mesh.names)
    return build(mugs(shape, batch), plan, mesh, Engine(reduce_bucket_elements=bucket))


@cache
def run_of(size: str, ranks: int, per_rank: int, overlapped: bool = False) -> Schedule:
    return ddp(Mesh((("data", ranks),)), ranks * per_rank, f"mugs-vit-{size}", overlapped)


@cache
def tiny(overlapped: bool = False) -> Schedule:
    mesh = Mesh((("node", 2), ("package", 1), ("gcd", 2)))
    return ddp(mesh, 8, "tiny-mugs", overlapped, bucket=4000)


def calls_of(schedule: Schedule) -> list[Collective]:
    """Every collective of a step, in program order."""
    return [op for _, op in schedule.roles[0].instances() if isinstance(op, Collective)]


def before_backward(schedule: Schedule) -> list[Collective]:
    return [op for op in calls_of(schedule) if op.name == "statistic"]


# ── order, kinds, sizes ──


@pytest.mark.parametrize(("size", "ranks", "per_rank"), RUNS)
def test_collectives_in_order(size: str, ranks: int, per_rank: int) -> None:
    """sail-sg/mugs main.py, src/loss.py, src/model.py: keys of both losses (256 numbers of each of B images, two
    views), the centre (65536), the student's rows and flags, the teacher's rows; then gradients."""
    schedule = run_of(size, ranks, per_rank)
    width = {"s": 384, "b": 768, "l": 1024}[size]
    keys, rows = per_rank * 256 * 4, per_rank * width * 4
    results = [
        (op.kind, schedule.tensors[op.src[0].name].local_bytes(schedule.mesh), len(op.src))
        for op in before_backward(schedule)
    ]
    assert results == [
        *[("all_gather", keys, 1)] * 4,
        ("all_reduce", 65536 * 4, 1),
        ("all_gather", rows, 1),
        ("all_gather", per_rank, 1),
        ("all_gather", rows, 1),
    ]
    every = calls_of(schedule)
    assert every[: len(results)] == before_backward(schedule), "all of them before the first gradient"
    assert {op.name for op in every[len(results) :]} == {"step_reduction"}
    assert all(op.kind == "all_reduce" for op in every[len(results) :])


@pytest.mark.parametrize(
    ("run", "sent_kib", "gathered_mib", "wire_mb"),
    [(RUNS[0], 448, 3.5, 427), (RUNS[1], 448, 7.0, 457), (RUNS[2], 420, 9.8, 1018), (RUNS[3], 192, 7.5, 2787)],
)
def test_bytes_per_step(run: tuple[str, int, int], sent_kib: int, gathered_mib: float, wire_mb: int) -> None:
    """All-gathers per rank: 4 × B·256·4 + 2 × B·d·4 (+ B flags); the gradient by ring, 2(W-1)/W of it. For S on 8:
    4 × 65536 + 2 × 98304 = 458752 = 448 KiB, and 8 times that 3.5 MiB."""
    schedule = run_of(*run)
    gathers = [op for op in before_backward(schedule) if op.kind == "all_gather"]
    sent = sum(schedule.tensors[op.src[0].name].local_bytes(schedule.mesh) for op in gathers)
    assert sent - run[2] == sent_kib * 1024
    whole = sum(m.num_bytes for op in gathers for m in messages_of(op, schedule.tensors, schedule.mesh))
    assert whole == run[1] * sent
    assert round(whole / 2**20, 1) == gathered_mib
    reductions = [op for op in calls_of(schedule) if op.name == "step_reduction"]
    gradient = sum(m.num_bytes for op in reductions for m in messages_of(op, schedule.tensors, schedule.mesh))
    assert gradient == 4 * find_model(f"mugs-vit-{run[0]}").num_parameters
    assert round(gradient * sent_share(reductions[0], "ring", schedule.mesh) / 10**6) == wire_mb


def test_blocking_or_beside_the_rest() -> None:
    """In the original every gather stands on the rank's one lane; overlapped, they and what takes them in have one of
    their own."""
    for overlapped, lane in ((False, "compute"), (True, "statistic")):
        schedule = tiny(overlapped)
        assert {op.lane for op in before_backward(schedule)} == {lane}
        takers = {op.lane for op in schedule.ops if op.kind in ("enqueue", "centre")}
        assert takers == {lane}
        assert {op.lane for op in schedule.ops if op.kind == "contrast"} == {"compute"}
    kinds = [[(op.kind, op.src) for op in before_backward(tiny(flag))] for flag in (False, True)]
    assert kinds[0] == kinds[1]


# ── mutants ──


def moved(matches: Callable[[Call, Op], bool], before: str) -> Schedule:
    """The schedule with an op of the head put before another."""
    schedule = tiny()
    (role,) = schedule.roles
    calls = []
    for call in role.calls:
        ops = list(call.ops)
        results = [op for op in ops if matches(call, op)]
        if results:
            ops.remove(results[0])
            ops.insert(next(n for n, op in enumerate(ops) if op.name == before), results[0])
        calls.append(replace(call, ops=tuple(ops)))
    return replace(schedule, roles=(replace(role, calls=tuple(calls)),))


def test_a_queue_that_is_fed_with_a_rank_s_own_keys() -> None:
    """The gather is left out and the keys are read where they were made."""
    schedule = mutated(tiny(), dropped(where("all_gather", touches="teacher/instance.key.1")))
    says(schedule, "teacher/instance.key.1", "written by an op before")

    def own(call: object, op: object) -> list[object]:
        if isinstance(op, Compute) and op.name == "instance.enqueue":
            return [replace(op, reads=tuple(Ref(ref.name.split(".gathered")[0]) for ref in op.reads))]
        return [op]

    says(mutated(tiny(), own), "enqueue instance.enqueue", "teacher/instance.key.0 as [replicate]")  # type: ignore[arg-type]


def test_a_teacher_that_follows_before_adam() -> None:
    """The moving average of a layer's weights moved before the layer's adam."""
    schedule = tiny()
    (role,) = schedule.roles
    calls = list(role.calls)
    at = next(n for n, call in enumerate(calls) if call.label == "follow.layer" and call.layer == 1)
    before = next(n for n, call in enumerate(calls) if call.label == "step.layer" and call.layer == 1)
    calls.insert(before, calls.pop(at))
    early = replace(schedule, roles=(replace(role, calls=tuple(calls)),))
    says(early, "ema", "after its adam (version 1)", "version 0")


def test_a_queue_that_moves_too_early_twice_or_never() -> None:
    matches = where("enqueue", "instance.enqueue")
    for before in ("instance.scores", "instance.scores.dquery"):
        says(moved(matches, before), f"pairs {before}", "instance.queue as it was before", "enqueue instance.enqueue")
    says(mutated(tiny(), dropped(matches)), "end of micro-batch 0: instance.queue", "not written")
    twice: Edit = lambda call, op: [op, replace(op, reads=KEYS)] if matches(call, op) else [op]  # type: ignore[type-var]  # noqa: E731
    says(mutated(tiny(), twice), "instance.enqueue", "instance.queue written once")
    other = changed(matches, reads=(*KEYS, Ref("group.queue")), writes=(Ref("group.queue"),))
    says(mutated(tiny(), other), "enqueue group.enqueue", "group.queue as it was before")
    says(mutated(tiny(), other), "end of micro-batch 0: instance.queue", "not written")
