"""Faults put into every algorithm are found by the proof; the proof is silent only where the result is right."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from simfrontier.core.collectives import Lowered, Transfer, lower, prove
from simfrontier.core.program import DIRECT, DISPATCHERS
from simfrontier.core.program.ir import CollectiveKind
from tests.core.collectives.lowering_runs import PAIRS, execute, is_right, recipe

SHAPES = ((2, 1), (7, 7), (9, 3))
Mutate = Callable[[Lowered, int], Lowered | None]


def _with(lowered: Lowered, number: int, *instead: Transfer) -> Lowered:
    transfers = lowered.transfers
    return replace(lowered, transfers=(*transfers[:number], *instead, *transfers[number + 1 :]))


def dropped(lowered: Lowered, number: int) -> Lowered:
    return _with(lowered, number)


def with_the_wrong_peer(lowered: Lowered, number: int) -> Lowered | None:
    """A copy to somebody else, an addition from somebody else. (An addition *to* somebody else who has yet to pass his
    sum on is another way to the same end.)"""
    t = lowered.transfers[number]
    others = [member for member in range(lowered.size) if member not in (t.src, t.dst)]
    if not others:
        return None
    other = others[number % len(others)]
    return _with(lowered, number, replace(t, src=other) if t.add else replace(t, dst=other))


def added_for_copied(lowered: Lowered, number: int) -> Lowered:
    t = lowered.transfers[number]
    return _with(lowered, number, replace(t, add=not t.add))


def added_twice(lowered: Lowered, number: int) -> Lowered | None:
    t = lowered.transfers[number]
    return _with(lowered, number, t, t) if t.add else None  # a copy may be repeated


def from_the_wrong_chunk(lowered: Lowered, number: int) -> Lowered | None:
    """Two transfers swap what they read, not where they put it."""
    t = lowered.transfers[number]
    for other, u in enumerate(lowered.transfers):
        if other > number and u.count == t.count and u.chunk != t.chunk:
            return _with(_with(lowered, number, replace(t, chunk=u.chunk)), other, replace(u, chunk=t.chunk))
    return None


def into_the_wrong_chunk(lowered: Lowered, number: int) -> Lowered | None:
    t = lowered.transfers[number]
    to = (t.to + lowered.parts) % lowered.num_chunks
    return _with(lowered, number, replace(t, to=to)) if to + t.count <= lowered.num_chunks else None


def too_early(lowered: Lowered, number: int) -> Lowered | None:
    """Before the transfer that brought what it sends."""
    t = lowered.transfers[number]
    needs = [
        i for i in lowered.after[number] if lowered.transfers[i].dst == t.src and _reads_what(t, lowered.transfers[i])
    ]
    if not needs:
        return None
    rest = [u for index, u in enumerate(lowered.transfers) if index != number]
    return replace(lowered, transfers=(*rest[: needs[0]], t, *rest[needs[0] :]))


def _reads_what(t: Transfer, u: Transfer) -> bool:
    return t.chunk < u.to + u.count and u.to < t.chunk + t.count


MUTATIONS: tuple[Mutate, ...] = (
    dropped,
    with_the_wrong_peer,
    added_for_copied,
    added_twice,
    from_the_wrong_chunk,
    into_the_wrong_chunk,
    too_early,
)


def mutants(algorithm: str, kind: CollectiveKind, mutate: Mutate, tries: int = 8) -> Iterator[Lowered]:
    """Of several sizes, transfers all over the list; of `ring_twice` those of the first half, which make its result."""
    rng = random.Random(7)
    for size, per_node in SHAPES:
        for channels, slices in ((1, 1), (2, 3)):
            lowered = lower(kind, recipe(algorithm, size, per_node, channels, slices, seed=1))
            end = len(lowered.transfers) // (2 if algorithm == "ring_twice" else 1)
            for number in sorted(rng.sample(range(end), min(tries, end))):
                if (mutant := mutate(lowered, number)) is not None:
                    yield mutant


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: str(mutate.__name__))
@pytest.mark.parametrize(("algorithm", "kind"), PAIRS)
def test_every_mutant_is_caught(algorithm: str, kind: CollectiveKind, mutate: Mutate) -> None:
    results = [bool(prove(mutant)) for mutant in mutants(algorithm, kind, mutate)]
    assert all(results), f"{results.count(False)} of {len(results)} pass"
    # direct gathers pass nothing on; only reductions can be added twice
    nothing_passed_on = algorithm in (DIRECT, *DISPATCHERS) and kind != "all_reduce"
    impossible = (mutate is too_early and nothing_passed_on) or (
        mutate is added_twice and kind in ("all_gather", "all_to_all")
    )
    assert bool(results) != impossible


@pytest.mark.parametrize(("algorithm", "kind"), PAIRS)
def test_two_changes_at_random_pass_only_where_the_result_is_right(algorithm: str, kind: CollectiveKind) -> None:
    rng, agreed = random.Random(3), [0, 0]
    for size, per_node in SHAPES:
        lowered = lower(kind, recipe(algorithm, size, per_node, slices=2))
        line = range(lowered.num_chunks)
        for _ in range(60):
            number, other = rng.randrange(len(lowered.transfers)), rng.randrange(len(lowered.transfers))
            t, u = lowered.transfers[number], lowered.transfers[other]
            changed = rng.choice([replace(t, src=u.src), replace(t, dst=u.dst), replace(t, to=u.to), u, t])
            mutant = _with(_with(lowered, number, changed), other, t if changed is u else u)
            if any(x.chunk + x.count > len(line) or x.to + x.count > len(line) for x in mutant.transfers):
                continue
            if any(x.src == x.dst and abs(x.chunk - x.to) < x.count for x in mutant.transfers):
                continue  # reads while it writes: what it gives depends on who does it
            # even widths, so that a chunk fits everywhere: then the proof may say more (other widths), never less
            elements = lowered.num_message_chunks * 2 if kind == "all_reduce" else lowered.parts * 2
            right, silent = is_right(mutant, elements, execute(mutant, elements)), not prove(mutant)
            assert right or not silent, (number, other, changed)
            agreed[right] += 1
    assert min(agreed) > 0  # both kinds of mutants were met


RING = lower("all_reduce", recipe("ring", 3))  # piece m is chunk m; 0 begins with sending piece 2


@pytest.mark.parametrize(
    ("transfer", "message"),
    [
        (Transfer(3, 1, 2, 2, 1, True, 0), "names a member that is not one of 0 to 2"),
        (Transfer(0, -1, 2, 2, 1, True, 0), "names a member that is not one of 0 to 2"),
        (Transfer(0, 1, 2, 2, 2, True, 0), "goes beyond the line's 3 chunks"),
        (Transfer(0, 1, -1, 2, 1, True, 0), "goes beyond the line's 3 chunks"),
        (Transfer(0, 1, 2, 2, 0, True, 0), "goes beyond the line's 3 chunks"),
        (Transfer(0, 0, 2, 2, 1, False, 0), "writes what it reads"),
        (Transfer(0, 1, 1, 2, 1, True, 0), "moves chunks to places of another width"),
    ],
)
def test_a_transfer_that_cannot_be_is_named(transfer: Transfer, message: str) -> None:
    result = prove(_with(RING, 0, transfer))
    assert result[0].startswith("transfer 0 (") and result[0].endswith(message)
