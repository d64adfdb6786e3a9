"""Schedules for the tests: any family on any mesh (node, package, gcd), small or the published 20B model."""

from dataclasses import replace
from functools import cache
from typing import Any

from simfrontier.core.plan import FAMILIES, Engine, Options, build, make_plan
from simfrontier.core.program import Mesh, Schedule
from simfrontier.core.workload import MODELS, Checkpointing, gpt

SMALL = Engine(persistence_elements=1000)
ENGINES = {
    "default": SMALL,
    "no overlap": replace(SMALL, overlap=False),
    "tight": replace(
        SMALL,
        reuse_elements=0,
        prefetch_elements=20_000,
        live_elements=60_000,
        reduce_bucket_elements=30_000,
        gather_bucket_elements=20_000,
        step_reduction="end",
    ),
    "by layer": replace(SMALL, persistence_elements=0, granularity="layer", reuse_elements=0),
}


def mesh_of(node: int, package: int, gcd: int) -> Mesh:
    return Mesh((("node", node), ("package", package), ("gcd", gcd)))


def options_of(family: str, **options: Any) -> Options:
    return FAMILIES[family][0](family=family, **options)


def schedule_of(
    options: Options,
    mesh: Mesh,
    engine: Engine = SMALL,
    grad_accum: int = 1,
    checkpointing: Checkpointing = "full",
    model: str = "tiny",
    num_layers: int | None = None,
) -> Schedule:
    shape = MODELS[model]
    if num_layers is not None:
        shape = replace(shape, num_layers=num_layers)
    workload = gpt(shape, mesh.num_ranks, checkpointing)
    return build(workload, make_plan(options.family, options, mesh), mesh, engine, grad_accum)


def zero3(grad_accum: int = 2) -> Schedule:
    """ZeRO-3 on eight devices, two in each of four packages on two nodes, with tight limits."""
    return schedule_of(options_of("zero3"), mesh_of(2, 2, 2), ENGINES["tight"], grad_accum)


def zeropp(version: str = "0.13.2") -> Schedule:
    """ZeRO++ of a DeepSpeed version, where `zero3` runs; two micro-batches."""
    return schedule_of(options_of("zeropp", hpz_version=version), mesh_of(2, 2, 2), ENGINES["tight"], 2)


def topo() -> Schedule:
    """ZeRO-topo, where `zero3` runs; two micro-batches."""
    return schedule_of(options_of("zero-topo"), mesh_of(2, 2, 2), ENGINES["tight"], 2)


@cache
def frontier_20b(family: str, num_layers: int = 44, grad_accum: int = 1) -> Schedule:
    """The 20B model on 48 nodes of Frontier, with the engine's published sizes."""
    mesh = mesh_of(48, 4, 2)
    return schedule_of(options_of(family), mesh, Engine(), grad_accum, model="gpt-neox-20b", num_layers=num_layers)
