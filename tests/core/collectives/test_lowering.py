"""Every lowered algorithm is proved, and computes its collective on integers in any order that it allows."""

from __future__ import annotations

import random
from dataclasses import replace
from math import ceil, log2
from pathlib import Path

import pytest
from hypothesis import given as drawn, settings, strategies as st

from simfrontier.core.collectives import (
    Lowered,
    LoweredSchedule,
    Meaning,
    Recipe,
    Transfer,
    algorithm as algorithm_of,
    load_lowered,
    lower,
    lowering,
    prove,
    save_lowered,
)
from simfrontier.core.collectives.algorithms.ring import ring
from simfrontier.core.program.ir import CollectiveKind
from tests.core.collectives.lowering_runs import PAIRS, Ranks, any_order, execute, is_right, recipe, recipes
from tests.some import some


@st.composite
def lowereds(draw: st.DrawFn, max_size: int = 9) -> Lowered:
    algorithm, kind = draw(st.sampled_from(PAIRS))
    size = draw(st.integers(2, max_size))
    per_node = draw(st.sampled_from([each for each in range(1, size + 1) if size % each == 0]))
    channels, slices = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    return lower(kind, recipe(algorithm, size, per_node, channels, slices, seed=draw(st.integers(0, 9))))


@pytest.mark.parametrize(("algorithm", "kind"), PAIRS)
def test_every_size_is_proved_and_right_on_integers(algorithm: str, kind: CollectiveKind) -> None:
    for how in some(recipes(algorithm, range(2, 8))):
        lowered = lower(kind, how)
        assert prove(lowered) == [], how
        chunks = lowered.num_message_chunks if kind == "all_reduce" else lowered.parts
        for elements in {max(1, chunks - 1), chunks, 2 * chunks + 1}:  # some chunks empty, all of one, uneven
            assert is_right(lowered, elements, execute(lowered, elements)), (how, elements)


@pytest.mark.parametrize(("size", "per_node"), [(16, 8), (24, 8)])
def test_larger_groups_are_proved(size: int, per_node: int) -> None:
    for algorithm, kind in PAIRS:
        assert prove(lower(kind, recipe(algorithm, size, per_node, channels=2, slices=2))) == [], algorithm


def test_nothing_unproved_is_given_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def lossy(kind: CollectiveKind, how: Recipe) -> Lowered:
        made = ring(kind, how)
        return replace(made, transfers=made.transfers[1:])

    monkeypatch.setattr(lowering, "algorithm", lambda name: replace(algorithm_of(name), lowered=lossy))
    with pytest.raises(AssertionError, match=r"ring all_gather: transfer \d+ .* reads chunk 0, which is empty"):
        lower("all_gather", recipe("ring", 3, channels=2, seed=99))


@drawn(lowereds(), st.integers(0, 60), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_any_order_that_after_allows_gives_the_same(lowered: Lowered, elements: int, rng: random.Random) -> None:
    order = any_order(lowered, rng)
    assert len(order) == len(lowered.transfers)
    assert is_right(lowered, elements, execute(lowered, elements, order))


@drawn(lowereds(max_size=7), st.integers(0, 40), st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_ranks_never_get_stuck(lowered: Lowered, elements: int, rng: random.Random) -> None:
    lines, stuck = Ranks(lowered, elements, rng).run()
    assert not stuck
    assert is_right(lowered, elements, lines)


def test_ranks_that_wait_for_their_highest_receive_do_get_stuck() -> None:
    lowered = lower("all_gather", recipe("ring", 4))
    assert Ranks(lowered, 8, random.Random(0), backwards=True).run()[1]


def test_without_what_after_says_about_overwriting_the_result_is_wrong() -> None:
    # member 0 passes its chunk on, then is overwritten: done the other way round, member 1 gets what came later
    t = (Transfer(0, 1, 0, 0, 1, True, 0), Transfer(1, 0, 0, 0, 1, False, 0))
    lowered = Lowered(kind="all_reduce", size=2, parts=1, transfers=(*t, *[_at_one(x) for x in t]))
    assert lowered.after == ((), (0,), (), (2,))
    assert prove(lowered) == [] and not is_right(lowered, 4, execute(lowered, 4, [1, 0, 2, 3]))


def _at_one(t: Transfer) -> Transfer:
    return Transfer(t.src, t.dst, t.chunk + 1, t.to + 1, t.count, t.add, t.channel)


def test_after_has_no_more_than_is_needed() -> None:
    # 0 and 1 add what they have at 2, which sends the sum to 0, and 0 passes it on to 1
    t = (
        Transfer(0, 2, 0, 0, 3, True, 0),
        Transfer(1, 2, 0, 0, 3, True, 0),
        Transfer(2, 0, 0, 0, 3, False, 0),
        Transfer(0, 1, 0, 0, 3, False, 0),
    )
    lowered = Lowered(kind="all_reduce", size=3, parts=1, transfers=t)
    assert prove(lowered) == []
    # the additions wait for nothing, not even for each other; the sum for both (the first also has read what it
    # overwrites at 0); the last for the sum at 0, and for 1 having sent its own
    assert lowered.after == ((), (), (0, 1), (1, 2))
    # added to again after it was read, and read, and overwritten: each time by way of the one before
    more = (Transfer(1, 2, 0, 0, 3, True, 0), Transfer(2, 1, 0, 0, 3, False, 0), Transfer(0, 2, 0, 0, 3, False, 0))
    assert replace(lowered, transfers=(*t, *more)).after[4:] == ((2, 3), (4,), (2, 5))


@drawn(lowereds(max_size=6))
@settings(max_examples=60, deadline=None)
def test_after_orders_all_that_must_not_change_places(lowered: Lowered) -> None:
    reached: list[int] = []  # per transfer a bit for each that is over when it starts
    for before in lowered.after:
        over = 0
        for earlier in before:
            over |= reached[earlier] | 1 << earlier
        reached.append(over)

    def meet(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
        return one[0] == other[0] and one[1] < other[1] + other[2] and other[1] < one[1] + one[2]

    for index, t in enumerate(lowered.transfers):
        reads, writes = (t.src, t.chunk, t.count), (t.dst, t.to, t.count)
        for earlier, u in enumerate(lowered.transfers[:index]):
            read, written = (u.src, u.chunk, u.count), (u.dst, u.to, u.count)
            if meet(reads, written) or meet(writes, read) or (meet(writes, written) and not (t.add and u.add)):
                assert reached[index] >> earlier & 1, (earlier, index)


def sent(lowered: Lowered, elements: int) -> list[int]:
    """Elements that each member sends to others."""
    offsets, out = lowered.offsets(elements), [0] * lowered.size
    for t in lowered.transfers:
        out[t.src] += (offsets[t.chunk + t.count] - offsets[t.chunk]) * (t.src != t.dst)
    return out


def received(lowered: Lowered, elements: int) -> list[int]:
    offsets, out = lowered.offsets(elements), [0] * lowered.size
    for t in lowered.transfers:
        out[t.dst] += (offsets[t.to + t.count] - offsets[t.to]) * (t.src != t.dst)
    return out


@pytest.mark.parametrize("algorithm", ["ring", "halving", "direct", "two_level"])
@pytest.mark.parametrize("size", [2, 3, 6, 8])
def test_a_gather_moves_every_piece_to_every_other_member_once(algorithm: str, size: int) -> None:
    for how in some(recipes(algorithm, [size])):
        gather, reduce, both = (lower(kind, how) for kind in ("all_gather", "reduce_scatter", "all_reduce"))
        # (n-1)/n of the whole, n pieces of 7 elements: what comes in for a gather, what goes out for a reduction
        assert received(gather, 7) == sent(reduce, 7) == [(size - 1) * 7] * size
        if algorithm != "halving" or size in (2, 4, 8):
            assert sent(gather, 7) == received(reduce, 7) == [(size - 1) * 7] * size
        even = both.num_message_chunks * 2  # 2 (n-1)/n of it
        assert sum(sent(both, even)) == 2 * (size - 1) * even


def test_a_tree_sends_the_whole_twice_over_every_edge() -> None:
    for how in some(recipes("tree", [8, 9, 6])):
        elements = lower("all_reduce", how).num_message_chunks
        assert sum(sent(lower("all_reduce", how), elements)) == 2 * (how.size - 1) * elements


def test_tree_on_two_nodes_of_two() -> None:
    lowered = lower("all_reduce", recipe("tree", 4, per_node=2))
    # first tree: 1 to 0, 3 to 2, then 2 to 0; second, mirrored: 0 to 2; 4 of the 8 chunks each
    ups = [(t.src, t.dst, t.chunk) for t in lowered.transfers if t.add]
    assert ups == [(1, 0, 0), (3, 2, 0), (1, 0, 4), (3, 2, 4), (2, 0, 0), (0, 2, 4)]
    downs = [(t.src, t.dst, t.chunk) for t in lowered.transfers if not t.add]
    # the way on to the other node before the one within the own node
    assert downs == [(0, 2, 0), (0, 1, 0), (2, 0, 4), (2, 3, 4), (2, 3, 0), (0, 1, 4)]
    assert {t.count for t in lowered.transfers} == {4}


def rounds(lowered: Lowered) -> int:
    """Messages on the longest way in which each needs what the one before brought to its sender."""
    depth: list[int] = []
    for t, before in zip(lowered.transfers, lowered.after, strict=True):
        needed = (depth[i] for i in before if lowered.transfers[i].dst == t.src)
        depth.append(max(needed, default=0) + (t.src != t.dst))
    return max(depth)


@pytest.mark.parametrize("slices", [1, 3])
@pytest.mark.parametrize("size", [2, 3, 7, 8])
def test_rounds(size: int, slices: int) -> None:
    for kind, times in (("all_gather", 1), ("reduce_scatter", 1), ("all_reduce", 2)):
        assert rounds(lower(kind, recipe("ring", size, slices=slices))) == times * (size - 1)
        halved = rounds(lower(kind, recipe("halving", size, slices=slices)))
        assert halved == times * log2(size) if size in (2, 4, 8) else halved <= times * ceil(log2(size))
        assert rounds(lower(kind, recipe("direct", size, slices=slices))) == times
    assert rounds(lower("all_to_all", recipe("direct", size, slices=slices))) == 1
    chain = lower("all_reduce", recipe("tree", size, slices=slices))
    assert rounds(chain) == 2 * (size - 1)


Sums = list[tuple[int, int]]  # (chunk, a bit for each rank)


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("all_gather", [(2, 2), (3, 2)], [(0, 1), (1, 1), (2, 2), (3, 2)]),
        ("reduce_scatter", [(0, 2), (1, 2), (2, 2), (3, 2)], [(2, 3), (3, 3)]),
        ("all_reduce", [(0, 2), (1, 2), (2, 2), (3, 2)], [(0, 3), (1, 3), (2, 3), (3, 3)]),
        ("all_to_all", [(0, 2), (1, 2), (2, 2), (3, 2)], [(2, 1), (3, 1), (2, 2), (3, 2)]),
    ],
)
def test_the_second_of_two_ranks(kind: CollectiveKind, before: Sums, after: Sums) -> None:
    meaning = Meaning(kind, 2, 4)
    assert (list(meaning.before(1)), list(meaning.after(1))) == (before, after)
    assert (len(meaning.input(1)), len(meaning.output(1))) == (len(before), len(after))


def test_a_message_of_an_all_reduce_need_not_be_equal_pieces() -> None:
    assert list(Meaning("all_reduce", 2, 3).after(0)) == [(0, 3), (1, 3), (2, 3)]


DIGEST = "0123456789abcdef" * 4
RING, TREE = recipe("ring", 3, channels=2, slices=4), recipe("tree", 4, per_node=2)
LOWERED = LoweredSchedule(digest=DIGEST, recipes=((RING, RING), (TREE,), (), (RING,)))


def test_a_lowered_schedule_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    first, second = tmp_path / "lowered-a.json", tmp_path / "lowered-b.json"
    save_lowered(LOWERED, first)
    assert load_lowered(first) == LOWERED
    save_lowered(load_lowered(first), second)
    assert first.read_bytes() == second.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lowered-a.json", "lowered-b.json"]
