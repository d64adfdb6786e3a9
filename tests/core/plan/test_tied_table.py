"""A tied embedding table: its gradient is summed on the rank and reduced once per micro-batch."""

from __future__ import annotations

from typing import Any

import pytest

from simfrontier.core.plan import Engine, build, make_plan
from simfrontier.core.program import Schedule, check
from simfrontier.core.workload import gpt
from tests.core.plan.grids import other
from tests.core.program.builders import mesh_of, options_of

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
