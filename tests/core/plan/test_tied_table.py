"""A tied embedding table: its gradient is summed on the rank and reduced once per micro-batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from simfrontier.core.plan import Engine, build, make_plan
from simfrontier.core.program import Call, Compute, Op, Schedule, check
from simfrontier.core.workload import gpt
from tests.core.plan.grids import other
from tests.core.program.builders import mesh_of, options_of
from tests.core.program.mutations import mutated, says

TABLE = "embedding.weight"
MICROS = 3


def tied(family: str, bucket: int = 1, **keys: Any) -> Schedule:
    """A plan of a tied model on two nodes of two devices."""
    mesh = mesh_of(2, 1, 2)
    work = gpt(other(tied=True), mesh.num_ranks, "full", precision="bf16")
    plan = make_plan(family, options_of(family, **keys), mesh)
    return build(work, plan, mesh, Engine(persistence_elements=0, reduce_bucket_elements=bucket), MICROS)


def reductions(schedule: Schedule) -> list[int]:
    """The micro-batches whose gradients of the table are moved to its accumulator, once for each move."""
    return [
        call.micro + ref.micro
        for role in schedule.roles
        for call, op in role.instances()
        for ref in op.reads
        if op.name == "gradient" and ref.name.startswith(f"{TABLE}.grad.raw")
    ]


LATTICE = {"weight": (), "accumulator": ("gcd",), "optimizer": ("node", "gcd")}
PLANS: dict[str, dict[str, Any]] = {
    "zero2": {},
    "zero3": {},
    "hsdp": {},
    "zeropp": {},
    "zero-topo": {},
    "lattice": LATTICE,
}


@pytest.mark.parametrize("bucket", [1, 500_000_000])
@pytest.mark.parametrize("family", PLANS)
def test_its_gradient_is_reduced_once_per_micro_batch(family: str, bucket: int) -> None:
    schedule = tied(family, bucket, **PLANS[family])
    assert check(schedule).is_clean
    assert reductions(schedule) == list(range(MICROS))


# ── what the check says ──


def _added_again(_: Call, op: Op) -> list[Op]:
    """The table's gradient of the embedding takes the place of the head's."""
    if isinstance(op, Compute) and op.name == "embedding.wgrad":
        return [replace(op, writes=op.accumulates, accumulates=())]
    return [op]


def _too_early() -> Schedule:
    """The reduction of the table's gradient before the embedding has added to it."""
    schedule = tied("zero2")
    moved = [op for _, op in schedule.roles[0].instances() if _is_reduction(op)]

    def early(call: Call, op: Op) -> list[Op]:
        if _is_reduction(op):
            return []
        return [*dict.fromkeys(moved), op] if isinstance(op, Compute) and op.name == "embedding.wgrad" else [op]

    return mutated(schedule, early)


def _is_reduction(op: Op) -> bool:
    return op.name == "gradient" and any(ref.name.startswith(f"{TABLE}.grad") for ref in (*op.reads, *op.writes))


def test_the_check_names_a_use_that_is_lost() -> None:
    whole = f"the gradient of {TABLE}"
    says(mutated(tied("zero2"), _added_again), "sums", whole, "micro-batch 0 once")
    says(_too_early(), "sums", whole, "micro-batch 0 once")
