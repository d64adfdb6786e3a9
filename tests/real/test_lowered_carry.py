"""One message of a collective by explicit transfers: exact on whole numbers, whoever comes first, without deadlock."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.core.collectives import Lowered, Recipe, Transfer, all_algorithms, lower
from simfrontier.core.program import Mesh
from simfrontier.core.program.ir import CollectiveKind
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ranks.loopback import LoopbackWorld
from simfrontier_real.ranks.lowered import LoweredPending, Route
from simfrontier_real.ranks.transfers import MemberPart, part_of
from simfrontier_real.ranks.transport import Channel, Wire, WireMessage
from tests.real.lowerings import recipe_of, shuffled

CHANNEL = Channel("c", "lane", ("p",))
PAIRS = [(each.name, kind) for each in all_algorithms() for kind in each.collectives]


def shape_of(kind: CollectiveKind, size: int, elements: int) -> tuple[int, ...]:
    return (elements,) if kind in ("all_gather", "all_reduce") else (size, elements)


def messages_of(kind: CollectiveKind, size: int, elements: int, seed: int = 0) -> list[Array]:
    """Whole numbers below 1000: sums of 9 are exact in float32."""
    numbers = np.random.default_rng(seed)
    shape = shape_of(kind, size, elements)
    return [numbers.integers(-1000, 1000, shape).astype(np.float32) for _ in range(size)]


def wanted(kind: CollectiveKind, messages: list[Array]) -> list[Array]:
    """What the library's collective gives, by the words of the transport."""
    whole = np.stack(messages)
    match kind:
        case "all_gather":
            return [whole] * len(messages)
        case "all_reduce":
            return [whole.sum(axis=0)] * len(messages)
        case "reduce_scatter":
            return list(whole.sum(axis=0))
        case "all_to_all":
            return list(whole.transpose(1, 0, 2))
    raise AssertionError(kind)


def pendings_over(
    wires: Sequence[Wire], kind: CollectiveKind, recipe: Recipe, parts: list[MemberPart], messages: list[Array]
) -> list[LoweredPending]:
    return [
        LoweredPending(Route(CHANNEL, wire, kind, recipe, member), part, message, "sum")
        for member, (wire, part, message) in enumerate(zip(wires, parts, messages, strict=True))
    ]


def check_results(kind: CollectiveKind, results: list[Array], messages: list[Array]) -> None:
    for result, right in zip(results, wanted(kind, messages), strict=True):
        assert result.shape == right.shape and result.dtype == right.dtype
        assert np.array_equal(result, right)


# ── all in one process ──


@pytest.mark.parametrize(("algorithm", "kind"), PAIRS)
def test_every_algorithm_gives_what_the_library_gives(algorithm: str, kind: CollectiveKind) -> None:
    """Groups of 1 to 9, pieces that do not divide evenly, down to chunks that are empty; messages stay as they were."""
    for size in range(1, 10):
        per_node = size // 2 if size % 2 == 0 else size
        for elements in (1, 2, 5, 16, 37):
            recipe = recipe_of(algorithm, size, channels=1 + size % 2, slices=1 + elements % 3, per_node=per_node)
            messages = messages_of(kind, size, elements)
            given_ = [message.copy() for message in messages]
            world = LoopbackWorld(Mesh((("p", size),)))
            wires = [world.transport(rank).wire(CHANNEL) for rank in range(size)]
            parts = [part_of(lower(kind, recipe), member, elements) for member in range(size)]
            pendings = pendings_over(wires, kind, recipe, parts, given_)
            before = -1
            while world.num_started != before:
                before, over = world.num_started, [pending.is_done() for pending in pendings]
            assert all(over), (size, elements)
            check_results(kind, [pending.wait() for pending in pendings], messages)
            assert world.mail == {}
            if kind != "all_reduce":
                assert all(np.array_equal(a, b) for a, b in zip(given_, messages, strict=True))


# ── the worst that a network may do ──


@dataclass
class Batch:
    """Messages of which so many have not been handed over."""

    left: int

    def is_done(self) -> bool:
        return self.left == 0

    def wait(self) -> None:
        assert self.is_done(), "this would block for ever"


@dataclass
class Rendezvous:
    """A network that hands a message over only when both ends have called, at any later moment, one at a time: it reads
    what is there then, and writes there then. Between two members messages go in order."""

    calls: dict[tuple[int, int, bool], list[tuple[Batch, Array]]] = field(default_factory=lambda: defaultdict(list))
    handed: int = 0

    def ready(self) -> list[tuple[int, int]]:
        waiting = {(a, b) for (a, b, sent), calls in self.calls.items() if sent and calls}
        return sorted(pair for pair in waiting if self.calls.get((*pair, False)))

    def hand_over(self, pair: tuple[int, int]) -> None:
        (sending, values), (receiving, into) = (self.calls[(*pair, sent)].pop(0) for sent in (True, False))
        into[...] = values
        sending.left -= 1
        receiving.left -= 1
        self.handed += 1


@dataclass
class RendezvousWire:
    """One member's end."""

    net: Rendezvous
    member: int
    in_batches: bool

    def exchange(self, moves: Sequence[WireMessage]) -> list[Batch]:
        batches = [Batch(len(moves))] * len(moves) if self.in_batches else [Batch(1) for _ in moves]
        for move, batch in zip(moves, batches, strict=True):
            ends = (self.member, move.peer) if move.is_send else (move.peer, self.member)
            self.net.calls[(*ends, move.is_send)].append((batch, move.values))
        return batches[:1] if self.in_batches else batches


class DeadlockError(Exception):
    """Nothing can move any more."""


def raced(kind: CollectiveKind, parts: list[MemberPart], messages: list[Array], seed: int) -> list[Array]:
    """Members and messages go on in any order, in batches with every second seed. A member that is looked at stops
    exactly where it would block."""
    numbers, net = random.Random(seed), Rendezvous()
    pendings = pendings_over(
        [RendezvousWire(net, member, seed % 2 == 1) for member in range(len(parts))],
        kind,
        recipe_of("ring", len(parts)),
        parts,
        [message.copy() for message in messages],
    )
    eager = numbers.random()  # how often members get a turn before the network does
    while True:
        before = net.handed
        for pending in numbers.sample(pendings, len(pendings)):
            pending.is_done()
            while numbers.random() > eager and (pairs := net.ready()):
                net.hand_over(numbers.choice(pairs))
        if all(pending.is_over for pending in pendings):
            assert not any(net.calls.values())
            return [pending.wait() for pending in pendings]
        if pairs := net.ready():
            net.hand_over(numbers.choice(pairs))
        elif net.handed == before:
            raise DeadlockError


@settings(max_examples=150, deadline=None)
@given(
    pair=st.sampled_from(PAIRS),
    size=st.integers(2, 9),
    nodes=st.sampled_from([1, 2, 3]),
    channels=st.integers(1, 3),
    slices=st.integers(1, 3),
    elements=st.integers(1, 40),
    seed=st.integers(0, 2**32),
)
def test_whatever_the_network_does_the_result_is_exact(
    pair: tuple[str, CollectiveKind],
    size: int,
    nodes: int,
    channels: int,
    slices: int,
    elements: int,
    seed: int,
) -> None:
    algorithm, kind = pair
    if nodes == 1 and algorithm != "two_level":
        recipe = shuffled(size, channels, slices, seed, algorithm)
    else:
        recipe = recipe_of(algorithm, size, channels, slices, size // nodes if size % nodes == 0 else size)
    messages = messages_of(kind, size, elements, seed % 100)
    parts = [part_of(lower(kind, recipe), member, elements) for member in range(size)]
    check_results(kind, raced(kind, parts, messages, seed), messages)


# ── faults that these tests must see ──


def sent_too_early(part: MemberPart) -> MemberPart:
    """Everything is sent at once, whether it is there or not."""
    first = part.rounds[0]
    every = tuple(send for each in part.rounds for send in each.sends)
    receives = tuple(write for each in part.rounds for write in each.writes)
    return replace(part, rounds=(replace(first, sends=every, writes=receives),))


def copied_not_added(part: MemberPart) -> MemberPart:
    rounds = (replace(each, writes=tuple(w._replace(add=False) for w in each.writes)) for each in part.rounds)
    return replace(part, rounds=tuple(rounds))


@pytest.mark.parametrize(("mutant", "kind"), [(sent_too_early, "all_gather"), (copied_not_added, "reduce_scatter")])
def test_faults_show(mutant: Callable[[MemberPart], MemberPart], kind: CollectiveKind) -> None:
    """In at least one of ten races a ring of five gives other numbers; without the fault never."""
    sound = [part_of(lower(kind, recipe_of("ring", 5, channels=2)), member, 20) for member in range(5)]

    def fails(parts: list[MemberPart], seed: int) -> bool:
        messages = messages_of(kind, 5, 20, seed)  # fresh memory may hold what the race before left
        try:
            check_results(kind, raced(kind, parts, messages, seed), messages)
        except (AssertionError, DeadlockError):
            return True
        return False

    assert not any(fails(sound, seed) for seed in range(10))
    assert any(fails([mutant(part) for part in sound], seed) for seed in range(10))


def test_what_has_not_left_yet_is_sent_as_it_was() -> None:
    """Member 0 sends chunk 0 and gets member 1's chunk 1 in its place: member 1 gets what was there before."""
    there_and_back = (Transfer(0, 1, 0, 2, 1, False, 0), Transfer(1, 0, 1, 0, 1, False, 0))
    lowered = Lowered(kind="all_to_all", size=2, parts=1, transfers=there_and_back)
    parts = [part_of(lowered, member, 3) for member in range(2)]
    messages = messages_of("all_to_all", 2, 3)
    got = [raced("all_to_all", parts, messages, seed)[1][0] for seed in range(10)]
    assert all(np.array_equal(each, messages[0][0]) for each in got)


# ── by hand ──


def test_a_ring_of_three_by_hand() -> None:
    """Pieces of 4 in 3 members: member 1 sends its own piece, then member 0's on, and writes two pieces."""
    part = part_of(lower("all_gather", recipe_of("ring", 3)), 1, 4)
    assert part.sizes == (12, 0, 0)
    assert [each.sends for each in part.rounds] == [((2, (0, 4, 8)),), ((2, (0, 0, 4)),)]
    written = [(write.peer, tuple(write.place), write.add) for each in part.rounds for write in each.writes]
    assert written == [(0, (0, 0, 4), False), (0, (0, 8, 12), False)]


def test_empty_chunks_are_sent_by_nobody() -> None:
    """A message of 2 numbers in 5 chunks: only the first two chunks travel."""
    lowered = lower("all_reduce", recipe_of("ring", 5))
    rounds = [each for member in range(5) for each in part_of(lowered, member, 2).rounds]
    assert sum(len(each.sends) for each in rounds) == sum(len(each.writes) for each in rounds) == 2 * 2 * 4


def test_rounds_hold_what_does_not_wait_for_each_other() -> None:
    """A ring's step is a round, whatever its channels; both ends of a message are in the same one."""
    lowered = lower("all_reduce", recipe_of("ring", 4, channels=2))
    parts = [part_of(lowered, member, 16) for member in range(4)]
    assert {len(part.rounds) for part in parts} == {6}
    assert {(len(each.sends), len(each.writes)) for part in parts for each in part.rounds} == {(2, 2)}
