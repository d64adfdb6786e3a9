"""Simulated steps in every precision and of both kinds of model."""

from __future__ import annotations

import math
from typing import Any

import pytest

from simfrontier.collectives import load_library
from simfrontier.machine import load_machine
from simfrontier.plan import FAMILIES, Engine, build, make_plan
from simfrontier.schedule import Compute, Mesh, Schedule
from simfrontier.simulation import SimulatedStep, simulate_step
from simfrontier.workload import find_model, workload_of

BLOCKS: dict[str, dict[str, Any]] = {
    "zeropp": {"weight_codec": "int8:64", "quantised_gradient_codec": "int4:64"},
    "zero-topo": {"weight_codec": "int8:64", "node_gradient_codec": "int4:64", "cross_gradient_codec": "int4:64"},
}
ENGINE = Engine(persistence_elements=100, prefetch_elements=20_000, live_elements=100_000)


def mesh_of(node: int, package: int, gcd: int) -> Mesh:
    return Mesh((("node", node), ("package", package), ("gcd", gcd)))


def schedule_of(family: str, precision: str, mesh: Mesh, model: str = "tiny") -> Schedule:
    options = FAMILIES[family][0].model_validate({"family": family, **BLOCKS.get(family, {})})
    work = workload_of(find_model(model), mesh.num_ranks, checkpointing="full", precision=precision)
    return build(work, make_plan(family, options, mesh), mesh, ENGINE)


def simulated(schedule: Schedule, machine: str = "toy-cluster") -> SimulatedStep:
    return simulate_step(schedule, load_machine(machine), load_library("rccl"), "flow")


def test_a_product_by_hand() -> None:
    """h_to_4h of one sequence: m = 32, n = 256, k = 64, so 1,048,576 operations and an edge of 2^(19/3).

    Rates: 2, 1, 0.5 Tflop/s x / (x + 100). Traffic: 32·64 + 256·64 + 256 + 32·256 = 26,880 numbers at 100 GB/s.
    """
    edge = 2 ** (19 / 3)
    assert math.isclose(edge, 80.635, rel_tol=1e-5)
    for precision, rate, size in (("fp16", 2e12, 2), ("bf16", 2e12, 2), ("fp32", 1e12, 4), ("fp64", 0.5e12, 8)):
        step = simulated(schedule_of("ddp", precision, mesh_of(1, 1, 2)), "toy-pair")
        (op, *_) = [op for op in step.program.ops if isinstance(op, Compute) and op.name == "h_to_4h"]
        (work, *_) = step.pricing.of(op).works
        math_s = 2 * 32 * 256 * 64 / (rate * edge / (edge + 100))
        memory_s = 26_880 * size / 100e9
        assert work.alone_s == pytest.approx(1e-6 + max(math_s, memory_s), rel=1e-12)
        assert math_s > memory_s
