"""Folded = exact: one rank of each class gives every rank's times, of one role and of pipelines, with faults too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simfrontier.answers.step.volumes import bounds
from simfrontier.core.collectives import load_library
from simfrontier.core.cost import price
from simfrontier.core.engine import simulate, simulate_step, trace_of
from simfrontier.core.engine.timeline import RoleTimeline, view_of
from simfrontier.core.machine import HEALTHY, Perturbation, load_machine
from simfrontier.core.program import Mesh, digest
from simfrontier.core.program.segments import segmented
from simfrontier.core.trace import Trace
from simfrontier.core.trace.comparison import compare
from simfrontier.core.workload import GptShape
from tests.core.engine.pipelines import Crossed, Order, Pipeline
from tests.core.engine.steps import NAMED, frontier_mesh, schedule, step
from tests.perturbed import perturbed

FAULTS = {
    "healthy": lambda nodes: HEALTHY,
    "slow GCD": lambda nodes: perturbed(slow={11: 0.7}),
    "degraded link": lambda nodes: perturbed(links={(nodes - 1, "xgmi 0>2"): 0.4, (0, "nic1>net"): 0.5}),
    "both": lambda nodes: perturbed(slow={3: 0.8}, links={(nodes - 1, "net>nic2"): 0.5}),
}


@pytest.mark.parametrize(
    ("family", "nodes", "fault"),
    [
        *((family, 2, "both") for family in NAMED),
        *(("zero3", 8, "healthy"), ("zero-topo", 8, "degraded link"), ("zeropp", 8, "slow GCD")),
    ],
)
def test_folded_is_exact(family: str, nodes: int, fault: str) -> None:
    built = schedule(family, frontier_mesh(nodes))
    perturbation = FAULTS[fault](nodes)
    folded = step(built, perturbation=perturbation)
    exact = step(built, perturbation=perturbation, exact=True)
    assert exact.pricing.folding.num_rank_classes == 8 * nodes
    assert nodes == 2 or folded.pricing.folding.num_rank_classes <= 24
    of_rank = folded.pricing.folding.rank_class
    for name in ("ready", "start", "end"):
        ours, theirs = getattr(folded.timeline, name)[of_rank], getattr(exact.timeline, name)
        assert np.abs(ours - theirs).max() <= 1e-9 * exact.step_s


def test_costs_grow_with_classes_not_ranks() -> None:
    """8, 64 and 384 GCDs, and 3,072 (which spans dragonfly groups), have as many rank classes."""
    counts = [
        step(schedule("zero3", frontier_mesh(nodes))).pricing.folding.num_rank_classes for nodes in (1, 8, 48, 384)
    ]
    assert counts == [counts[0]] * 4
    counts = [step(schedule("zero-topo", frontier_mesh(n))).pricing.folding.num_rank_classes for n in (8, 48, 384)]
    assert max(counts) <= 16


@pytest.mark.parametrize("name", ["a100-node", "dgx-2", "alps", "mi250-node"])
def test_folded_is_exact_on_other_machines(name: str) -> None:
    """Nodes with a switch inside, and with other numbers of packages and devices."""
    machine = load_machine(name)
    mesh = Mesh((("node", 2), ("package", machine.packages_per_node), ("gcd", machine.devices_per_package)))
    library, built = load_library(machine.library), schedule("zero3", mesh)
    folded, exact = (simulate_step(built, machine, library, exact=one) for one in (False, True))
    assert folded.pricing.folding.num_rank_classes < exact.pricing.folding.num_rank_classes == mesh.num_ranks
    assert folded.step_s == pytest.approx(exact.step_s, rel=1e-9)


PIPELINE_FAULTS = {
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
    turn = [*SIZES].index(size) + [*PIPELINE_FAULTS].index(fault)
    order: Order = "gpipe" if turn % 3 == 0 else "1f1b"
    pipeline = Pipeline(order=order, axes=AXES[turn % 2], **SIZES[size])
    exact = role_timeline(pipeline, PIPELINE_FAULTS[fault], whole=False, exact=True)
    expected = times(exact)
    step_s = max(one.timeline.step_s for one in exact)
    for whole in (True, False):
        result = times(role_timeline(pipeline, PIPELINE_FAULTS[fault], whole, exact=False))
        assert max(np.abs(a - b).max() for a, b in zip(result, expected, strict=True)) <= 1e-9 * step_s


@pytest.mark.parametrize("size", SIZES)
def test_whole_calls_are_exact_without_contention(size: str) -> None:
    pipeline, fault = Pipeline(**SIZES[size]), "slow device"
    expected = times(role_timeline(pipeline, PIPELINE_FAULTS[fault], whole=False, exact=True, contended=False))
    result = times(role_timeline(pipeline, PIPELINE_FAULTS[fault], whole=True, exact=False, contended=False))
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


NARROW = GptShape(name="tiny", num_layers=1, hidden=60, heads=5, vocabulary=60, sequence=8, source="by hand")


def traced(exact: bool = False, perturbation: Perturbation = HEALTHY) -> Trace:
    built = schedule("zero-topo", frontier_mesh(2))
    done = step(built, exact=exact, perturbation=perturbation)
    return trace_of(done, digest(built), "t", notes={"scenario": "s"})


def test_folded_and_exact_traces_are_the_same_rank_by_rank() -> None:
    """The classes expanded hold every rank's own times (to 1e-9 of the step)."""
    folded, exact = traced(), traced(exact=True)
    assert exact.members == tuple((rank,) for rank in range(16))
    joined = compare("zero-topo", folded, exact)
    assert joined.differences == () and len(joined.pairs) == 16 * len(folded.spans[0])
    near = 1e-9 * folded.step_s
    assert all(abs(pair.sim.end_s - pair.real.end_s) <= near for pair in joined.pairs)
    assert all(abs(pair.sim.ready_s - pair.real.ready_s) <= near for pair in joined.pairs)


def test_a_gather_carries_its_weight_whole_whatever_a_rank_sends() -> None:
    """One layer of width 60, fp16, no prefetch: every weight is gathered by itself. Embedding and head 60 × 60, qkv
    60 × 180, dense 60 × 60, the MLP's two 60 × 240; biases 180, 240, 60 and 60; three norms of 60 + 60."""
    options = {"prefetch_elements": 0, "persistence_elements": 0}
    built = schedule("zero3", Mesh((("node", 2), ("package", 1), ("gcd", 2))), NARROW, **options)
    spans = trace_of(step(built, "toy-cluster"), digest(built), "t").spans[0]
    elements = [3600, 3600, 10800, 3600, 14400, 14400, 180, 240, 60, 60, *[60] * 6]
    forward = [each.message_bytes for each in spans if each.kind == "all_gather"]
    assert sorted(forward) == sorted(2.0 * count for count in elements)
