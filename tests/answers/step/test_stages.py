"""Pipelines: the bubble worked by hand, and what is read off a step of several roles."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from simfrontier.answers.step.bytes_moved import moves_of, traffic
from simfrontier.answers.step.exposed_time import exposure
from simfrontier.answers.step.stages import Stages, stages_of
from simfrontier.answers.step.uncertainty import Spread, factors
from simfrontier.answers.study import BuiltSchedule, ScheduleCache, simulated
from simfrontier.core.collectives import HopTimes, Residual, load_library
from simfrontier.core.engine import SimulatedStep, simulate_step
from simfrontier.core.engine.resample import resampled_s
from simfrontier.core.machine import HEALTHY, Perturbation, load_machine
from simfrontier.inputs.scenario import scenario_of
from tests.core.engine.pipelines import Interleaved, Order, Pipeline
from tests.perturbed import perturbed

FREE = HopTimes(base_s=0.0, hop_in_node_s=0.0, hop_between_nodes_s=0.0)
LONG = {"rows": 10**9, "message": 1}  # products of 66 s, and two bytes to send: exchanges take no time
PIPE = {"family": "megatron", "tensor": 2, "pipeline": 2, "grad_accum": 4, "data": "zero1"}
DOCUMENT = {
    "name": "stages",
    "title": "Stages",
    "machine": {"name": "toy-cluster"},
    "model": {"name": "tiny"},
    "run": {"devices": [8]},
    "plans": {"pipe": PIPE},
}


def run(pipeline: Pipeline) -> SimulatedStep:
    library = replace(load_library("rccl"), direct=FREE, units_per_channel=0.0)
    return simulate_step(pipeline.schedule(), load_machine("toy-cluster"), library)


def stages(one: SimulatedStep, chunks: int = 1) -> Stages:
    result = stages_of(one, (), chunks)
    assert result is not None
    return result


def built(**more: object) -> tuple[SimulatedStep, BuiltSchedule]:
    scenario = scenario_of({**DOCUMENT, "plans": {"pipe": {**PIPE, **more}}}, "stages.toml")
    made = ScheduleCache().get(scenario, "pipe", 8)
    return simulated(scenario, made, "flow"), made


@pytest.mark.parametrize("order", ["gpipe", "1f1b"])
def test_two_stages_of_four_micro_batches_wait_a_fifth_of_the_time(order: Order) -> None:
    """Each stage works 4 (F + B); the last begins F later and the first ends B later, so the pipeline takes 5 (F + B),
    of which F + B is bubble in each stage: 1/5 = (P - 1) / (M + P - 1)."""
    one = run(Pipeline(stages=2, micros=4, order=order, step=False, **LONG))  # type: ignore[arg-type]
    result = stages(one)
    assert result.closed_form == 1 / 5
    assert result.bubble == pytest.approx(1 / 5, rel=1e-8)
    assert result.pipeline_s == pytest.approx(one.step_s, rel=1e-12)
    for stage in result.stages:
        assert stage.forward_s + stage.backward_s == pytest.approx(4 / 5 * one.step_s, rel=1e-8)
        assert stage.bubble_s == pytest.approx(1 / 5 * one.step_s, rel=1e-8)
        assert [span.micro for span in stage.spans if span.kind == "forward"] == [0, 1, 2, 3]
        assert [span.micro for span in stage.spans if span.kind == "backward"] == [0, 1, 2, 3]
    assert exposure(one).idle == pytest.approx(1 / 5 * one.step_s, rel=1e-8)


def test_interleaving_divides_the_bubble_by_its_chunks() -> None:
    """Two stages of two chunks, four micro-batches: 1 of 2 * 4 + 1 chunks is bubble."""
    result = stages(run(Interleaved(stages=2, micros=4, chunks=2, layers=2, step=False, **LONG)), 2)  # type: ignore[arg-type]
    assert result.closed_form == 1 / 9
    assert result.bubble == pytest.approx(1 / 9, rel=1e-8)


@pytest.mark.parametrize("more", [{}, {"overlap_exchange": True}, {"order": "gpipe"}, {"data": "zero3"}])
def test_a_stages_time_is_what_it_does_and_its_bubble(more: dict[str, object]) -> None:
    one, made = built(**more)
    result = stages_of(one, made.peaks)
    assert result is not None and result.num_micro == 4 and len(result.stages) == 2
    for stage in result.stages:
        assert stage.bubble_s >= 0.0
        ended = sum(
            max(0.0, min(s.end_s, result.pipeline_s) - s.start_s)
            for s in stage.spans
            if s.kind == "end" and not s.beside
        )
        parts = stage.forward_s + stage.backward_s + stage.exchange_s + stage.bubble_s + ended
        assert parts == pytest.approx(result.pipeline_s, rel=1e-9)
        held_up = [span for span in stage.spans if not span.beside]
        assert all(a.end_s <= b.start_s * (1 + 1e-9) + 1e-12 for a, b in itertools.pairwise(held_up))
        assert {span.beside for span in stage.spans if span.kind == "exchange"} == {"overlap_exchange" in more}
        assert next(s.micro for s in sorted(stage.spans, key=lambda s: s.start_s) if s.kind == "forward") == 0


KNOWN = Residual(model_sd=0.2, run_sd=0.1)
ACTIVATION = 512 * 256 * 2  # bytes


def run_on_rccl(pipeline: Pipeline, perturbation: Perturbation = HEALTHY, fidelity: str = "flow") -> SimulatedStep:
    library = replace(load_library("rccl"), residual=KNOWN)
    return simulate_step(pipeline.schedule(), load_machine("toy-cluster"), library, fidelity, perturbation)  # type: ignore[arg-type]


@pytest.mark.parametrize("order", ["gpipe", "1f1b"])
def test_bytes_of_a_pipeline_by_hand(order: str) -> None:
    """Two stages of four devices, each a node, three micro-batches: every pair of ranks sends each activation ahead and
    its gradient back; tensor groups all-reduce one activation per layer each way (2 layers a stage), 2 * 3/4 per rank.
    """
    one = run_on_rccl(Pipeline(stages=2, micros=3, tensor=4, order=order))  # type: ignore[arg-type]
    moved = traffic(one)
    between = Fraction(sum(moved.num_bytes["inter_node"].values()))
    inside = sum((Fraction(sum(moved.num_bytes[name].values())) for name in ("package", "intra_node")), Fraction(0))
    scalars = sum(move.message_bytes for move in moves_of(one) if move.name == "scalar")
    assert scalars == 4
    exchanged = 4 * 3 * 2 * ACTIVATION
    assert exchanged <= between <= exchanged + 64  # the scalar over all eight ranks
    reduced = 8 * 2 * 3 * 2 * Fraction(3, 2) * ACTIVATION  # ranks, layers, micro-batches, ways
    assert reduced <= inside <= reduced + 64
    moves = {move.name: move for move in moves_of(one) if move.kind == "exchange"}
    assert moves["boundary"].message_bytes == 3 * 2 * ACTIVATION
    assert moves["boundary"].link * 2 == exchanged


@pytest.mark.parametrize("fault", [HEALTHY, perturbed(slow={3: 0.7})])
@pytest.mark.parametrize("fidelity", ["flow", "analytic"])
@pytest.mark.parametrize("apart", [False, True])
def test_factors_of_one_give_the_simulated_step(apart: bool, fidelity: str, fault: Perturbation) -> None:
    one = run_on_rccl(
        Pipeline(stages=4, micros=4, tensor=2, data=2, apart=apart, reduce_lane="reduce"), fault, fidelity
    )
    spread = Spread(law=Residual(model_sd=0.0, run_sd=0.0), speed_sd=0.0, matmul_sd=0.0)
    result = resampled_s(one, factors(one, spread, "any", 3, 1))
    assert result == pytest.approx(np.full(3, one.step_s), rel=1e-9)


def test_products_that_take_twice_as_long_lengthen_the_step() -> None:
    """Known times: of the critical path of a pipeline without exchanges that matter, all products take exp(sd z)."""
    one = run_on_rccl(Pipeline(stages=2, micros=4, rows=10**9, message=1, step=False))
    spread = Spread(law=Residual(model_sd=0.0, run_sd=0.0), speed_sd=0.0, matmul_sd=0.1)
    made = factors(one, spread, "any", 5, 1)
    factor, *others = (np.exp(value) for value in made.of_op.values() if value.any())
    assert all((other == factor).all() for other in others)
    result = resampled_s(one, made)
    assert result == pytest.approx(one.step_s * factor, rel=1e-4)
