"""Resampling: the nominal sample is the simulated step; with errors by hand; monotone and homogeneous."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from simfrontier.core.collectives import load_library
from simfrontier.core.engine import Fidelity, RoleTimeline, SimulatedStep, Timeline, simulate_step
from simfrontier.core.engine.durations import SimulatedDurations
from simfrontier.core.engine.resample import DurationFactors, _SampledDurations, resampled_s
from simfrontier.core.engine.step_path import StepPath
from simfrontier.core.machine import load_machine
from simfrontier.core.program.expansion import ExpandedProgram
from simfrontier.core.program.ir import Compute, Role
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.program.segments import SegmentedProgram
from simfrontier.core.workload import find_model
from tests.core.engine.pipelines import Pipeline
from tests.core.engine.steps import NAMED, frontier_mesh, schedule, step
from tests.perturbed import perturbed


def factors(
    done: SimulatedStep, of_op: NDArray[np.float64], of_class: NDArray[np.float64], on_device: object = True
) -> DurationFactors:
    """Factors of the ops of a program without noise; of an op that stands there several times those of the last."""
    slowed = np.broadcast_to(np.array(on_device), (len(of_op),)).tolist()
    numbers = [op.number for op in done.program.ops]
    return DurationFactors(
        of_op=dict(zip(numbers, np.log(of_op), strict=True)),
        of_class=of_class,
        on_device=dict(zip(numbers, slowed, strict=True)),
        run_sd=0.0,
        noise=[np.zeros(of_op.shape)],
    )


def ones(done: SimulatedStep, num_samples: int = 1) -> DurationFactors:
    classes = done.pricing.folding.num_rank_classes
    return factors(done, np.ones((done.program.num_ops, num_samples)), np.ones((classes, num_samples)))


# ── without errors ──


@pytest.mark.parametrize("family", NAMED)
def test_without_errors_it_is_the_simulated_step(family: str) -> None:
    done = step(schedule(family, frontier_mesh(2)))
    assert resampled_s(done, ones(done)) == pytest.approx(done.step_s, rel=1e-9)


@pytest.mark.parametrize("fidelity", ["analytic", "flow", "chunk"])
@pytest.mark.parametrize("family", ["zeropp"])
def test_without_errors_it_is_the_simulated_step_rank_by_rank_at_every_fidelity(
    family: str, fidelity: Fidelity
) -> None:
    built = schedule(family, Mesh((("node", 2), ("package", 2), ("gcd", 2))), find_model("tiny"))
    ill = perturbed(slow={1: 0.5})
    done = simulate_step(built, load_machine("toy-cluster"), load_library("rccl"), fidelity, ill, exact=True)
    assert done.pricing.folding.num_rank_classes == 8
    assert resampled_s(done, ones(done)) == pytest.approx(done.step_s, rel=1e-9)


# ── with errors ──


def by_hand() -> SimulatedStep:
    """Two rank classes; the compute lane has a, c, d, the gather lane b, for which the classes meet.

    a takes 1 s on class 0 and 2 s on class 1; b waits for a and takes 3 s: 2 to 5 on both; c takes 4 s: 1 to 5 and 2 to
    6; d waits for b as well and takes 1 s: 5 to 6 and 6 to 7.
    """
    a, c, d = (Compute(kind="gelu", name=name, number=number) for number, name in enumerate("acd"))
    b: Any = SimpleNamespace(name="b", number=3, lane="gather")
    program = ExpandedProgram(
        lanes=("compute", "gather"),
        ops=[a, b, c, d],
        calls=[],
        lane=[0, 1, 0, 0],
        position=[0, 0, 1, 2],
        waits=[(), ((0, 1),), (), ((1, 1),)],
        reads=[],
        writes=[],
        accumulates=[],
    )
    start = np.array([[0.0, 2.0, 1.0, 5.0], [0.0, 2.0, 2.0, 6.0]])
    end = np.array([[1.0, 5.0, 5.0, 6.0], [2.0, 5.0, 6.0, 7.0]])
    meets = {"together": np.array([0, 0]), "alone": np.array([0, 1])}
    pricing: Any = SimpleNamespace(
        schedule=None,
        role_of=np.array([0, 0]),
        role_assignment=SimpleNamespace(is_shared=lambda _: False),
        of=lambda op: SimpleNamespace(pattern="together" if op is b else "alone"),
        folding=SimpleNamespace(activity_of=meets.__getitem__, num_rank_classes=2),
    )
    (role,) = [SegmentedProgram.of_ops(pricing.schedule, Role("all", ()), program)]
    timeline = Timeline(ready=start, start=start, end=end)
    times = RoleTimeline(segmented=role, classes=(0, 1), timeline=timeline, by_class={}, by_node={})
    return SimulatedStep(schedule=None, pricing=pricing, fidelity="flow", roles=(times,))  # type: ignore[arg-type]


def test_a_step_worked_by_hand() -> None:
    of_op, of_class = np.ones((4, 5)), np.ones((2, 5))
    of_op[1, 1] = 2.0  # b 2 to 8, so d 8 to 9
    of_class[0, 2] = 3.0  # class 0: a 0 to 3, c 3 to 15, d 15 to 18
    of_class[1, 3] = 2.0  # class 1: a 0 to 4, c 4 to 12, d 12 to 14
    of_op[1, 4], of_class[1, 4] = 0.5, 0.5  # a 1 s on both: b 1 to 2.5; class 0: c 1 to 5, d 5 to 6
    done = by_hand()
    samples = resampled_s(done, factors(done, of_op, of_class, [True, False, True, True]))
    assert samples.tolist() == pytest.approx([7.0, 9.0, 18.0, 14.0, 6.0], rel=1e-12)


def test_noise_of_single_calls_comes_on_top_of_what_all_calls_of_an_op_share() -> None:
    """b takes 3 s; twice as long in all its calls and 1.5 times in this one: 2 to 11, so d 11 to 12. The noise of c, a
    kernel, is not looked at."""
    done, of_op = by_hand(), np.ones((4, 1))
    of_op[1] = 2.0
    noise = np.zeros((4, 1))
    noise[1], noise[2] = np.log(1.5) / 0.25, 8.0
    noisy = replace(factors(done, of_op, np.ones((2, 1))), run_sd=0.25, noise=[noise])
    assert resampled_s(done, noisy).tolist() == pytest.approx([12.0], rel=1e-12)


@cache
def several_classes() -> SimulatedStep:
    built = schedule("zero-topo", Mesh((("node", 2), ("package", 2), ("gcd", 2))), find_model("tiny"))
    return simulate_step(built, load_machine("toy-cluster"), load_library("rccl"))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), scale=st.floats(0.1, 10.0))
def test_all_times_as_many_times_longer_make_the_step_as_many_times_longer(seed: int, scale: float) -> None:
    done, random = several_classes(), np.random.default_rng(seed)
    of_op = np.exp(random.normal(size=(done.program.num_ops, 3)))
    of_class = np.ones((done.pricing.folding.num_rank_classes, 3))
    once, scaled = (resampled_s(done, factors(done, of_op * by, of_class)) for by in (1.0, scale))
    assert scaled == pytest.approx(scale * once, rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_longer_op_never_makes_a_step_shorter(seed: int) -> None:
    done, random = several_classes(), np.random.default_rng(seed)
    of_op = np.exp(random.normal(size=(done.program.num_ops, 3)))
    of_class = np.exp(random.normal(size=(done.pricing.folding.num_rank_classes, 3)))
    longer = of_op * random.choice([1.0, 1.5], size=of_op.shape)
    more = of_class * random.choice([1.0, 1.5], size=of_class.shape)
    before, after = resampled_s(done, factors(done, of_op, of_class)), resampled_s(done, factors(done, longer, more))
    assert (after >= before).all()


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("tensor", [1, 4])
def test_layers_in_one_go_take_as_long_as_one_by_one(tensor: int, apart: bool) -> None:
    """Of a pipeline with noise in every call and a speed of its own for each rank class."""
    pipeline = Pipeline(stages=2, micros=4, layers=6, tensor=tensor, data=2, apart=apart)
    done = simulate_step(pipeline.schedule(), load_machine("frontier"), load_library("rccl"))
    random = np.random.default_rng(1)
    numbers = [op.number for op in done.schedule.ops]
    varied = DurationFactors(
        of_op={number: random.normal(size=5) for number in numbers},
        of_class=np.exp(random.normal(size=(done.pricing.folding.num_rank_classes, 5))),
        on_device=dict.fromkeys(numbers, True),
        run_sd=0.5,
        noise=[random.normal(size=(role.segmented.program.num_ops, 5)) for role in done.roles],
    )
    path = StepPath(_SampledDurations(done, varied))
    one_by_one = np.max([end.max(axis=0) for *_, end in path.passed()], axis=0)
    assert sum(1 for _ in path.passed(in_runs=True)) < sum(1 for _ in path.passed())
    assert resampled_s(done, varied) == pytest.approx(one_by_one, rel=1e-12)

    without_noise = SimulatedDurations(done.pricing, done.roles, 1, lambda op, _: np.full((1, 1), 2.0))
    assert StepPath(without_noise).step_s() == pytest.approx(2.0 * done.step_s, rel=1e-9)
