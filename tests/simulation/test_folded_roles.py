"""Pipelines folded = exact, and calls that run as a whole = op by op, with and without faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simfrontier.analysis.step_bounds import bounds
from simfrontier.collectives import load_library
from simfrontier.cost import price
from simfrontier.machine import HEALTHY, Perturbation, load_machine
from simfrontier.schedule.segments import segmented
from simfrontier.simulation import simulate, simulate_step
from simfrontier.simulation.role_view import view_of
from simfrontier.simulation.timeline import RoleTimeline
from tests.perturbed import perturbed
from tests.simulation.pipelines import Crossed, Order, Pipeline

FAULTS = {
    "healthy": HEALTHY,
    "slow device": perturbed(slow={3: 0.7}),
    "degraded links": perturbed(links={(1, "xgmi 0>1"): 0.3, (0, "nic1>net"): 0.5}),
}
SIZES: dict[str, dict[str, Any]] = {
    "tensor in half a node": {"stages": 4, "micros": 6, "tensor": 2, "data": 2},
    "a node each": {"stages": 2, "micros": 3, "tensor": 4, "data": 2, "layers": 3},
    "tensor over nodes": {"stages": 4, "micros": 3, "tensor": 8, "data": 2},
    "exchanges apart": {"stages": 4, "micros": 5, "tensor": 4, "data": 4, "apart": True},
    "reductions apart": {"stages": 4, "micros": 4, "tensor": 2, "data": 4, "reduce_lane": "reduce"},
}
AXES = (("stage", "data", "tensor"), ("data", "stage", "tensor"))


def role_timeline(
    pipeline: Pipeline, perturbation: Perturbation, whole: bool, exact: bool, contended: bool = True
) -> tuple[RoleTimeline, ...]:
    made = pipeline.schedule()
    pricing = price(made, load_machine("toy-cluster"), load_library("rccl"), perturbation, exact)
    return simulate([segmented(made, role, whole) for role in made.roles], pricing, contended)


def times(role_timelines: tuple[RoleTimeline, ...]) -> list[np.ndarray[Any, Any]]:
    """Per role the starts and ends of all ops on the role's slowest rank, op by op."""
    out = []
    for one in role_timelines:
        line = view_of(one).timeline
        out += [line.ready.max(axis=0), line.start.max(axis=0), line.end.max(axis=0)]
    return out


@pytest.mark.parametrize("fault", ["healthy", "degraded links"])
@pytest.mark.parametrize("size", SIZES)
def test_whole_calls_and_folding_are_exact(size: str, fault: str) -> None:
    """In each order of the axes, and of micro-batches, in turn."""
    turn = [*SIZES].index(size) + [*FAULTS].index(fault)
    order: Order = "gpipe" if turn % 3 == 0 else "1f1b"
    pipeline = Pipeline(order=order, axes=AXES[turn % 2], **SIZES[size])
    exact = role_timeline(pipeline, FAULTS[fault], whole=False, exact=True)
    expected = times(exact)
    step_s = max(one.timeline.step_s for one in exact)
    for whole in (True, False):
        result = times(role_timeline(pipeline, FAULTS[fault], whole, exact=False))
        assert max(np.abs(a - b).max() for a, b in zip(result, expected, strict=True)) <= 1e-9 * step_s


@pytest.mark.parametrize("size", SIZES)
def test_whole_calls_are_exact_without_contention(size: str) -> None:
    pipeline, fault = Pipeline(**SIZES[size]), "slow device"
    expected = times(role_timeline(pipeline, FAULTS[fault], whole=False, exact=True, contended=False))
    result = times(role_timeline(pipeline, FAULTS[fault], whole=True, exact=False, contended=False))
    assert max(np.abs(a - b).max() for a, b in zip(result, expected, strict=True)) <= 1e-9 * expected[2].max()


@pytest.mark.parametrize("size", SIZES)
def test_simulated_is_never_below_its_bounds(size: str) -> None:
    made = Pipeline(axes=AXES[1], **SIZES[size]).schedule()
    flow, alone = (
        simulate_step(made, load_machine("toy-cluster"), load_library("rccl"), fidelity)
        for fidelity in ("flow", "analytic")  # type: ignore[arg-type]
    )
    assert bounds(flow).step_s <= alone.step_s * (1 + 1e-9)
    assert bounds(flow).step_s <= flow.step_s * (1 + 1e-9)
    assert alone.step_s <= flow.step_s * (1 + 1e-9)


def test_a_pair_that_ends_a_call_first_may_disturb_the_other() -> None:
    """Devices 1 and 3 begin the next call's sum over links that 0 and 2, one of them slow, still use in this one."""
    pipeline, slow = Crossed(micros=3, layers=3, rows=256, step=False), perturbed(slow={0: 0.5})
    expected = times(role_timeline(pipeline, slow, whole=False, exact=True))
    result = times(role_timeline(pipeline, slow, whole=True, exact=False))
    assert max(np.abs(a - b).max() for a, b in zip(result, expected, strict=True)) <= 1e-9 * expected[2].max()
    healthy = role_timeline(pipeline, HEALTHY, whole=True, exact=False)
    assert all(one.by_node and not one.by_class for one in healthy)
