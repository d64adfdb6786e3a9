"""Differences of two steps by part: they sum to that of the steps, and the sentence names the biggest."""

from __future__ import annotations

from itertools import combinations
from math import fsum

import pytest

from simfrontier.analysis import PathLevel, Spent
from simfrontier.analysis.attribution import (
    LEVEL_WORDS,
    compute_equal,
    differences,
    is_equal,
    op_words,
    part_words,
    why_faster,
)
from simfrontier.analysis.exposed_time import SLOWED, TimePart, TimeSpent, time_spent
from simfrontier.report.theme import LEVEL_NAMES
from simfrontier.schedule.parse import OP_KINDS
from tests.facts import says
from tests.simulation.steps import frontier_mesh, schedule, step
from tests.some import some

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


def test_the_sentence_says_what_is_gained_and_for_what() -> None:
    ours = time_of(SHORT, kernel("matmul", 2.2), ("codec", "encode", (), "device", 0.01))
    theirs = time_of(kernel("matmul", 2.0), GATHERS)
    gathers = ("exposed", "all-gathers", "node", "package", "gcd", "between nodes")
    faster, slower = why_faster(ours, theirs, "zero3"), why_faster(theirs, ours, "mine")
    assert says(faster, "0.69 s", "faster", "zero3", "0.9 s", "less", *gathers, "0.2 s", "more", "matrix products"), (
        faster
    )
    assert says(slower, "0.69 s", "slower", "mine", "0.9 s", "more", *gathers, "0.2 s", "less", "matrix products"), (
        slower
    )
    assert not says(faster, "equal") and not says(slower, "equal")


def test_the_sentence_says_that_compute_is_equal() -> None:
    """The same products and norms: 0.9 s less of gathers, 0.2 s more by which they are slowed."""
    ours = time_of(SHORT, kernel("matmul", 2.0), kernel("norm", 0.1), kernel(SLOWED, 0.2))
    theirs = time_of(GATHERS, kernel("matmul", 2.0 * (1 + 1e-12)), kernel("norm", 0.1))
    said = why_faster(ours, theirs, "b")
    assert says(said, "0.7 s", "faster", "b", "0.9 s", "less", "0.2 s", "more", "compute slowed", "compute is equal"), (
        said
    )
    more = time_of(GATHERS, kernel("matmul", 2.0), kernel("norm", 0.1), kernel("adam", 1e-3))
    assert not says(why_faster(ours, more, "b"), "equal")


def test_without_anything_lost_there_is_no_price() -> None:
    said = why_faster(time_of(SHORT), time_of(GATHERS), "b")
    assert says(said, "0.9 s", "faster", "b", "0.9 s", "less", "all-gathers") and not says(said, "more"), said


def test_steps_that_take_as_long() -> None:
    same = time_of(GATHERS)
    said = why_faster(same, same, "b")
    assert says(said, "as fast", "b") and not any(each.isdigit() for each in said), said
    ours = time_of(kernel("matmul", 1.0), ("inter_node", "exchange", ("stage",), "inter_node", 0.5))
    theirs = time_of(kernel("matmul", 0.9), ("inter_node", "exchange", ("stage",), "inter_node", 0.6))
    said = why_faster(ours, theirs, "b")
    assert says(said, "as fast", "b", "0.1 s", "less", "exchanges", "0.1 s", "more", "matrix products"), said


def test_short_steps_are_told_in_short_units() -> None:
    ours = time_of(kernel("gelu", 20e-6))
    said = why_faster(ours, time_of(kernel("gelu", 45.4e-6)), "b")
    assert says(said, "25 µs", "faster", "b", "25 µs", "less", "GELU"), said
    said = why_faster(time_of(kernel("gelu", 100.0)), time_of(kernel("gelu", 217.0)), "b")
    assert says(said, "117 s", "faster", "b", "117 s", "less", "GELU"), said


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


def test_every_kind_has_words_and_levels_have_those_of_the_pages() -> None:
    for kind in OP_KINDS:
        assert "_" not in op_words(kind, (), "device")
    assert part_words("compute", "matmul", (), "device") == "matrix products"
    assert part_words("codec", "encode", (), "device") == "exposed encoding"
    assert {level: LEVEL_WORDS[level] for level in LEVEL_NAMES} == LEVEL_NAMES  # type: ignore[index]
