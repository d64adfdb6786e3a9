"""Samples: the slowest of many devices by order statistics, errors that plans share, and noise that they do not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from simfrontier.answers.step.uncertainty import Draws, Spread, factors, probability_faster, sampled_step_s, slowest
from simfrontier.base.arrays import Floats
from simfrontier.core.collectives import Library, Residual, load_library
from simfrontier.core.engine import DurationFactors, SimulatedStep, simulate_step
from simfrontier.core.machine import load_machine
from simfrontier.core.program.ir import Collective
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.workload import find_model
from tests.core.engine.steps import schedule

MANY = 4000
CERTAIN = Residual(model_sd=0.0, run_sd=0.0)
NOTHING = Spread(law=CERTAIN, speed_sd=0.0, matmul_sd=0.0)


@cache
def done(plan: str = "zero3", exact: bool = False, nodes: int = 2) -> SimulatedStep:
    return run(plan, load_library("rccl"), exact, nodes)


def run(plan: str, library: Library, exact: bool = False, nodes: int = 2) -> SimulatedStep:
    built = schedule(plan, Mesh((("node", nodes), ("package", 2), ("gcd", 2))), find_model("tiny"))
    return simulate_step(built, load_machine("toy-cluster"), library, exact=exact)


def drawn(counts: list[int], num_samples: int = MANY, seed: int = 1) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The slowest of classes of so many ranks, ranks of a class side by side."""
    first = np.cumsum([0, *counts[:-1]])
    return slowest(np.repeat(np.arange(len(counts)), counts), first, Draws(seed=seed, num_samples=num_samples))


# ── the slowest of many ──


class Fixed(Draws):
    """Draws of which every exponential number is ln 2, and the slowest rank of the machine rank 0."""

    def stream(self, *key: str | int) -> Any:
        class Stream:
            def standard_exponential(self, count: int) -> Any:
                return np.full(count, math.log(2.0))

            def integers(self, most: int, size: int) -> Any:
                return np.zeros(size, int)

        return Stream()


def test_the_slowest_of_two_classes_worked_by_hand() -> None:
    # E = ln 2, two devices: -ln(1 - p) = ln 2 / 2 on the class that holds the slowest, p = 1 - 2^-0.5 = 0.2929, at
    # 0.5449 deviations; on the other, of one device, ln 2 / 2 + ln 2, p = 1 - 2^-1.5 = 0.6464, at -0.3758.
    result = slowest(np.array([0, 1]), np.array([0, 1]), Fixed(seed=1, num_samples=2))
    assert result.tolist() == [pytest.approx([0.5449] * 2, abs=1e-4), pytest.approx([-0.3758] * 2, abs=1e-4)]


@pytest.mark.parametrize("count", [1, 2, 8, 384, 75_264])
def test_the_slowest_of_n_has_the_distribution_of_the_largest_of_n(count: int) -> None:
    """P(slowest < z) = Phi(z)^n; of 4000 samples the share below a quantile q is q within 4 sqrt(q (1 - q) / 4000)."""
    result = drawn([count])[0]
    for q in (0.05, 0.5, 0.95):
        tail = -math.expm1(math.log(q) / count)
        below = np.mean(result < -NormalDist().inv_cdf(tail))
        assert below == pytest.approx(q, abs=4 * math.sqrt(q * (1 - q) / MANY))


# ── factors ──


def logs_of(step: SimulatedStep, made: DurationFactors) -> Floats:
    """By op of the program, the log of its factor [num_ops, num_samples]."""
    (noise,) = made.noise
    return np.stack(
        [made.of_op.get(op.number, 0.0) + made.run_sd * noise[at] for at, op in enumerate(step.program.ops)]
    )


def by_kind(step: SimulatedStep, spread: Spread, plan: str) -> Mapping[tuple[object, ...], list[float]]:
    """The factors of each kind of call, of which every op must have the same."""
    made = factors(step, spread, plan, 5, 1)
    known: dict[tuple[object, ...], list[list[float]]] = {}
    for op, row in zip(step.program.ops, logs_of(step, made).tolist(), strict=True):
        if isinstance(op, Collective):
            size = step.schedule.mesh.size(op.axes)
            kind = op.kind, step.pricing.algorithms[op.number], size, step.pricing.volume_bytes(op), op.codec
            known.setdefault(kind, []).append(row)
    assert max(map(len, known.values())) > 1
    assert all(row == rows[0] for rows in known.values() for row in rows)
    return {kind: rows[0] for kind, rows in known.items()}


def test_plans_that_make_the_same_calls_share_their_errors() -> None:
    only_model = replace(NOTHING, law=replace(CERTAIN, model_sd=0.1))
    one, other = by_kind(done("zero3"), only_model, "zero3"), by_kind(done("zero2"), only_model, "zero2")
    both = one.keys() & other.keys()
    assert both and all(one[kind] == other[kind] for kind in both)
    assert len({tuple(row) for row in one.values()}) == len(one) > 2  # and each kind has its own


# ── steps ──


def test_samples_are_the_same_for_the_same_seed_and_others_for_another() -> None:
    one, again, other = (sampled_step_s(done(), "zero3", 50, seed) for seed in (1, 1, 2))
    assert one is not None and again is not None and other is not None
    assert (one == again).all() and not (one == other).any()


@pytest.mark.parametrize("plan", ["zero3", "zero-topo"])
def test_folded_and_exact_samples_are_close(plan: str) -> None:
    """Every rank by itself has the same slowest device of the machine; what the slowest of other classes costs is told
    class by class, and may differ a little where a class's ranks do not all meet."""
    folded, exact = (sampled_step_s(done(plan, exact), plan, 50, 1) for exact in (False, True))
    assert folded is not None and exact is not None
    assert exact == pytest.approx(folded, rel=1e-2)


# ── what samples say ──


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1))
def test_the_probabilities_of_both_being_faster_make_one(pairs: list[tuple[int, int]]) -> None:
    one, other = np.array(pairs, float).T
    assert probability_faster(one, other) + probability_faster(other, one) == pytest.approx(1.0)
