"""What is read off a step of several roles: bytes, needs, memory, error bars, traces; a role counts its own ranks."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from simfrontier.analysis import step_needs
from simfrontier.analysis.bytes_moved import BOUNDARIES, moves_of, traffic
from simfrontier.analysis.exposed_time import exposure
from simfrontier.analysis.links import node_links
from simfrontier.analysis.uncertainty import Spread, factors, sampled_step_s, spread_of
from simfrontier.collectives import Residual, load_library
from simfrontier.machine import HEALTHY, Perturbation, load_machine
from simfrontier.simulation import SimulatedStep, simulate_step, trace_of
from simfrontier.simulation.memory import memory_timeline
from simfrontier.simulation.resample import resampled_s
from tests.perturbed import perturbed
from tests.simulation.pipelines import Pipeline

KNOWN = Residual(model_sd=0.2, run_sd=0.1)
ACTIVATION = 512 * 256 * 2  # bytes
WEIGHT = 256 * 256 * 2


def run(pipeline: Pipeline, perturbation: Perturbation = HEALTHY, fidelity: str = "flow") -> SimulatedStep:
    library = replace(load_library("rccl"), residual=KNOWN)
    return simulate_step(pipeline.schedule(), load_machine("toy-cluster"), library, fidelity, perturbation)  # type: ignore[arg-type]


@pytest.mark.parametrize("order", ["gpipe", "1f1b"])
def test_bytes_of_a_pipeline_by_hand(order: str) -> None:
    """Two stages of four devices, each a node, three micro-batches: every pair of ranks sends each activation ahead and
    its gradient back; tensor groups all-reduce one activation per layer each way (2 layers a stage), 2 * 3/4 per rank.
    """
    one = run(Pipeline(stages=2, micros=3, tensor=4, order=order))  # type: ignore[arg-type]
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


def test_what_leaves_nodes_is_on_their_links() -> None:
    one = run(Pipeline(stages=2, micros=3, tensor=4))
    moved, fabric = traffic(one), one.pricing.fabric
    out = [i for i, wire in enumerate(fabric.machine.node.links) if wire.dst == "net"]
    wires = moved.on_link[: fabric.hbm_base].reshape(fabric.num_nodes, -1)
    between = float(sum(moved.num_bytes["inter_node"].values()))
    assert float(wires[:, out].sum()) == pytest.approx(between, rel=1e-9)
    assert node_links(one, traffic(one)).by_class["nic"][0] > 0.0


@pytest.mark.parametrize("axes", [("stage", "data", "tensor"), ("data", "stage", "tensor")])
def test_needs_are_no_more_than_what_is_moved(axes: tuple[str, ...]) -> None:
    """Needs are the mean over units: times the units they are at most what the algorithms move into them. At the
    outermost axis each unit is a stage's nodes (or a pipeline's), and an exchange crosses it as a whole, or not at all.
    """
    pipeline = Pipeline(stages=4, micros=3, tensor=4, data=4, axes=axes)
    need = step_needs(pipeline.schedule())
    sent = sum(float(sum(traffic(run(pipeline)).num_bytes[name].values())) for name in BOUNDARIES)
    for boundary in axes:
        units = pipeline.mesh.size(axes[: axes.index(boundary) + 1])
        assert float(need.total(boundary)) * units <= sent * (1 + 1e-9)
    pairs, per_pair = 16, 3 * 2 * ACTIVATION
    crossing = need.total("stage", "boundary") * pipeline.mesh.size(axes[: axes.index("stage") + 1])
    assert crossing == 3 * pairs * per_pair  # three boundaries
    if axes[0] == "data":
        assert need.total("data", "boundary") == 0
        assert (
            need.total("data", "gradient") * 4 == 4 * 4 * 2 * 4 * 2 * Fraction(3, 4) * WEIGHT
        )  # stages ... all-reduces


def test_a_role_holds_what_it_touches() -> None:
    """Two of the four layers' weights and gradients on each stage; 1F1B keeps two micro-batches' activations on the
    first stage and one on the last, GPipe all four."""

    def held(order: str, last: bool) -> tuple[int, int]:
        one = run(Pipeline(stages=2, micros=4, order=order))  # type: ignore[arg-type]
        memory = memory_timeline(one, one.roles[1 if last else 0].classes[0])
        assert memory.at_peak["weights"] == 2 * WEIGHT == memory.at_peak["gradients"]
        return memory.peak_bytes, memory.at_peak["activations"]

    assert held("gpipe", False)[1] > held("1f1b", False)[1] > held("1f1b", True)[1]


@pytest.mark.parametrize("fault", [HEALTHY, perturbed(slow={3: 0.7})])
@pytest.mark.parametrize("fidelity", ["flow", "analytic"])
@pytest.mark.parametrize("apart", [False, True])
def test_factors_of_one_give_the_simulated_step(apart: bool, fidelity: str, fault: Perturbation) -> None:
    one = run(Pipeline(stages=4, micros=4, tensor=2, data=2, apart=apart, reduce_lane="reduce"), fault, fidelity)
    spread = Spread(law=Residual(model_sd=0.0, run_sd=0.0), speed_sd=0.0, matmul_sd=0.0)
    result = resampled_s(one, factors(one, spread, "any", 3, 1))
    assert result == pytest.approx(np.full(3, one.step_s), rel=1e-9)


def test_samples_are_their_own_and_the_same_again() -> None:
    one = run(Pipeline(stages=4, micros=4, tensor=2, data=2))
    spread = spread_of(one.pricing.machine, one.pricing.library)
    assert spread.law == KNOWN
    first, again = sampled_step_s(one, "plan", 64, 7), sampled_step_s(one, "plan", 64, 7)
    fewer, other = sampled_step_s(one, "plan", 16, 7), sampled_step_s(one, "plan", 64, 8)
    assert first is not None and again is not None and fewer is not None and other is not None
    assert (first == again).all() and (first[:16] == fewer).all() and (first != other).all()
    assert 0.5 * one.step_s < first.min() and first.std() > 0.01 * one.step_s


def test_products_that_take_twice_as_long_lengthen_the_step() -> None:
    """Known times: of the critical path of a pipeline without exchanges that matter, all products take exp(sd z)."""
    one = run(Pipeline(stages=2, micros=4, rows=10**9, message=1, step=False))
    spread = Spread(law=Residual(model_sd=0.0, run_sd=0.0), speed_sd=0.0, matmul_sd=0.1)
    made = factors(one, spread, "any", 5, 1)
    factor, *others = (np.exp(value) for value in made.of_op.values() if value.any())
    assert all((other == factor).all() for other in others)
    result = resampled_s(one, made)
    assert result == pytest.approx(one.step_s * factor, rel=1e-4)


def test_a_trace_has_every_roles_ranks_in_its_own_ops() -> None:
    one = run(Pipeline(stages=2, micros=3, tensor=4))
    drawn = trace_of(one, "digest", "title")
    assert sum(map(len, drawn.members)) == 8
    assert len(drawn.spans) == one.pricing.folding.num_rank_classes
    spans = [span for mine in drawn.spans for span in mine if span.kind == "exchange"]
    assert spans and {span.level for span in spans} == {"inter_node"}
    # a rank's bytes are those that it sends: an end that only receives sends none; with 2 stages and 3 micro-batches
    # the stream goes down 3 times and its gradient up 3 times, each sent by one of the two ends
    assert {span.num_bytes for span in spans} == {0.0, ACTIVATION}
    assert all(span.message_bytes == span.num_bytes for span in spans)
    assert all(
        sum(span.num_bytes for span in mine if span.kind == "exchange") == 3 * ACTIVATION for mine in drawn.spans
    )
    parts = exposure(one)
    assert parts.compute + parts.exposed_comm == pytest.approx(one.step_s, rel=1e-9)
    assert parts.compute == pytest.approx(one.compute_s, rel=1e-9)
