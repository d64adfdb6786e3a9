"""Simulated steps in every precision and of both kinds of model, and what a machine must know for them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from simfrontier.collectives import load_library
from simfrontier.errors import InputError
from simfrontier.machine import load_machine
from simfrontier.plan import FAMILIES, Engine, build, make_plan
from simfrontier.schedule import Compute, Mesh, Schedule, check
from simfrontier.simulation import SimulatedStep, simulate_step
from simfrontier.workload import PRECISIONS, find_model, workload_of
from tests.invoke import TOY, invoke
from tests.simulation.steps import NAMED

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


@pytest.mark.parametrize("sizes", [(1, 1, 2), (1, 2, 2), (4, 2, 2)], ids=str)
@pytest.mark.parametrize("family", NAMED)
def test_an_mlp_runs_under_every_family(family: str, sizes: tuple[int, int, int]) -> None:
    schedule = schedule_of(family, "fp16", mesh_of(*sizes), "tiny-mlp")
    assert str(check(schedule)) == "no findings"
    step = simulated(schedule)
    assert 0 < step.compute_s <= step.step_s


@pytest.mark.parametrize("model", ["tiny", "tiny-mlp"])
@pytest.mark.parametrize("family", NAMED)
def test_wider_numbers_take_longer(family: str, model: str) -> None:
    """On the toys fp32 products run at half the rate of 16-bit ones, fp64 at a quarter; bytes double and double."""
    half, brain, single, double = (
        simulated(schedule_of(family, precision, mesh_of(2, 2, 2), model)) for precision in PRECISIONS
    )
    assert (half.step_s, half.compute_s) == (brain.step_s, brain.compute_s)
    assert half.step_s < single.step_s < double.step_s
    assert half.compute_s < single.compute_s < double.compute_s


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


def test_a_machine_without_the_rate_is_refused() -> None:
    """Frontier's file has rates of products of 16 and of 32 bits."""
    message = "machine frontier has no rate of matrix products of fp64 numbers (device.fp64); allowed: fp16, bf16, fp32"
    with pytest.raises(InputError) as caught:
        simulated(schedule_of("zero3", "fp64", mesh_of(1, 4, 2)), "frontier")
    assert str(caught.value) == message


def test_the_command_says_so_in_one_line(tmp_path: Path) -> None:
    done = invoke("run", TOY, "--out", tmp_path, "--set", "machine.name=frontier", "--set", "run.devices=[8]",
                  "--set", "model.precision=fp64", "--plans", "zero3")  # fmt: skip
    assert done.code == 2
    assert done.err.strip() == (
        f"simfrontier: {TOY}: plans.zero3: at 8 devices: machine frontier has no rate of matrix products of fp64 "
        "numbers (device.fp64); allowed: fp16, bf16, fp32"
    )


def test_an_embedding_that_is_a_product_does_not_read_its_weight_in_the_backward() -> None:
    """The backward hook fetches it all the same: the wgrad of the first linear module touches its input, the gradient
    of its output, and the raw gradients that it writes: 1·32 + 1·64 + 64·32 + 64 numbers of 2 bytes per rank."""
    from simfrontier.schedule.cost import traffic_bytes

    schedule = schedule_of("zero3", "fp16", mesh_of(1, 2, 2), "tiny-mlp")
    ops = [op for role in schedule.roles for _, op in role.instances() if isinstance(op, Compute)]
    (op,) = [op for op in ops if op.name == "embedding.wgrad"]
    assert any(schedule.tensors[ref.name].role == "gathered" for ref in op.reads)
    assert traffic_bytes(op, schedule.tensors, schedule.mesh) == 2 * (32 + 64 + 64 * 32 + 64)
