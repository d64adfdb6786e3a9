"""Steady state: copied times equal those of an engine that copies none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.core.codecs import parse_codec
from simfrontier.core.collectives import load_library
from simfrontier.core.cost import price
from simfrontier.core.engine.context import EngineContext
from simfrontier.core.engine.engine import Engine
from simfrontier.core.engine.repeating import RepeatingEngine, Repetition
from simfrontier.core.engine.timeline import RoleTimeline
from simfrontier.core.machine import HEALTHY, Perturbation, SlowDevice, load_machine
from simfrontier.core.program.ir import Collective, Op, Ref, Schedule
from simfrontier.core.program.segments import segmented_roles
from tests.core.engine.kernels import NAMES, kernel, of
from tests.core.engine.steps import FOUR_LAYERS, frontier_mesh, schedule, step
from tests.perturbed import perturbed

NO_GAP = {"device.kernel_gap_s": 0.0}
LAYERS = replace(FOUR_LAYERS, name="twelve", num_layers=12)
Calls = tuple[Op, ...]


def runs(
    built: Schedule, exact: bool = False, perturbation: Perturbation = HEALTHY
) -> tuple[RoleTimeline, RoleTimeline, list[Repetition]]:
    """The step with copied times, without, and what was copied."""
    pricing = price(built, load_machine("frontier"), load_library("rccl"), perturbation, exact)
    parts = segmented_roles(built)
    every = tuple(range(pricing.folding.num_rank_classes))
    copying = RepeatingEngine(EngineContext(pricing), parts[0], every)
    plain = Engine([(EngineContext(pricing), parts[0], every)])
    (one,), (other,) = copying.run(), plain.run()
    return one, other, copying.repetitions


def skipped(repetitions: list[Repetition]) -> int:
    """Ops of one rank class that were not simulated."""
    return sum(int(each.step.sum()) * each.times for each in repetitions)


def assert_equal(one: RoleTimeline, other: RoleTimeline) -> None:
    for name in ("ready", "start", "end"):
        here, there = getattr(one.timeline, name), getattr(other.timeline, name)
        assert np.abs(here - there).max() < 1e-11, name


@pytest.mark.parametrize("family", ["zero3", "zero-topo"])
@pytest.mark.parametrize("overlap", [True, False])
def test_copied_times_are_those_of_every_op(family: str, overlap: bool) -> None:
    built = schedule(family, frontier_mesh(2), LAYERS, overlap=overlap)
    one, other, repetitions = runs(built)
    assert_equal(one, other)
    assert skipped(repetitions) > one.segmented.program.num_ops // 10


def gather(lane: str, source: str, target: str) -> Collective:
    """A call of both devices, for which the faster waits."""
    refs = {"src": (Ref(source),), "dst": (Ref(target),)}
    codec = parse_codec("fp32")
    return Collective(kind="all_gather", name="3", axes=("gcd",), codec=codec, lane=lane, comm=lane, **refs)


OPS = st.builds(
    kernel,
    st.sampled_from(("1", "2")),
    lane=st.sampled_from(("compute", "side", "other")),
    reads=st.sampled_from(("", *NAMES)),
    writes=st.sampled_from(("", *NAMES)),
)
GATHERS = st.builds(gather, st.sampled_from(("compute", "side")), st.sampled_from(NAMES), st.sampled_from(NAMES))
CALLS = st.lists(OPS | GATHERS, min_size=1, max_size=4).map(tuple)


@given(call=CALLS, odd=st.lists(st.tuples(st.integers(0, 20), CALLS), max_size=2), slow=st.sampled_from((0.5, 1.0)))
@settings(deadline=None, max_examples=60)
def test_any_calls_again_and_again_with_others_between(call: Calls, odd: list[tuple[int, Calls]], slow: float) -> None:
    calls = [call] * 20
    for place, other in odd:
        calls.insert(place, other)
    one, other_times, repetitions = runs(of(*calls), perturbation=perturbed(slow={1: slow}))
    assert_equal(one, other_times)
    if not odd and slow == 1.0 and {op.lane for op in call} == {"compute"}:
        assert repetitions


def test_rank_classes_that_are_not_equally_far() -> None:
    built = schedule("zero3", frontier_mesh(2), LAYERS)
    one, other, repetitions = runs(built, perturbation=perturbed(slow={3: 0.8}))
    assert_equal(one, other)
    assert any(np.ptp(each.counts[2], axis=0).any() for each in repetitions)


def test_micro_batches_are_copied_with_what_was_copied_in_them() -> None:
    one, other, repetitions = runs(schedule("zeropp", frontier_mesh(1), LAYERS, grad_accum=8))
    assert_equal(one, other)
    assert max(skipped([each]) for each in repetitions) > one.segmented.program.num_ops // 4


@pytest.mark.parametrize("share", [0.06, 0.11, 0.16, 0.21, 0.52])
def test_a_machine_that_changes_between_two_repetitions(share: float) -> None:
    """Twenty equal kernels; after a share of the step t both devices run at a quarter: 4 (1 - share) t remain."""
    built = of(*[(kernel("1", reads="d", writes="d"),)] * 20)
    t = step(built, "toy-pair", overrides=NO_GAP).step_s
    slow = tuple(SlowDevice(device=device, factor=0.25, from_s=share * t) for device in (0, 1))
    late = step(built, "toy-pair", perturbation=Perturbation(slow=slow), overrides=NO_GAP).step_s
    assert late == pytest.approx(share * t + 4 * (1 - share) * t, rel=1e-9)
