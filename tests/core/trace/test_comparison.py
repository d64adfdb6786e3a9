"""The join of two traces: what must be equal is compared exactly, and every difference is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simfrontier.base.errors import InputError
from simfrontier.core.trace import Span, Trace
from simfrontier.core.trace.comparison import Comparison, compare
from tests.core.trace.fakes import measured, span, trace

STEP = (
    span(0, 0.0, 1.0),
    span(1, 0.0, 2.0, axes="node"),
    span(2, 2.0, 3.0, axes="node+gcd", ready_s=2.0),
    span(3, 3.0, 5.0),
)


def folded() -> Trace:
    """Two classes of ranks: 0, 2 and 1, 3; the second is ready for the gather a second earlier."""
    other = (*STEP[:2], replace(STEP[2], ready_s=1.0), STEP[3])
    return trace(STEP, other, members=((0, 2), (1, 3)))


def said(comparison: Comparison) -> list[str]:
    return list(map(str, comparison.differences))


def changed(change_of: dict[int, dict[str, object]], rank: int | None = None) -> Trace:
    """The four measured ranks with fields of some ops changed, on one rank or all."""

    def change(each: Span) -> Span:
        return replace(each, **change_of.get(each.op, {}))  # type: ignore[arg-type]

    made = measured(folded())
    lists = [tuple(map(change, own)) if rank in (None, r) else own for r, own in enumerate(made.spans)]
    return replace(made, spans=tuple(lists))


def test_a_class_stands_for_each_of_its_ranks() -> None:
    """Four ranks with four ops each; ranks 1 and 3 have the second class's times."""
    result = compare("p", folded(), measured(folded()))
    assert result.differences == () and len(result.pairs) == 16
    assert [(pair.rank, pair.sim.op) for pair in result.pairs] == [(r, op) for r in range(4) for op in range(4)]
    assert [pairs[2].sim.ready_s for pairs in result.by_rank.values()] == [2.0, 1.0, 2.0, 1.0]


def test_ranks_that_a_real_trace_was_not_to_hold_are_left_out() -> None:
    """Of four ranks the real trace holds 1 and 3; rank 3 is then missing although it is noted."""
    real = measured(folded(), notes={"held_ranks": "1,3"})
    some = replace(real, ranks=real.ranks[1::2], members=real.members[1::2], spans=real.spans[1::2])
    result = compare("p", folded(), some)
    assert result.differences == () and list(result.by_rank) == [1, 3] and result.num_left_out == 2
    one = replace(some, ranks=some.ranks[:1], members=some.members[:1], spans=some.spans[:1])
    assert said(compare("p", folded(), one)) == ["rank 3: its ops: simulated 4 ops, real missing"]
    assert len(compare("p", folded(), replace(some, notes={})).differences) == 1  # without the note both are missing
    with pytest.raises(InputError, match="p: the real trace's note held_ranks: 'all' is not a rank"):
        compare("p", folded(), replace(some, notes={"held_ranks": "all"}))


def test_levels_and_own_bytes_are_not_compared() -> None:
    """A real run knows only hosts, and counts what its own algorithm sends."""
    result = compare("p", folded(), changed({1: {"level": "inter_node", "num_bytes": 7.0}}))
    assert result.differences == ()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"message_bytes": 1e6}, "op 1 on rank 2: message_bytes: simulated 2000000, real 1000000"),
        ({"kind": "all_reduce"}, "op 1 on rank 2: kind: simulated all_gather, real all_reduce"),
        ({"name": "grads"}, "op 1 on rank 2: name: simulated weights, real grads"),
        ({"axes": "gcd"}, "op 1 on rank 2: axes: simulated node, real gcd"),
        ({"call": "step"}, "op 1 on rank 2: call: simulated forward, real step"),
        ({"layer": 0}, "op 1 on rank 2: layer: simulated 1, real 0"),
        ({"micro": 3}, "op 1 on rank 2: micro: simulated 0, real 3"),
    ],
)
def test_a_difference_says_op_rank_and_both_sides(change: dict[str, object], text: str) -> None:
    result = compare("p", folded(), changed({1: change}, rank=2))
    assert said(result) == [text] and result.num_different == 1


def test_one_difference_on_several_ranks_is_one_line_and_counted() -> None:
    result = compare("p", folded(), changed({1: {"message_bytes": 1e6}}))
    assert said(result) == ["op 1 on ranks 0-3: message_bytes: simulated 2000000, real 1000000"]
    assert result.num_different == 4


def test_a_lane_has_one_order() -> None:
    """Rank 1 was ready for op 2 before op 1 of the same lane."""
    result = compare("p", folded(), changed({2: {"ready_s": -1.0}}, rank=1))
    assert said(result) == ["op 1 on rank 1: order of lane gather: simulated op 1, real op 2 in its place"]


def test_ops_and_ranks_that_are_missing() -> None:
    real = measured(folded())
    fewer = replace(real, spans=(real.spans[0][:3], *real.spans[1:3], (*real.spans[3], span(9, 9.0, 9.0))))
    assert said(compare("p", folded(), fewer)) == [
        "op 3 on rank 0: the op: simulated matmul qkv, real missing",
        "op 9 on rank 3: the op: simulated missing, real matmul qkv",
    ]
    three = replace(real, ranks=real.ranks[:3], members=real.members[:3], spans=real.spans[:3])
    assert said(compare("p", folded(), three)) == ["rank 3: its ops: simulated 4 ops, real missing"]
    assert said(compare("p", three, folded())) == ["rank 3: its ops: simulated missing, real 4 ops"]


def test_other_schedules_are_not_compared() -> None:
    with pytest.raises(InputError) as caught:
        compare("p", folded(), replace(measured(folded()), digest="f" * 64))
    assert str(caught.value) == (
        "p: the simulated schedule has the digest 0123456789abcdef, the real one ffffffffffffffff; allowed: two traces "
        "of one schedule"
    )


def test_the_slowest_rank_is_the_one_that_really_ends_last() -> None:
    assert compare("p", folded(), changed({3: {"end_s": 99.0}}, rank=2)).slowest_rank == 2
    assert compare("p", folded(), folded()).slowest_rank == 0  # the lowest of equals
    assert compare("p", trace(()), trace(())).slowest_rank == -1
