"""Where a step's time goes: worked by hand, counted moment by moment, and summing to the step in every family."""

from __future__ import annotations

from itertools import permutations
from math import fsum
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
from hypothesis import given, strategies as st

from simfrontier.analysis import Exposure, exposure, time_spent
from simfrontier.analysis.attribution import compute_equal, differences, is_equal
from simfrontier.analysis.exposed_time import IDLE, SLOWED, TimeSpent
from simfrontier.codecs import parse_codec
from simfrontier.collectives import algorithm
from simfrontier.schedule import Collective, Compute, Op
from simfrontier.simulation import LEVELS, Fidelity, SimulatedStep
from tests.simulation.pipelines import Order, Pipeline
from tests.simulation.steps import NAMED, frontier_mesh, schedule, step
from tests.simulation.test_pipelines import library, run
from tests.some import some

GATHER, REDUCE = "all_gather", "reduce_scatter"


class Span(NamedTuple):
    """An op of a step that is made up: of a lane, `compute` (a kernel), `codec` or `host`, or over a level; `alone` is
    what a kernel takes with nothing beside it."""

    where: str
    kind: str
    ready: int
    start: int
    end: int
    alone: float = 0.0


def made(*spans: Span) -> SimulatedStep:
    """A step of which only the critical rank is known."""
    ops: list[Op] = []
    for number, span in enumerate(spans):
        if span.where in LEVELS:
            axes = (span.where,)
            codec = parse_codec("fp16")
            ops.append(Collective(kind=cast(Any, span.kind), name="", axes=axes, src=(), dst=(), codec=codec))
        else:
            ops.append(Compute(kind=span.kind, name=str(number), lane=span.where))
    alone = {op.number: span.alone for op, span in zip(ops, spans, strict=True)}
    times = {name: np.array([[float(getattr(span, name)) for span in spans]]) for name in ("ready", "start", "end")}
    pricing = SimpleNamespace(
        role_assignment=SimpleNamespace(is_shared=lambda _: False),
        work_of=lambda op, _: SimpleNamespace(alone_s=alone[op.number]),
    )
    mesh = SimpleNamespace(live=lambda axes: axes)
    one = SimpleNamespace(
        ops=ops,
        timeline=SimpleNamespace(**times),
        critical=0,
        critical_row=0,
        pricing=pricing,
        schedule=SimpleNamespace(mesh=mesh),
        step_s=float(max(span.end for span in spans)),
        times_as_long=None,
        level=lambda op: op.axes[0],
    )
    return cast(SimulatedStep, one)


def seconds(time: TimeSpent) -> dict[tuple[str, str], float]:
    return {(part.spent, part.kind): part.seconds for part in time.parts}


def whole(one: SimulatedStep) -> TimeSpent:
    """Where the time goes, after seeing that the parts sum to the step and to the parts of `exposure`."""
    time, totals = time_spent(one), exposure(one)
    assert time.step_s == one.step_s
    assert fsum(part.seconds for part in time.parts) == pytest.approx(one.step_s, rel=1e-9)
    for spent in Exposure.__slots__:
        mine = fsum(part.seconds for part in time.parts if part.spent == spent)
        assert mine == pytest.approx(getattr(totals, spent), rel=1e-9, abs=1e-9 * one.step_s), spent
    assert time.compute_s == pytest.approx(totals.compute, rel=1e-9)
    assert [part.seconds for part in time.parts] == sorted((part.seconds for part in time.parts), reverse=True)
    return time


# ── by hand ──


def test_a_rank_with_two_lanes_by_hand() -> None:
    """A kernel from 0 to 4 (3 alone), and another from 6 to 10 (4 alone): compute is 3 + 4, and 1 by which the first is
    slowed. A gather between nodes that is asked for at 1 and runs from 3 to 5 is exposed from 4 to 5. A reduction
    inside the node, from 4 to 12, has only what the gather and the kernels leave: 5 to 6 and 10 to 12. Encoding from 11
    to 13 has 12 to 13. Then nothing until a hook of the host ends at 15: 2 idle. 7 + 1 + 1 + 3 + 1 + 2 = 15."""
    time = whole(
        made(
            Span("compute", "matmul", 0, 0, 4, 3.0),
            Span("compute", "matmul", 6, 6, 10, 4.0),
            Span("inter_node", GATHER, 1, 3, 5),
            Span("intra_node", REDUCE, 4, 4, 12),
            Span("codec", "encode", 11, 11, 13),
            Span("host", "hook", 13, 13, 15),
        )
    )
    assert seconds(time) == {
        ("compute", "matmul"): 7.0,
        ("compute", SLOWED): 1.0,
        ("inter_node", GATHER): 1.0,
        ("intra_node", REDUCE): 3.0,
        ("codec", "encode"): 1.0,
        ("idle", IDLE): 2.0,
    }
    assert {part.kind: part.calls for part in time.parts}["matmul"] == 2
    assert time.compute_s == 8.0


def test_of_calls_at_once_the_first_has_the_moment_and_waiting_counts() -> None:
    """A gather waits from 0 and runs from 2 to 4, a reduction of the same level runs from 1 to 7: 4 and 3. What begins
    and ends within it, from 2 to 3, has nothing, and is no part."""
    time = whole(
        made(
            Span("inter_node", GATHER, 0, 2, 4),
            Span("inter_node", REDUCE, 1, 1, 7),
            Span("inter_node", "all_reduce", 2, 2, 3),
        )
    )
    assert seconds(time) == {("inter_node", GATHER): 4.0, ("inter_node", REDUCE): 3.0}


def test_a_gather_behind_a_product_costs_nothing_and_compute_is_equal() -> None:
    """Two plans with the same product of 5 s. One gathers for 3 s before it; the other beside it, which slows the
    product by 1 s. Compute is equal; 3 s less of exposed gathers, 1 s more of slowed compute: 6 - 8 = -3 + 1 s."""
    gather = Span("package", GATHER, 0, 0, 3)
    before = whole(made(gather, Span("compute", "matmul", 3, 3, 8, 5.0)))
    beside = whole(made(gather, Span("compute", "matmul", 0, 0, 6, 5.0)))
    parts = differences(beside, before)
    assert {part.kind: part.seconds for part in parts} == {GATHER: -3.0, SLOWED: 1.0, "matmul": 0.0}
    assert compute_equal(parts)
    shorter = whole(made(gather, Span("compute", "matmul", 0, 0, 6, 4.0)))  # another product, which is slowed by 2 s
    assert not compute_equal(differences(shorter, before))


def test_a_step_of_two_stages_by_hand() -> None:
    """As in tests/analysis/test_critical.py: stage 0 ends last. It runs F and B of its one layer: products p and 2 p,
    casts 2 t, gelu t, additions 2 a; it is in both exchanges, 2 e; and is idle while stage 1 runs its F and B:
    3 p + 2 t + t + 2 a."""
    edge = (512 * 256**2) ** (1 / 3)
    p = 1e-6 + 2 * 512 * 256**2 / (2e12 * edge / (edge + 100.0))
    t, a = 1e-6 + 2 * 262_144 / 100e9, 1e-6 + 3 * 262_144 / 100e9
    e = 262_144 / (10e9 * algorithm("direct").shares_of(library(), {"xgmi": 1.0})["xgmi"])
    time = whole(run(Pipeline(stages=2, micros=1, layers=1, step=False)))
    wanted = {
        ("compute", "matmul"): 3 * p,
        ("compute", "cast"): 2 * t,
        ("compute", "gelu"): t,
        ("compute", "add"): 2 * a,
        ("package", "exchange"): 2 * e,
        ("idle", IDLE): 3 * p + 3 * t + 2 * a,
    }
    assert seconds(time) == pytest.approx(wanted, rel=1e-9)


# ── against a count of moments ──


@st.composite
def steps(draw: st.DrawFn) -> list[Span]:
    """Kernels one after the other, and anything beside them, at whole seconds."""
    spans, now = [], 0
    for _ in range(draw(st.integers(0, 4))):
        start = now + draw(st.integers(0, 3))
        now = start + draw(st.integers(1, 4))
        alone = draw(st.integers(1, 4 * (now - start))) / 4
        spans.append(Span("compute", draw(st.sampled_from(("matmul", "gelu"))), start, start, now, alone))
    for _ in range(draw(st.integers(0 if spans else 1, 6))):
        where = draw(st.sampled_from((*LEVELS, "codec", "host")))
        ready = draw(st.integers(0, 12))
        start = ready + draw(st.integers(0, 3))
        kind = draw(st.sampled_from((GATHER, REDUCE))) if where in LEVELS else "encode"
        spans.append(Span(where, kind, ready, start, start + draw(st.integers(0, 5))))
    return spans


def counted(spans: list[Span]) -> dict[tuple[str, str], float]:
    """Second by second: who has it, by the rules as they are told."""
    out: dict[tuple[str, str], float] = {}
    end = max(span.end for span in spans)
    for second in range(end):
        owner = ("idle", IDLE)
        for where in reversed(("compute", *LEVELS, "codec")):
            begin = {id(span): span.ready if where in LEVELS else span.start for span in spans}
            mine = [span for span in spans if span.where == where and begin[id(span)] <= second < span.end]
            if mine:
                owner = (where, min(mine, key=lambda span: begin[id(span)]).kind)
        out[owner] = out.get(owner, 0.0) + 1.0
    kernels = [span for span in spans if span.where == "compute"]
    for kind in {span.kind for span in kernels}:
        taken = out["compute", kind]
        out["compute", kind] = sum(span.alone for span in kernels if span.kind == kind)
        slowed = out.get(("compute", SLOWED), 0.0) + taken - out["compute", kind]
        out["compute", SLOWED] = slowed
    return {key: value for key, value in out.items() if value}


@given(steps())
def test_every_moment_has_one_owner(spans: list[Span]) -> None:
    if max(span.end for span in spans) == 0:
        return
    assert seconds(whole(made(*spans))) == counted(spans)


@given(steps(), steps())
def test_differences_of_any_two_steps_sum_to_their_difference(first: list[Span], second: list[Span]) -> None:
    if min(max(span.end for span in spans) for spans in (first, second)) == 0:
        return
    a, b = whole(made(*first)), whole(made(*second))
    assert fsum(part.seconds for part in differences(a, b)) == pytest.approx(a.step_s - b.step_s, abs=1e-9)
    assert all(is_equal(part) for part in differences(a, a))


# ── real schedules ──


@pytest.mark.parametrize("fidelity", ["flow", "analytic"])
def test_families_of_zero_have_equal_compute_in_the_model(fidelity: Fidelity) -> None:
    """The same model on the same devices: products, softmax, GELU and additions are the same in every plan, to the last
    bit, though much of them runs behind messages; and in every pair the parts sum to the difference."""
    times = {name: whole(step(schedule(name, frontier_mesh(2)), fidelity=fidelity)) for name in NAMED}
    for one, other in some(permutations(times.values(), 2)):
        parts = differences(one, other)
        assert fsum(part.seconds for part in parts) == pytest.approx(one.step_s - other.step_s, abs=1e-9 * one.step_s)
        model = {part.kind: part for part in parts if part.kind in ("matmul", "softmax", "gelu", "add")}
        assert len(model) == 4 and model["matmul"].a_s > 0.0
        assert all(part.seconds == 0.0 and is_equal(part) for part in model.values())
    slowed = [part for time in times.values() for part in time.parts if part.kind == SLOWED]
    assert bool(slowed) == (fidelity == "flow")  # with nothing beside them, kernels are as long as alone


@pytest.mark.parametrize("order", ["gpipe", "1f1b"])
def test_pipelines(order: Order) -> None:
    for stages, micros in ((2, 4), (4, 3)):
        for apart in (False, True):
            whole(run(Pipeline(stages=stages, micros=micros, order=order, apart=apart)))
