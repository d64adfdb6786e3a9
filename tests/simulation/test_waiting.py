"""Waiting for the last rank: worked by hand, the same folded and exact, and what launches that differ come to."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.analysis.uncertainty import Spread, factors, sampled_waits, spread_of
from simfrontier.collectives import Residual, load_library
from simfrontier.machine import load_machine
from simfrontier.schedule import Compute
from simfrontier.simulation import SimulatedStep, Timeline, simulate_step
from simfrontier.simulation.resample import DurationFactors, resampled, resampled_s, runs_of
from simfrontier.simulation.waiting import TypicalWaits
from tests.simulation.steps import NAMED, frontier_mesh, schedule, step

NO_LAW = Residual(model_sd=0.0, run_sd=0.0)


def slowed(done: SimulatedStep, by: float, num_samples: int = 1) -> DurationFactors:
    """All devices' kernels take so many times as long in their slowest members; hooks and calls as simulated."""
    classes = done.pricing.folding.num_rank_classes
    return DurationFactors(
        of_op={},
        of_class=np.full((classes, num_samples), by),
        on_device={op.number: isinstance(op, Compute) and op.kind != "hook" for op in done.schedule.distinct_ops()},
        run_sd=0.0,
        noise=[np.zeros((len(role.segmented.program.ops), num_samples)) for role in done.roles],
    )


def test_two_calls_by_hand() -> None:
    """Kernel, call, kernel, call on one lane. A quarter of the ranks is in the first row, three quarters in the second.
    The slowest members are at the first call after 5 and 4 s, the call takes 1 s; at the second after 10 and 9 s.
    Typical members need 3 and 2 s for the first kernel, 2 s for the second.

    First call: starts at 5; waits 5 - 3 and 5 - 2: 0.25 · 2 + 0.75 · 3 = 2.75. It ends at 6; typical members are at the
    second at 8, which starts at 10: 2 for all.
    """
    kernel, first, second = Compute(kind="matmul", name="kernel"), call("first"), call("second")
    program = SimpleNamespace(ops=[kernel, first, replace(kernel, number=1), second])
    path = SimpleNamespace(
        parts=[SimpleNamespace(program=program, blocks=[None] * 4)],
        before=[[[], [0], [1], [2]]],
        rows=[np.array([0, 1])],
        pricing=SimpleNamespace(folding=SimpleNamespace(rank_class=np.array([0, 1, 1, 1]))),
        durations=SimpleNamespace(num_variations=1),
    )
    end = np.array([[3.0, 4.0, 6.0, 7.0], [2.0, 4.0, 6.0, 7.0]])  # of typical members by themselves
    start = np.array([[0.0, 3.0, 4.0, 6.0], [0.0, 3.0, 4.0, 6.0]])
    roles = [SimpleNamespace(timeline=Timeline(ready=start, start=start, end=end))]
    waits = TypicalWaits(path, roles, {})  # type: ignore[arg-type]
    for node, began, ended in ((0, [0, 0], [5, 4]), (1, [5, 5], [6, 6]), (2, [6, 6], [10, 9]), (3, [10, 10], [11, 11])):
        waits.note((0, node), *(np.array([each], float).T for each in (began, ended)))
    assert {name: each.tolist() for name, each in waits.by_call.items()} == {"first": [2.75], "second": [2.0]}


def call(name: str) -> SimpleNamespace:
    return SimpleNamespace(name=name, number=2)


@pytest.mark.parametrize("family", NAMED)
def test_where_nothing_is_beside_kernels_all_waiting_is_in_the_step(family: str) -> None:
    """With slowest members at 1.25, typical ones wait in calls for what the step grows by: no call is hidden, and the
    last kernels, Adam's, end together but for the slowest members' own quarter more, which is no wait in a call."""
    done = step(schedule(family, frontier_mesh(2), overlap=False))
    made = resampled(done, slowed(done, 1.25))
    longer = made.step_s[0] - resampled_s(done, slowed(done, 1.0))[0]
    waited = sum(each[0] for each in made.waited_s.values())
    after = _kernels_after_the_last_call_s(done)
    assert waited == pytest.approx(longer - 0.25 * after, rel=1e-9)


def _kernels_after_the_last_call_s(done: SimulatedStep) -> float:
    ops = done.program.ops
    last = max(node for node, op in enumerate(ops) if not isinstance(op, Compute))
    timeline = done.roles[0].timeline
    took = (timeline.end - timeline.start).max(axis=0)
    return float(sum(took[node] for node in range(last + 1, len(ops)) if ops[node].kind != "hook"))


@pytest.mark.parametrize("family", NAMED)
@pytest.mark.parametrize("overlap", [True, False])
def test_with_typical_devices_alone_nobody_waits(family: str, overlap: bool) -> None:
    done = step(schedule(family, frontier_mesh(2), overlap=overlap))
    assert sum(each[0] for each in resampled(done, slowed(done, 1.0)).waited_s.values()) == pytest.approx(0.0, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(NAMED), st.booleans(), st.floats(1.0, 2.0), st.floats(1.0, 2.0))
def test_the_slower_the_slowest_the_longer_the_waits(family: str, overlap: bool, one: float, other: float) -> None:
    done = step(schedule(family, frontier_mesh(1), overlap=overlap))
    low, high = (resampled(done, slowed(done, by)).waited_s for by in sorted((one, other)))
    assert low.keys() == high.keys()
    assert all((high[name] >= low[name] - 1e-12).all() and (low[name] >= 0.0).all() for name in low)


@pytest.mark.parametrize("family", ["zero3", "zero-topo"])
def test_folded_waits_are_the_exact_ones(family: str) -> None:
    built = schedule(family, frontier_mesh(2))
    folded, exact = (step(built, exact=exact) for exact in (False, True))
    ours, theirs = (resampled(each, slowed(each, 1.1)).waited_s for each in (folded, exact))
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert ours[name] == pytest.approx(theirs[name], rel=1e-9)


def test_sampled_waits_are_those_of_the_sampled_steps() -> None:
    done = step(schedule("zero3", frontier_mesh(2)))
    one, again, other = (sampled_waits(done, "zero3", 20, seed) for seed in (1, 1, 2))
    assert one is not None and again is not None and other is not None
    assert (one.in_step_s == again.in_step_s).all() and (one.in_step_s != other.in_step_s).any()
    assert (one.in_step_s > 0.0).all()
    assert sampled_waits(done, "zero3", 0, 1) is None
    alike = simulate_step(done.schedule, load_machine("frontier", {"device.speed_sd": 0.0}), load_library("rccl"))
    assert sampled_waits(alike, "zero3", 20, 1) is None


# ── launches that differ ──


def test_runs_of_kernels_by_hand() -> None:
    """Kernels of 3 and 4 s, a call on the lane, one of 2 s, and two of 1 s of which the first waits for a call on
    another lane: three runs, sqrt(9 + 16) / 7, 1, and sqrt(2) / 2."""
    kernel, call = Compute(kind="matmul", name="k"), SimpleNamespace()
    ops = [kernel, kernel, call, kernel, call, kernel, kernel]
    program = SimpleNamespace(ops=ops, lanes=["compute", "gather"], by_lane=[[0, 1, 2, 3, 5, 6], [4]])
    part: Any = SimpleNamespace(program=program, blocks=[None] * 7)
    before = [[], [0], [1], [2], [], [3, 4], [5, 4]]
    runs = runs_of(part, before, [3.0, 4.0, 9.0, 2.0, 9.0, 1.0, 1.0])
    assert runs == {
        0: (0, pytest.approx(5 / 7)),
        1: (0, pytest.approx(5 / 7)),
        3: (1, 1.0),
        5: (2, pytest.approx(2**0.5 / 2)),
        6: (2, pytest.approx(2**0.5 / 2)),
    }


@pytest.mark.parametrize("ranks", [2, 16])
@pytest.mark.parametrize("sd", [0.01, 0.03])
def test_launches_of_a_class_are_as_those_of_its_members_one_by_one(ranks: int, sd: float) -> None:
    """ddp without overlap: its kernels, whose launches differ on every rank, then calls. Every rank on its own: the
    largest of sums of kernels that each take 1 + sd ε times as long. Means of 2,000 samples, of what they add."""
    done = step(schedule("ddp", frontier_mesh(ranks // 8) if ranks > 8 else _few(ranks), overlap=False))
    spread = Spread(law=NO_LAW, speed_sd=0.0, matmul_sd=0.0, call_sd=sd)
    made = factors(done, spread, "ddp", 2000, 1)
    folded = resampled_s(done, made).mean() - done.step_s
    timeline, parts = done.roles[0].timeline, done.roles[0].segmented
    took = (timeline.end - timeline.start).mean(axis=0)
    runs = runs_of(parts, parts.program.before, took.tolist())
    rng, one_by_one = np.random.default_rng(3), 0.0
    for number in {run for run, _ in runs.values()}:
        times = np.array([took[node] for node, (run, _) in runs.items() if run == number])
        each = [(times * (1.0 + sd * rng.standard_normal((ranks, len(times))))).sum(axis=1).max() for _ in range(2000)]
        one_by_one += np.mean(each) - times.sum()
    assert folded == pytest.approx(one_by_one, rel=0.1)
    assert folded > 0.0


def _few(ranks: int) -> Any:
    from simfrontier.schedule import Mesh

    return Mesh((("node", 1), ("package", 1), ("gcd", ranks)))


def test_launches_that_differ_are_a_number_of_the_machine_s_file() -> None:
    machine = load_machine("frontier", {"device.call_sd": 0.05})
    done = simulate_step(schedule("zero3", frontier_mesh(2)), machine, load_library("rccl"))
    spread = spread_of(machine, load_library("rccl"))
    assert spread.call_sd == 0.05
    plain = replace(spread, call_sd=0.0)
    ours, theirs = (resampled_s(done, factors(done, each, "zero3", 50, 1)) for each in (spread, plain))
    assert (ours > theirs).mean() > 0.9
    waits = sampled_waits(done, "zero3", 50, 1)
    usual = sampled_waits(step(schedule("zero3", frontier_mesh(2))), "zero3", 50, 1)
    assert waits is not None and usual is not None
    assert waits.in_step_s.mean() > usual.in_step_s.mean()
