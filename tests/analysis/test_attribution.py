"""Differences of critical paths: they sum to the difference of the steps, and the sentence names the biggest."""

from __future__ import annotations

from itertools import accumulate, combinations
from math import fsum

import pytest

from simfrontier.analysis.attribution import LEVEL_WORDS, differences, part_words, why_faster
from simfrontier.analysis.critical import CriticalPath, PathLevel, PathLink, critical_path
from simfrontier.report.theme import LEVEL_NAMES
from simfrontier.schedule.kinds import OP_KINDS
from tests.facts import says
from tests.simulation.steps import frontier_mesh, schedule, step
from tests.some import some

Piece = tuple[str, tuple[str, ...], PathLevel, float]
ALL = ("node", "package", "gcd")


def path_of(*pieces: Piece) -> CriticalPath:
    """Ops one after the other."""
    ends = list(accumulate(seconds for *_, seconds in pieces))
    links = tuple(
        PathLink(
            name=kind,
            kind=kind,
            axes=axes,
            level=level,
            lane="compute",
            call="forward",
            layer=0,
            micro=0,
            role="all",
            rank=0,
            start_s=end - seconds,
            end_s=end,
            alone_s=seconds,
        )
        for (kind, axes, level, seconds), end in zip(pieces, ends, strict=True)
    )
    return CriticalPath(links=links, step_s=ends[-1])


GATHERS: Piece = ("all_gather", ALL, "inter_node", 1.5)
SHORT: Piece = ("all_gather", ALL, "inter_node", 0.6)


def test_differences_by_hand() -> None:
    """0.6 s of gathers against 1.5 s, 2.2 s of products against 2 s, and 0.1 s of encoding that the other has not:
    -0.9 + 0.2 + 0.1 = -0.6 s, the difference of 2.9 and 3.5 s."""
    ours = path_of(SHORT, ("matmul", (), "device", 2.2), ("encode", (), "device", 0.1))
    theirs = path_of(("matmul", (), "device", 2.0), GATHERS)
    result = differences(ours, theirs)
    assert [(each.kind, round(each.seconds, 9)) for each in result] == [
        ("all_gather", -0.9),
        ("matmul", 0.2),
        ("encode", 0.1),
    ]
    assert [(each.a_calls, each.b_calls) for each in result] == [(1, 1), (1, 1), (1, 0)]
    assert fsum(each.seconds for each in result) == pytest.approx(-0.6, abs=1e-12)


def test_the_sentence_says_what_is_gained_and_for_what() -> None:
    ours = path_of(SHORT, ("matmul", (), "device", 2.2), ("encode", (), "device", 0.01))
    theirs = path_of(("matmul", (), "device", 2.0), GATHERS)
    gathers, products = ("all-gathers", "node", "package", "gcd", "between nodes"), ("matrix products",)
    faster, slower = why_faster(ours, theirs, "zero3"), why_faster(theirs, ours, "mine")
    assert says(faster, "0.69 s", "faster", "zero3", "0.9 s", "less", *gathers, "0.2 s", "more", *products), faster
    assert says(slower, "0.69 s", "slower", "mine", "0.9 s", "more", *gathers, "0.2 s", "less", *products), slower


def test_without_anything_lost_there_is_no_price() -> None:
    said = why_faster(path_of(SHORT), path_of(GATHERS), "b")
    assert says(said, "0.9 s", "faster", "b", "0.9 s", "less", "all-gathers") and not says(said, "more"), said


def test_steps_that_take_as_long() -> None:
    same = path_of(GATHERS)
    said = why_faster(same, same, "b")
    assert says(said, "as fast", "b") and not any(each.isdigit() for each in said), said
    ours = path_of(("matmul", (), "device", 1.0), ("exchange", ("stage",), "inter_node", 0.5))
    theirs = path_of(("matmul", (), "device", 0.9), ("exchange", ("stage",), "inter_node", 0.6))
    said = why_faster(ours, theirs, "b")
    assert says(said, "as fast", "b", "0.1 s", "less", "exchanges", "0.1 s", "more", "matrix products"), said


def test_short_steps_are_told_in_short_units() -> None:
    ours = path_of(("gelu", (), "device", 20e-6))
    said = why_faster(ours, path_of(("gelu", (), "device", 45.4e-6)), "b")
    assert says(said, "25 µs", "faster", "b", "25 µs", "less", "GELU"), said
    said = why_faster(path_of(("gelu", (), "device", 100.0)), path_of(("gelu", (), "device", 217.0)), "b")
    assert says(said, "117 s", "faster", "b", "117 s", "less", "GELU"), said


def test_differences_of_real_steps_sum_to_their_difference() -> None:
    paths = [critical_path(step(schedule(name, frontier_mesh(2)))) for name in ("zero3", "zero1", "zeropp", "hsdp")]
    for a, b in some(combinations(paths, 2)):
        forth, back = differences(a, b), differences(b, a)
        assert fsum(each.seconds for each in forth) == pytest.approx(a.step_s - b.step_s, abs=1e-9 * a.step_s)
        assert {(each.kind, each.axes, each.level): -each.seconds for each in back} == {
            (each.kind, each.axes, each.level): each.seconds for each in forth
        }
        for one, other in ((a, b), (b, a)):
            way = "faster" if one.step_s < other.step_s else "slower"
            message = why_faster(one, other, "it")
            assert f" {way} than it: on the critical path " in message or message.startswith("as fast as it")


def test_every_kind_has_words_and_levels_have_those_of_the_pages() -> None:
    for kind in OP_KINDS:
        assert "_" not in part_words(kind, (), "device")
    assert {level: LEVEL_WORDS[level] for level in LEVEL_NAMES} == LEVEL_NAMES  # type: ignore[index]
