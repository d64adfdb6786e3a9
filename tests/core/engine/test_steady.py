"""Steady state: copied times equal those of an engine that copies none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.core.codecs import parse_codec
from simfrontier.core.collectives import load_library
from simfrontier.core.cost import price_states
from simfrontier.core.engine.context import EngineContext
from simfrontier.core.engine.engine import Engine
from simfrontier.core.engine.repeating import RepeatingEngine, Repetition
from simfrontier.core.engine.timeline import RoleTimeline, classes_of, view_of
from simfrontier.core.machine import HEALTHY, Perturbation, SlowDevice, load_machine
from simfrontier.core.program.ir import Collective, Op, Ref, Schedule
from simfrontier.core.program.segments import segmented_roles
from tests.core.engine.kernels import NAMES, kernel, of
from tests.core.engine.pipelines import Crossed, Interleaved, Pipeline
from tests.core.engine.steps import FOUR_LAYERS, frontier_mesh, schedule, step
from tests.perturbed import perturbed

NO_GAP = {"device.kernel_gap_s": 0.0}
LAYERS = replace(FOUR_LAYERS, name="twelve", num_layers=12)
Calls = tuple[Op, ...]


def runs(
    built: Schedule,
    perturbation: Perturbation = HEALTHY,
    overrides: Mapping[str, float] | None = None,
    whole: bool = True,
) -> tuple[tuple[RoleTimeline, ...], tuple[RoleTimeline, ...], list[Repetition]]:
    """The roles of the step with copied times, without, and what was copied."""
    begins, states = zip(*perturbation.states(0), strict=True)
    machine, library = load_machine("frontier", overrides), load_library("rccl")
    pricings = price_states(built, machine, library, states, exact=False, placement="block", in_classes=True)
    parts = segmented_roles(built, whole=whole)

    def made(engine: type[Engine]) -> Engine:
        context, *others = map(EngineContext, pricings)
        roles = zip(parts, classes_of(pricings[0], len(parts)), strict=True)
        return engine([(context, *role) for role in roles], list(zip(begins[1:], others, strict=True)))

    copying = made(RepeatingEngine)
    assert isinstance(copying, RepeatingEngine)
    return copying.run(), made(Engine).run(), copying.repetitions


def skipped(repetitions: list[Repetition]) -> int:
    """Program nodes of one rank class of each role that were not simulated."""
    return sum(int(step.sum()) * each.times for each in repetitions for step in each.steps)


def assert_equal(roles: tuple[RoleTimeline, ...], others: tuple[RoleTimeline, ...]) -> None:
    for one, other in zip(roles, others, strict=True):
        for here, there in ((one.timeline, other.timeline), (view_of(one).timeline, view_of(other).timeline)):
            for name in ("ready", "start", "end"):
                assert np.abs(getattr(here, name) - getattr(there, name)).max() < 1e-11, name


@pytest.mark.parametrize("family", ["zero3", "zero-topo"])
@pytest.mark.parametrize("overlap", [True, False])
def test_copied_times_are_those_of_every_op(family: str, overlap: bool) -> None:
    built = schedule(family, frontier_mesh(2), LAYERS, overlap=overlap)
    one, other, repetitions = runs(built)
    assert_equal(one, other)
    assert skipped(repetitions) > one[0].segmented.num_ops // 10


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
    assert any(np.ptp(each.counts[0][2], axis=0).any() for each in repetitions)


def test_micro_batches_are_copied_with_what_was_copied_in_them() -> None:
    one, other, repetitions = runs(schedule("zeropp", frontier_mesh(1), LAYERS, grad_accum=8))
    assert_equal(one, other)
    assert max(skipped([each]) for each in repetitions) > one[0].segmented.num_ops // 4


@pytest.mark.parametrize("share", [0.06, 0.11, 0.16, 0.21, 0.52])
def test_a_machine_that_changes_between_two_repetitions(share: float) -> None:
    """Twenty equal kernels; after a share of the step t both devices run at a quarter: 4 (1 - share) t remain."""
    built = of(*[(kernel("1", reads="d", writes="d"),)] * 20)
    t = step(built, "toy-pair", overrides=NO_GAP).step_s
    slow = tuple(SlowDevice(device=device, factor=0.25, from_s=share * t) for device in (0, 1))
    late = step(built, "toy-pair", perturbation=Perturbation(slow=slow), overrides=NO_GAP).step_s
    assert late == pytest.approx(share * t + 4 * (1 - share) * t, rel=1e-9)


PIPELINES = {
    "exchanges on the compute lane": Pipeline(stages=3, micros=12, tensor=2, layers=6),
    "exchanges beside calls that run op by op": Interleaved(micros=12, tensor=2, layers=1, rows=2048, hidden=1024),
    "sums along two axes": Crossed(micros=16),
}


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("slow", [0.8, 1.0])
@pytest.mark.parametrize("name", PIPELINES)
def test_micro_batches_of_pipelines_are_copied(name: str, slow: float, whole: bool) -> None:
    """Calls as one node or op by op, with rank classes that are equally fast and not."""
    one, other, repetitions = runs(PIPELINES[name].schedule(), perturbed(slow={1: slow}), whole=whole)
    assert_equal(one, other)
    assert skipped(repetitions) > sum(role.segmented.program.num_ops for role in one) // 4


@st.composite
def pipelines(draw: st.DrawFn) -> Pipeline:
    stages, layers = draw(st.integers(2, 3)), draw(st.sampled_from((1, 2, 5)))
    sizes = {"layers": layers, "tensor": draw(st.sampled_from((1, 2))), "rows": draw(st.sampled_from((64, 2048)))}
    if draw(st.booleans()):
        return Interleaved(stages=stages, micros=stages * draw(st.integers(2, 4)), chunks=2, **sizes)
    order = draw(st.sampled_from(("1f1b", "gpipe")))
    return Pipeline(stages=stages, micros=draw(st.integers(4, 10)), order=order, apart=draw(st.booleans()), **sizes)


@given(
    pipeline=pipelines(), slow=st.sampled_from((0.5, 0.9, 1.0)), whole=st.booleans(), gap_s=st.sampled_from((0.0, 1e-6))
)
@settings(deadline=None, max_examples=40)
def test_any_pipeline(pipeline: Pipeline, slow: float, whole: bool, gap_s: float) -> None:
    overrides = {"device.kernel_gap_s": gap_s}
    one, other, _ = runs(pipeline.schedule(), perturbed(slow={1: slow}), overrides, whole)
    assert_equal(one, other)


def test_a_call_that_began_in_another_way_is_not_copied() -> None:
    """An exchange slows the begin of a call down only the first time."""
    built = Interleaved(micros=12, tensor=2, chunks=3, layers=1, hidden=1024).schedule()
    one, other, repetitions = runs(built, overrides=NO_GAP)
    assert_equal(one, other)
    assert repetitions


def test_a_machine_that_changes_between_two_micro_batches() -> None:
    built = PIPELINES["exchanges on the compute lane"].schedule()
    middle_s = max(role.timeline.step_s for role in runs(built)[1]) / 2.0
    one, other, repetitions = runs(built, Perturbation(slow=(SlowDevice(device=1, factor=0.5, from_s=middle_s),)))
    assert_equal(one, other)
    assert len(repetitions) > 1
