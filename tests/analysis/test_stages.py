"""Stages of a pipeline: the bubble worked by hand, what belongs to which micro-batch, and the memory of each stage."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from simfrontier.analysis.exposed_time import exposure
from simfrontier.analysis.stages import OUTSIDE, Stages, stages_of
from simfrontier.collectives import HopTimes, load_library
from simfrontier.machine import load_machine
from simfrontier.scenario import scenario_of
from simfrontier.simulation import SimulatedStep, simulate_step
from simfrontier.study import BuiltSchedule, ScheduleCache, simulated
from tests.simulation.pipelines import Interleaved, Order, Pipeline

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


def test_a_layer_is_in_one_span_with_its_neighbours() -> None:
    """Two layers per stage: one forward and one backward per micro-batch, each of both layers."""
    result = stages(run(Pipeline(stages=2, micros=3, layers=2)))
    spans = [
        (span.kind, span.micro, span.layers) for span in result.stages[1].spans if span.kind in ("forward", "backward")
    ]
    assert spans == [
        ("forward", 0, (2, 3)),
        ("backward", 0, (2, 3)),
        ("forward", 1, (2, 3)),
        ("backward", 1, (2, 3)),
        ("forward", 2, (2, 3)),
        ("backward", 2, (2, 3)),
    ]


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


def test_waiting_for_weights_is_no_bubble() -> None:
    """What a stage waits for on its own lanes belongs to the forward or backward that needs it, so each of these is one
    span, and the first begins with the step."""
    plan = {"family": "axonn", "x": 2, "z": 2, "pipeline": 2, "grad_accum": 4, "micro_batch": 2}
    scenario = scenario_of({**DOCUMENT, "plans": {"pipe": plan}}, "stages.toml")
    one = simulated(scenario, ScheduleCache().get(scenario, "pipe", 8), "flow")
    for stage in stages(one).stages:
        for kind in ("forward", "backward"):
            assert [span.micro for span in stage.spans if span.kind == kind] == [0, 1, 2, 3]
    assert stages(one).stages[0].spans[0].start_s == 0.0


def test_the_head_goes_forward_once_and_back_once_per_micro_batch() -> None:
    """Tiny has two layers: the last stage has layer 1 and the head, which counts as layer 2."""
    one, made = built()
    result = stages_of(one, made.peaks)
    assert result is not None
    last = result.stages[1].spans
    assert [s.layers for s in last if s.kind == "forward"] == [(1, 2)] * 4
    assert [s.layers for s in last if s.kind == "backward"] == [(1, 2)] * 4


def test_memory_of_a_stage_is_its_peak_and_the_ends_hold_more() -> None:
    one, made = built()
    result = stages_of(one, made.peaks)
    assert result is not None
    for stage, peak in zip(result.stages, made.peaks, strict=True):
        assert stage.peak_bytes == peak.num_bytes == sum(stage.held.values())
        assert stage.held[OUTSIDE] > 0
    assert result.fullest.peak_bytes == max(peak.num_bytes for peak in made.peaks)


def test_a_plan_of_one_role_has_no_stages() -> None:
    scenario = scenario_of({**DOCUMENT, "plans": {"ddp": {}}}, "stages.toml")
    made = ScheduleCache().get(scenario, "ddp", 8)
    assert stages_of(simulated(scenario, made, "flow"), made.peaks) is None
