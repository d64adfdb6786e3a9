"""Schedules and steps that the simulation tests share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simfrontier.core.collectives import load_library
from simfrontier.core.engine import Fidelity, SimulatedStep, simulate_step
from simfrontier.core.machine import HEALTHY, Perturbation, load_machine
from simfrontier.core.plan.families import FAMILIES, make_plan
from simfrontier.core.plan.plan import Engine
from simfrontier.core.plan.to_schedule import build
from simfrontier.core.program.ir import Schedule
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.workload import Checkpointing, GptShape, gpt

NAMED = ("ddp", "zero1", "zero2", "zero3", "hsdp", "zeropp", "zero-topo")
FOUR_LAYERS = GptShape(
    name="four",
    num_layers=4,
    hidden=6144,
    heads=64,
    vocabulary=50432,
    sequence=2048,
    source="20B's layers, four of them",
)


def frontier_mesh(nodes: int) -> Mesh:
    return Mesh((("node", nodes), ("package", 4), ("gcd", 2)))


def schedule(
    family: str,
    mesh: Mesh,
    shape: GptShape = FOUR_LAYERS,
    grad_accum: int = 1,
    checkpointing: Checkpointing = "full",
    options: Mapping[str, Any] | None = None,
    **engine: Any,
) -> Schedule:
    chosen = FAMILIES[family][0].model_validate({"family": family, **(options or {})})
    work = gpt(shape, mesh.num_ranks, checkpointing)
    return build(work, make_plan(family, chosen, mesh), mesh, Engine(**engine), grad_accum)


def step(
    built: Schedule,
    machine: str = "frontier",
    fidelity: Fidelity = "flow",
    perturbation: Perturbation = HEALTHY,
    exact: bool = False,
    overrides: Mapping[str, float] | None = None,
    number: int = 0,
) -> SimulatedStep:
    on = load_machine(machine, overrides), load_library("rccl")
    return simulate_step(built, *on, fidelity, perturbation, exact, number=number)
