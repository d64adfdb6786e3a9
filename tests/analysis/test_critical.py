"""The critical path: worked by hand, whole and without gaps in every family, order and fidelity, and where ranks wait
for others."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import fsum
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.analysis.critical import WAIT, CriticalPath, critical_path
from simfrontier.collectives import algorithm, load_library
from simfrontier.machine import HEALTHY, Perturbation, load_machine
from simfrontier.schedule.ir import Schedule
from simfrontier.simulation import Fidelity, SimulatedStep, simulate_step
from tests.perturbed import perturbed
from tests.plan.grids import axonn, megatron, schedule_of
from tests.simulation.pipelines import Crossed, Interleaved, Order, Pipeline
from tests.simulation.steps import NAMED, frontier_mesh, schedule, step
from tests.simulation.test_pipelines import library, run
from tests.some import some

FAULTS = {
    "healthy": HEALTHY,
    "slow device": perturbed(slow={3: 0.7}),
    "degraded links": perturbed(links={(1, "xgmi 0>1"): 0.3, (0, "nic1>net"): 0.5}),
}


def on_toy(
    made: Schedule, fidelity: Fidelity = "flow", perturbation: Perturbation = HEALTHY, exact: bool = False
) -> SimulatedStep:
    return simulate_step(made, load_machine("toy-cluster"), load_library("rccl"), fidelity, perturbation, exact)


def whole(one: SimulatedStep) -> CriticalPath:
    """The path of a step, after seeing that it has no gap and that its lengths and parts sum to the step."""
    path = critical_path(one)
    assert path.step_s == one.step_s
    assert (path.links[0].start_s, path.links[-1].end_s) == (0.0, one.step_s)
    assert all(a.end_s == b.start_s for a, b in pairwise(path.links))
    assert all(link.seconds >= 0.0 and 0.0 <= link.sharing_s <= link.seconds for link in path.links)
    assert fsum(link.seconds for link in path.links) == pytest.approx(one.step_s, rel=1e-9)
    parts = path.parts()
    assert fsum(part.seconds for part in parts) == pytest.approx(one.step_s, rel=1e-9)
    assert sum(part.calls for part in parts) == len(path.links)
    assert [part.seconds for part in parts] == sorted((part.seconds for part in parts), reverse=True)
    assert fsum(link.seconds for link in path.links if link.kind == WAIT) <= 1e-9 * one.step_s
    return path


# ── by hand ──


def test_a_step_of_two_stages_by_hand() -> None:
    """One layer and one micro-batch on two devices of a package, in times as in tests/simulation/test_pipelines.py:
    F of stage 0, exchange, F and B of stage 1, exchange back, B of stage 0; the path is all of it, in that order.

    F is a product (p), cast and gelu (t each: two activations), an addition (a: three); B two products, a cast and an
    addition. So products are 2 (1 + 2) p = 6 p, casts 4 t, gelu 2 t, additions 4 a, exchanges 2 e.
    """
    edge = (512 * 256**2) ** (1 / 3)
    p = 1e-6 + 2 * 512 * 256**2 / (2e12 * edge / (edge + 100.0))
    t, a = 1e-6 + 2 * 262_144 / 100e9, 1e-6 + 3 * 262_144 / 100e9
    e = 262_144 / (10e9 * algorithm("direct").shares_of(library(), {"xgmi": 1.0})["xgmi"])
    path = whole(run(Pipeline(stages=2, micros=1, layers=1, step=False)))
    forward, backward = ["matmul", "cast", "gelu", "add"], ["matmul", "matmul", "cast", "add"]
    assert [(link.role, link.kind) for link in path.links] == [
        *(("s0", kind) for kind in forward),
        *(("s1", kind) for kind in ("exchange", *forward, *backward)),  # a call is told of the rank that goes on
        *(("s0", kind) for kind in ("exchange", *backward)),
    ]
    known = {(part.kind, part.axes, part.level): part for part in path.parts()}
    assert {key: part.calls for key, part in known.items()} == {
        ("matmul", (), "device"): 6,
        ("cast", (), "device"): 4,
        ("gelu", (), "device"): 2,
        ("add", (), "device"): 4,
        ("exchange", ("stage",), "package"): 2,
    }
    wanted = {"matmul": 6 * p, "cast": 4 * t, "gelu": 2 * t, "add": 4 * a, "exchange": 2 * e}
    for (kind, _, _), part in known.items():
        assert part.seconds == pytest.approx(wanted[kind], rel=1e-9)
        assert part.sharing_s == 0.0


def test_the_path_goes_by_the_rank_that_comes_last() -> None:
    """Two ranks that add up after each product: the slow one is always the later, so all work of a rank by itself that
    stands before a sum is its own; what follows the last sum is the slow rank's, too, for it ends last."""
    made = Pipeline(stages=1, micros=2, tensor=2, step=False).schedule()
    path = whole(on_toy(made, perturbation=perturbed(slow={1: 0.5})))
    assert {link.rank for link in path.links if link.kind != "all_reduce"} == {1}
    assert [part.kind for part in path.parts()].count("all_reduce") == 1
    swapped = whole(on_toy(made, perturbation=perturbed(slow={0: 0.5})))
    assert {link.rank for link in swapped.links if link.kind != "all_reduce"} == {0}
    assert swapped.step_s == pytest.approx(path.step_s, rel=1e-9)


def test_among_equals_the_path_stays_on_its_rank() -> None:
    path = whole(on_toy(Pipeline(stages=1, micros=2, tensor=2, step=False).schedule(), exact=True))
    assert len({link.rank for link in path.links}) == 1


def test_a_link_says_where_it_stands() -> None:
    path = whole(on_toy(Pipeline(stages=2, micros=3).schedule()))
    backward = [link for link in path.links if link.call == "backward"]
    assert backward and all(0 <= link.layer < 4 and 0 <= link.micro < 3 for link in backward)
    assert {link.role for link in path.links} <= {"s0", "s1"}
    assert {link.lane for link in path.links} == {"compute"}


# ── whole in every family ──


@pytest.mark.parametrize("fidelity", ["flow", "analytic"])
@pytest.mark.parametrize("family", NAMED)
def test_the_families_of_zero(family: str, fidelity: Fidelity) -> None:
    made = schedule(family, frontier_mesh(2), grad_accum=2)
    path = whole(step(made, fidelity=fidelity))
    assert path.parts()[0].kind in ("matmul", "all_gather", "reduce_scatter", "all_reduce")
    if fidelity == "analytic":
        assert fsum(part.sharing_s for part in path.parts()) == 0.0


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("perturbation", [perturbed(slow={5: 0.6}), perturbed(links={(1, "nic2>net"): 0.4})])
@pytest.mark.parametrize("family", ["zero3", "zero-topo"])
def test_faults_and_every_rank_by_itself(family: str, perturbation: Perturbation, exact: bool) -> None:
    whole(step(schedule(family, frontier_mesh(2)), perturbation=perturbation, exact=exact))


def test_without_overlap_all_of_a_step_is_on_the_path() -> None:
    """On one lane nothing is beside anything else: the path has every op of the critical rank's program but the
    hooks of the host."""
    one = step(schedule("zero3", frontier_mesh(2), overlap=False), fidelity="analytic")
    path = whole(one)
    assert len(path.links) >= sum(op.lane != "host" for op in one.program.ops)


SIZES: dict[str, dict[str, Any]] = {
    "tensor": {"stages": 4, "micros": 6, "tensor": 2, "data": 2},
    "tensor over nodes": {"stages": 4, "micros": 3, "tensor": 8, "data": 2},
    "exchanges apart": {"stages": 4, "micros": 4, "tensor": 4, "data": 2, "apart": True},
    "reductions apart": {"stages": 4, "micros": 4, "tensor": 2, "data": 4, "reduce_lane": "reduce"},
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("size", "order"), [*((size, "1f1b") for size in SIZES), ("tensor", "gpipe")])
def test_pipelines(size: str, order: Order, fault: str) -> None:
    made = Pipeline(order=order, **SIZES[size]).schedule()
    folded = whole(on_toy(made, perturbation=FAULTS[fault]))
    assert len({link.role for link in folded.links}) > 1
    if size == "tensor":
        exact = whole(on_toy(made, perturbation=FAULTS[fault], exact=True))
        assert exact.step_s == pytest.approx(folded.step_s, rel=1e-9)
        without = whole(on_toy(made, "analytic", FAULTS[fault]))
        assert fsum(part.sharing_s for part in without.parts()) == 0.0


@pytest.mark.parametrize("fault", FAULTS)
def test_interleaved_and_crossed_pipelines(fault: str) -> None:
    whole(on_toy(Interleaved(stages=4, micros=4, chunks=2, layers=2, data=2).schedule(), perturbation=FAULTS[fault]))
    whole(on_toy(Crossed(stages=2, micros=3, data=2).schedule(), perturbation=FAULTS[fault]))


@pytest.mark.parametrize(
    "options",
    [
        axonn(x=2, y=2, z=2),
        axonn(x=2, z=2, pipeline=2, oag=False),
        megatron(4, data="zero1"),
        megatron(2, pipeline=2, sequence_parallel=True, data="zero3"),
        megatron(2, pipeline=2, overlap_exchange=True, overlap_gradients=True, data="zero1"),
    ],
)
def test_grids(options: Any) -> None:
    whole(on_toy(schedule_of(options, 16, micros=4, node=(4, 2))))


def test_single_messages() -> None:
    """At fidelity chunk a collective counts from when all its ranks have issued it."""
    from simfrontier.scenario import load_scenario
    from simfrontier.study import ScheduleCache, simulated
    from tests.invoke import TOY

    scenario = load_scenario(TOY, {}, ("zero3", "zero-topo"), (8,))
    for plan in some(scenario.plans):
        whole(simulated(scenario, ScheduleCache().get(scenario, plan, 8), "chunk"))


def test_sharing_is_what_goes_beyond_the_time_alone() -> None:
    """Products beside gathers share memory and compute units: at fidelity flow some of them take longer than alone,
    and the path without that time is no longer than it is at fidelity analytic, where nobody shares."""
    made = schedule("zero3", frontier_mesh(2))
    path = whole(step(made))
    sharing_s = fsum(part.sharing_s for part in path.parts())
    assert sharing_s > 0.0
    assert path.step_s - sharing_s <= step(made, fidelity="analytic").step_s * (1 + 1e-9)


def test_equal_steps_have_equal_paths() -> None:
    made = schedule("zero-topo", frontier_mesh(2))
    assert critical_path(step(made)) == critical_path(step(made))


@settings(max_examples=12, deadline=None)
@given(
    stages=st.sampled_from([1, 2, 4]),
    micros=st.integers(1, 5),
    tensor=st.sampled_from([1, 2, 4]),
    data=st.sampled_from([1, 2]),
    layers=st.integers(1, 2),
    order=st.sampled_from(["gpipe", "1f1b"]),
    apart=st.booleans(),
    slow=st.none() | st.tuples(st.integers(0, 3), st.floats(0.3, 0.95)),
    fidelity=st.sampled_from(["flow", "analytic"]),
)
def test_small_pipelines_of_all_sizes(
    stages: int,
    micros: int,
    tensor: int,
    data: int,
    layers: int,
    order: Order,
    apart: bool,
    slow: tuple[int, float] | None,
    fidelity: Fidelity,
) -> None:
    one = Pipeline(
        stages=stages, micros=micros, tensor=tensor, data=data, layers=layers, order=order, apart=apart and stages > 1
    )
    ranks = stages * tensor * data
    ill = HEALTHY if slow is None or slow[0] >= ranks else perturbed(slow=dict([slow]))
    whole(on_toy(one.schedule(), fidelity, ill))


def test_a_wait_that_nothing_explains_is_a_link_of_its_own() -> None:
    """An op that is told to be ready 1 ms after all that it waited for has ended: the time between is a wait."""
    one = on_toy(Pipeline(stages=1, micros=1, step=False).schedule())
    line = one.timeline
    later = [times.copy() for times in (line.ready, line.start, line.end)]
    for times in later:
        times[:, 3:] += 1e-3
    (role,) = one.roles
    later_line = replace(line, ready=later[0], start=later[1], end=later[2])
    moved = replace(one, roles=(replace(role, timeline=later_line),))
    path = critical_path(moved)
    waits = [link for link in path.links if link.kind == WAIT]
    assert [link.seconds for link in waits] == [pytest.approx(1e-3, rel=1e-6)]
    assert fsum(link.seconds for link in path.links) == pytest.approx(one.step_s + 1e-3, rel=1e-9)
    assert waits[0].sharing_s == 0.0
