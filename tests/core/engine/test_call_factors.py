"""Variation between calls: by hand, and the same on every rank as in folded steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from simfrontier.answers.step import bounds, time_spent
from simfrontier.core.engine import Fidelity, SimulatedStep
from simfrontier.core.machine import Perturbation, Spread
from simfrontier.core.program import Compute
from simfrontier.core.workload import find_model
from tests.core.engine.pipelines import Pipeline
from tests.core.engine.steps import frontier_mesh, schedule, step

TINY = find_model("tiny")
# tensor over packages, data over nodes
PIPELINE = Pipeline(
    stages=3, micros=2, tensor=2, data=2, axes=("data", "stage", "tensor"), apart=True, reduce_lane="reduce"
)


def normal(*things: str, sd: float = 0.1, seed: int = 1) -> Perturbation:
    each = [Spread(of=thing, distribution="normal", sd=sd, seed=seed) for thing in things]  # type: ignore[arg-type]
    return Perturbation(spread=tuple(each))


def zero3(perturbation: Perturbation, fidelity: Fidelity = "flow", number: int = 0) -> SimulatedStep:
    built = schedule("zero3", frontier_mesh(1), shape=TINY, grad_accum=2)
    return step(built, perturbation=perturbation, fidelity=fidelity, number=number)


def all_calls_at(factor: float) -> Perturbation:
    kernels, collectives = Spread(of="kernels", listed=(factor,)), Spread(of="collectives", listed=(factor,))
    return Perturbation(spread=(kernels, collectives))


@pytest.mark.parametrize("fidelity", ["flow", "analytic", "chunk"])
def test_all_calls_at_half_take_twice_as_long(fidelity: Fidelity) -> None:
    """Everything happens at twice its time."""
    healthy, slow = zero3(Perturbation(), fidelity), zero3(all_calls_at(0.5), fidelity)
    assert slow.step_s == pytest.approx(2.0 * healthy.step_s, rel=1e-9)
    assert bounds(slow).lane_s == pytest.approx(2.0 * bounds(healthy).lane_s, rel=1e-9)
    assert time_spent(slow).parts[0].seconds == pytest.approx(2.0 * time_spent(healthy).parts[0].seconds, rel=1e-9)


def test_calls_of_a_kernel_take_what_is_drawn_for_each() -> None:
    """Alone on the compute lane, a kernel takes its usual time over the factor of its speed: so do all of a device."""
    usual, ill = zero3(Perturbation()), zero3(normal("kernels"))
    assert ill.call_factors is not None
    (factors,) = ill.call_factors
    kernels, sent = np.flatnonzero(ill.is_kernel), [not isinstance(op, Compute) for op in ill.ops]
    assert factors.shape == (8, len(ill.ops)) and len(np.unique(factors[:, kernels])) == factors[:, kernels].size
    assert any(sent) and (factors[:, sent] == 1.0).all()
    took = (ill.timeline.end - ill.timeline.start)[:, kernels]
    alone = (usual.timeline.end - usual.timeline.start).min(axis=0)[kernels]
    assert took / factors[:, kernels] == pytest.approx(np.broadcast_to(alone, took.shape), rel=0.2)
    assert np.median(took / factors[:, kernels] / alone) == pytest.approx(1.0, abs=0.01)


@st.composite
def spreads(draw: st.DrawFn) -> Perturbation:
    things = draw(st.lists(st.sampled_from(["devices", "networks", "kernels", "collectives"]), min_size=1, unique=True))
    things = things if {"kernels", "collectives"} & set(things) else [*things, "kernels"]
    return normal(*things, sd=draw(st.sampled_from([0.01, 0.1])), seed=draw(st.integers(0, 2**40)))


def assert_one(folded: SimulatedStep, exact: SimulatedStep) -> None:
    """Every rank does the same in both."""
    for one, other in zip(folded.roles, exact.roles, strict=True):
        assert one.timeline.start == pytest.approx(other.timeline.start, rel=1e-9, abs=1e-12)
        assert one.timeline.end == pytest.approx(other.timeline.end, rel=1e-9, abs=1e-12)
    assert folded.step_s >= bounds(folded).lane_s * (1 - 1e-9)


@pytest.mark.parametrize("family", ["zero3", "zero-topo"])
@settings(max_examples=3, suppress_health_check=[HealthCheck.too_slow])
@given(ill=spreads())
def test_folded_is_exact(family: str, ill: Perturbation) -> None:
    built = schedule(family, frontier_mesh(2), shape=TINY, grad_accum=2)
    assert_one(step(built, perturbation=ill), step(built, perturbation=ill, exact=True))


@settings(max_examples=3, suppress_health_check=[HealthCheck.too_slow])
@given(ill=spreads())
def test_pipelines_folded_are_exact(ill: Perturbation) -> None:
    built = PIPELINE.schedule()
    assert_one(step(built, "toy-cluster", perturbation=ill), step(built, "toy-cluster", perturbation=ill, exact=True))
