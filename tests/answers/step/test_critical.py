"""The critical path: worked by hand, whole and without gaps in every family, order and fidelity, and where ranks wait
for others."""

from __future__ import annotations

from itertools import pairwise
from math import fsum

import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.answers.step.critical import WAIT, CriticalPath, critical_path
from simfrontier.core.collectives import algorithm, load_library
from simfrontier.core.engine import Fidelity, SimulatedStep, simulate_step
from simfrontier.core.machine import HEALTHY, Perturbation, load_machine
from simfrontier.core.program.ir import Schedule
from tests.core.engine.pipelines import Order, Pipeline
from tests.core.engine.steps import NAMED, frontier_mesh, schedule, step
from tests.core.engine.test_pipelines import library, run
from tests.perturbed import perturbed


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


def test_a_step_of_two_stages_by_hand() -> None:
    """One layer and one micro-batch on two devices of a package, in times as in tests/core/engine/test_pipelines.py:
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


@pytest.mark.parametrize("fidelity", ["flow", "analytic"])
@pytest.mark.parametrize("family", NAMED)
def test_the_families_of_zero(family: str, fidelity: Fidelity) -> None:
    made = schedule(family, frontier_mesh(2), grad_accum=2)
    path = whole(step(made, fidelity=fidelity))
    assert path.parts()[0].kind in ("matmul", "all_gather", "reduce_scatter", "all_reduce")
    if fidelity == "analytic":
        assert fsum(part.sharing_s for part in path.parts()) == 0.0


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
