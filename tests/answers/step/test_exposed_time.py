"""Where a step's time goes, and differences of two steps by part: worked by hand, and summing to the steps."""

from __future__ import annotations

from itertools import combinations
from math import fsum

import pytest

from simfrontier.answers.step import Exposure, PathLevel, Spent, exposure
from simfrontier.answers.step.exposed_time import (
    IDLE,
    SLOWED,
    TimePart,
    TimeSpent,
    compute_equal,
    differences,
    is_equal,
    time_spent,
    why_faster,
)
from simfrontier.core.collectives import algorithm
from simfrontier.core.engine import SimulatedStep
from tests.core.engine.pipelines import Order, Pipeline
from tests.core.engine.steps import frontier_mesh, schedule, step
from tests.core.engine.test_pipelines import library, run
from tests.some import some


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


def test_a_step_of_two_stages_by_hand() -> None:
    """As in test_critical.py: stage 0 ends last. It runs F and B of its one layer: products p and 2 p,
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


@pytest.mark.parametrize("order", ["gpipe", "1f1b"])
def test_pipelines(order: Order) -> None:
    for stages, micros in ((2, 4), (4, 3)):
        for apart in (False, True):
            whole(run(Pipeline(stages=stages, micros=micros, order=order, apart=apart)))


Piece = tuple[Spent, str, tuple[str, ...], PathLevel, float]
ALL = ("node", "package", "gcd")


def time_of(*pieces: Piece) -> TimeSpent:
    parts = tuple(
        TimePart(spent=spent, kind=kind, axes=axes, level=level, seconds=seconds, calls=1)
        for spent, kind, axes, level, seconds in pieces
    )
    return TimeSpent(parts=parts, step_s=fsum(part.seconds for part in parts))


def kernel(kind: str, seconds: float) -> Piece:
    return "compute", kind, (), "device", seconds


GATHERS: Piece = ("inter_node", "all_gather", ALL, "inter_node", 1.5)
SHORT: Piece = ("inter_node", "all_gather", ALL, "inter_node", 0.6)


def test_differences_by_hand() -> None:
    """0.6 s of exposed gathers against 1.5 s, 0.3 s of slowed compute against 0.1 s, 0.1 s of encoding that the other
    has not, and the same 2 s of products: -0.9 + 0.2 + 0.1 + 0 = -0.6 s, the difference of 3 and 3.6 s."""
    ours = time_of(SHORT, kernel("matmul", 2.0), kernel(SLOWED, 0.3), ("codec", "encode", (), "device", 0.1))
    theirs = time_of(kernel("matmul", 2.0), kernel(SLOWED, 0.1), GATHERS)
    result = differences(ours, theirs)
    assert [(each.kind, round(each.seconds, 9)) for each in result] == [
        ("all_gather", -0.9),
        (SLOWED, 0.2),
        ("encode", 0.1),
        ("matmul", 0.0),
    ]
    assert [(each.a_calls, each.b_calls) for each in result] == [(1, 1), (1, 1), (1, 0), (1, 1)]
    assert fsum(each.seconds for each in result) == pytest.approx(-0.6, abs=1e-12)
    assert compute_equal(result) and is_equal(result[3]) and not any(map(is_equal, result[:3]))


def test_differences_of_real_steps_sum_to_their_difference() -> None:
    times = [time_spent(step(schedule(name, frontier_mesh(2)))) for name in ("zero3", "zero1", "zeropp", "hsdp")]
    for a, b in some(combinations(times, 2)):
        forth, back = differences(a, b), differences(b, a)
        assert fsum(each.seconds for each in forth) == pytest.approx(a.step_s - b.step_s, abs=1e-9 * a.step_s)
        assert {(each.spent, each.kind, each.axes, each.level): -each.seconds for each in back} == {
            (each.spent, each.kind, each.axes, each.level): each.seconds for each in forth
        }
        for one, other in ((a, b), (b, a)):
            way = "faster" if one.step_s < other.step_s else "slower"
            message = why_faster(one, other, "it")
            assert f" {way} than it: " in message or message.startswith("as fast as it")
