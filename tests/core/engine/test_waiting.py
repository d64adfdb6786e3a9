"""Waiting for the last rank: by hand, folded = exact, and launches that vary between ranks."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from simfrontier.answers.step.uncertainty import Spread, factors
from simfrontier.core.collectives import Residual
from simfrontier.core.engine import SimulatedStep, Timeline
from simfrontier.core.engine.resample import DurationFactors, TypicalWaits, resampled_s, resampled_waits, runs_of
from simfrontier.core.program import Compute
from tests.core.engine.steps import frontier_mesh, schedule, step

NO_LAW = Residual(model_sd=0.0, run_sd=0.0)


def slowed(done: SimulatedStep, by: float, num_samples: int = 1) -> DurationFactors:
    """All devices' kernels take so many times as long in their slowest members; hooks and calls as simulated."""
    classes = done.pricing.folding.num_rank_classes
    return DurationFactors(
        of_op={},
        of_class=np.full((classes, num_samples), by),
        on_device={op.number: isinstance(op, Compute) and op.kind != "hook" for op in done.schedule.ops},
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


@pytest.mark.parametrize("family", ["zero3", "zero-topo"])
def test_folded_waits_are_the_exact_ones(family: str) -> None:
    built = schedule(family, frontier_mesh(2))
    folded, exact = (step(built, exact=exact) for exact in (False, True))
    ours, theirs = (resampled_waits(each, slowed(each, 1.1)) for each in (folded, exact))
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert ours[name] == pytest.approx(theirs[name], rel=1e-9)


# ── launches that differ ──


@pytest.mark.parametrize(("ranks", "sd"), [(16, 0.03)])
def test_launches_of_a_class_are_as_those_of_its_members_one_by_one(ranks: int, sd: float) -> None:
    """ddp without overlap: its kernels, whose launches differ on every rank, then calls. Every rank on its own: the
    largest of sums of kernels that each take 1 + sd ε times as long. Means of 2,000 samples, of what they add."""
    done = step(schedule("ddp", frontier_mesh(ranks // 8), overlap=False))
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
