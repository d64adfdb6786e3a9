"""One message of a collective by explicit transfers: exact on whole numbers, whoever comes first, without deadlock."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.collectives import all_algorithms
from simfrontier.collectives.lowering import Lowered, Recipe, Transfer, lower
from simfrontier.schedule.ir import CollectiveKind
from simfrontier_real.arrays import Array
from simfrontier_real.lowered import LoweredPending
from simfrontier_real.moves import MESSAGE, MemberPart, part_of
from simfrontier_real.wire import Mailboxes, PendingMessage, Wire, WireMessage
from tests.real.lowerings import recipe_of, shuffled

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
    wires: Sequence[Wire], kind: CollectiveKind, parts: list[MemberPart], messages: list[Array], rounds: bool
) -> list[LoweredPending]:
    return [
        LoweredPending(wire, kind, member, part, message, "sum", rounds, None)
        for member, (wire, part, message) in enumerate(zip(wires, parts, messages, strict=True))
    ]


def check_results(kind: CollectiveKind, results: list[Array], messages: list[Array]) -> None:
    for result, right in zip(results, wanted(kind, messages), strict=True):
        assert result.shape == right.shape and result.dtype == right.dtype
        assert np.array_equal(result, right)


# ── all in one process ──


@pytest.mark.parametrize("rounds", [False, True], ids=["one by one", "in rounds"])
@pytest.mark.parametrize(("algorithm", "kind"), PAIRS)
def test_every_algorithm_gives_what_the_library_gives(algorithm: str, kind: CollectiveKind, rounds: bool) -> None:
    """Groups of 1 to 9, pieces that do not divide evenly, down to chunks that are empty; messages stay as they were."""
    for size in range(1, 10):
        per_node = size // 2 if size % 2 == 0 else size
        for elements in (1, 2, 5, 16, 37):
            recipe = recipe_of(algorithm, size, channels=1 + size % 2, slices=1 + elements % 3, per_node=per_node)
            messages = messages_of(kind, size, elements)
            given_ = [message.copy() for message in messages]
            boxes, group = Mailboxes(), tuple(range(size))
            parts = [part_of(lower(kind, recipe), member, elements, rounds) for member in range(size)]
            pendings = pendings_over([boxes.wire(rank, group) for rank in group], kind, parts, given_, rounds)
            for pending in pendings:
                pending.wire.watch(pending.advance)
            assert all(pending.is_done() for pending in pendings), (size, elements)
            check_results(kind, [pending.wait() for pending in pendings], messages)
            assert boxes.sent == {} and boxes.watched == []
            if kind != "all_reduce":
                assert all(np.array_equal(a, b) for a, b in zip(given_, messages, strict=True))


# ── the worst that a network may do ──


@dataclass
class Ended:
    """A message that has or has not been handed over."""

    done: bool = False

    def is_done(self) -> bool:
        return self.done

    def wait(self) -> None:
        assert self.done, "this would block for ever"


@dataclass
class Rendezvous:
    """A network that hands a message over only when both ends have called, at any later moment, one at a time: it reads
    what is there then, and writes there then. Between two members messages go in order."""

    calls: dict[tuple[int, int, bool], list[tuple[Ended, Array]]] = field(default_factory=lambda: defaultdict(list))
    handed: int = 0

    def ready(self) -> list[tuple[int, int]]:
        waiting = {(a, b) for (a, b, sent), calls in self.calls.items() if sent and calls}
        return sorted(pair for pair in waiting if self.calls.get((*pair, False)))

    def hand_over(self, pair: tuple[int, int]) -> None:
        (sending, values), (receiving, into) = (self.calls[(*pair, sent)].pop(0) for sent in (True, False))
        into[...] = values
        sending.done = receiving.done = True
        self.handed += 1


@dataclass
class RendezvousWire:
    """One member's end."""

    net: Rendezvous
    member: int

    def send(self, peer: int, values: Array) -> PendingMessage:
        return self._call(self.member, peer, True, values)

    def receive(self, peer: int, values: Array) -> PendingMessage:
        return self._call(peer, self.member, False, values)

    def _call(self, source: int, target: int, sent: bool, values: Array) -> Ended:
        ended = Ended()
        self.net.calls[source, target, sent].append((ended, values))
        return ended

    def exchange(self, moves: Sequence[WireMessage]) -> list[PendingMessage]:
        return [(self.send if move.is_send else self.receive)(move.peer, move.values) for move in moves]

    def watch(self, advance: Callable[[], bool]) -> None: ...

    def settle(self) -> None: ...


class DeadlockError(Exception):
    """Nothing can move any more."""


def raced(kind: CollectiveKind, parts: list[MemberPart], messages: list[Array], rounds: bool, seed: int) -> list[Array]:
    """Members and messages go on in any order. A member that is looked at stops exactly where it would block."""
    numbers, net = random.Random(seed), Rendezvous()
    pendings = pendings_over(
        [RendezvousWire(net, member) for member in range(len(parts))],
        kind,
        parts,
        [message.copy() for message in messages],
        rounds,
    )
    eager = numbers.random()  # how often members get a turn before the network does
    while True:
        before = net.handed
        for pending in numbers.sample(pendings, len(pendings)):
            pending.advance()
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
    rounds=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_whatever_the_network_does_the_result_is_exact(
    pair: tuple[str, CollectiveKind],
    size: int,
    nodes: int,
    channels: int,
    slices: int,
    elements: int,
    rounds: bool,
    seed: int,
) -> None:
    algorithm, kind = pair
    if nodes == 1 and algorithm != "two_level":
        recipe = shuffled(size, channels, slices, seed, algorithm)
    else:
        recipe = recipe_of(algorithm, size, channels, slices, size // nodes if size % nodes == 0 else size)
    messages = messages_of(kind, size, elements, seed % 100)
    parts = [part_of(lower(kind, recipe), member, elements, rounds) for member in range(size)]
    check_results(kind, raced(kind, parts, messages, rounds, seed), messages)


# ── faults that these tests must see ──


def no_waiting_for_sends(part: MemberPart) -> MemberPart:
    """What arrives overwrites what has not left yet."""
    return replace(part, turns=tuple(replace(turn, sends=()) for turn in part.turns))


def no_waiting_for_turns(part: MemberPart) -> MemberPart:
    """Everything is sent at once, whether it is there or not."""
    return replace(part, sends=tuple(replace(send, after=0) for send in part.sends))


def nothing_else_needs_it(part: MemberPart) -> MemberPart:
    """What arrives is written where it belongs as soon as it comes."""
    return replace(part, turns=tuple(replace(turn, after=0, sends=()) for turn in part.turns))


def copied_not_added(part: MemberPart) -> MemberPart:
    return replace(part, turns=tuple(replace(turn, add=False) for turn in part.turns))


def no_waking(part: MemberPart) -> MemberPart:
    """Nobody looks at the sends when a turn is done."""
    return replace(part, turns=tuple(replace(turn, wakes=()) for turn in part.turns))


MUTANTS: list[tuple[Callable[[MemberPart], MemberPart], CollectiveKind]] = [
    (no_waiting_for_turns, "all_gather"),
    (copied_not_added, "reduce_scatter"),
    (no_waking, "all_gather"),
]


@pytest.mark.parametrize(("mutant", "kind"), MUTANTS)
def test_faults_show(mutant: Callable[[MemberPart], MemberPart], kind: CollectiveKind) -> None:
    """In at least one of forty races a ring of five gives other numbers, or stands still; without the fault never."""
    recipe = recipe_of("ring", 5, channels=2)
    sound = [part_of(lower(kind, recipe), member, 20) for member in range(5)]
    assert [seed for seed in range(40) if fails(kind, sound, seed)] == []
    assert [seed for seed in range(40) if fails(kind, [mutant(part) for part in sound], seed)] != []


def fails(kind: CollectiveKind, parts: list[MemberPart], seed: int) -> bool:
    messages = messages_of(kind, 5, 20, seed)  # fresh memory may hold what the race before left
    try:
        check_results(kind, raced(kind, parts, messages, False, seed), messages)
    except (AssertionError, DeadlockError):
        return True
    return False


def test_what_has_not_left_yet_is_not_overwritten() -> None:
    """Member 0 sends chunk 0 and gets member 1's chunk 1 in its place: member 1 gets what was there before."""
    there_and_back = (Transfer(0, 1, 0, 2, 1, False, 0), Transfer(1, 0, 1, 0, 1, False, 0))
    lowered = Lowered(kind="all_to_all", size=2, parts=1, transfers=there_and_back)
    sound = [part_of(lowered, member, 3) for member in range(2)]
    assert sound[0].turns[0].sends == (0,)
    wrong = [no_waiting_for_sends(part) for part in sound]
    messages = messages_of("all_to_all", 2, 3)
    for parts, may_fail in ((sound, False), (wrong, True)):
        got = [raced("all_to_all", parts, messages, False, seed)[1][0] for seed in range(40)]
        assert all(np.array_equal(each, messages[0][0]) for each in got) != may_fail


def test_what_comes_later_in_the_list_is_what_stays() -> None:
    """Members 1 and 2 both write into chunk 3 of member 0, who cannot know whose message comes first."""
    one_after_the_other = (Transfer(1, 0, 0, 3, 1, False, 0), Transfer(2, 0, 0, 3, 1, False, 0))
    lowered = Lowered(kind="all_to_all", size=3, parts=1, transfers=one_after_the_other)
    sound = [part_of(lowered, member, 3) for member in range(3)]
    assert [turn.after for turn in sound[0].turns] == [0, 1]
    wrong = [nothing_else_needs_it(part) for part in sound]
    messages = messages_of("all_to_all", 3, 3)
    for parts, may_fail in ((sound, False), (wrong, True)):
        got = [raced("all_to_all", parts, messages, False, seed)[0][0] for seed in range(40)]
        assert all(np.array_equal(each, messages[2][0]) for each in got) != may_fail


# ── by hand ──


def test_a_ring_of_three_by_hand() -> None:
    """Pieces of 4 in 3 members: member 1 sends its own piece, then member 0's on, and writes two pieces."""
    part = part_of(lower("all_gather", recipe_of("ring", 3)), 1, 4)
    assert part.sizes == (12, 0, 0)
    assert [(send.peer, tuple(send.place), send.after) for send in part.sends] == [(2, (0, 4, 8), 0), (2, (0, 0, 4), 1)]
    assert [(turn.peer, tuple(turn.place), turn.add, turn.wakes) for turn in part.turns] == [
        (0, (0, 0, 4), False, (2,)),
        (0, (0, 8, 12), False, ()),
    ]


def test_a_sum_that_comes_back_is_received_in_its_place_at_once() -> None:
    """Two members, chunks A and B: each sends one, adds the other's to the other, and gets the first back summed, which
    cannot have set out before the first was there."""
    part = part_of(lower("all_reduce", recipe_of("ring", 2)), 0, 4)
    (first, second), (added, copied) = part.sends, part.turns
    assert first.place == copied.place and second.place == added.place
    assert (added.add, copied.add) == (True, False)
    assert (second.after, copied.after, copied.sends) == (1, 0, ())


@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_only_what_is_added_needs_room_of_its_own(size: int) -> None:
    """Whatever is copied in rings, halvings and trees is received where it belongs."""
    for algorithm, kind in PAIRS:
        if algorithm in ("ring", "halving", "tree"):
            parts = [part_of(lower(kind, recipe_of(algorithm, size, 2)), member, 20) for member in range(size)]
            copies = [turn for part in parts for turn in part.turns if not turn.add]
            assert [turn for turn in copies if turn.after or turn.sends] == [], (algorithm, kind)


def test_empty_chunks_are_sent_by_nobody() -> None:
    """A message of 2 numbers in 5 chunks: only the first two chunks travel."""
    lowered = lower("all_reduce", recipe_of("ring", 5))
    parts = [part_of(lowered, member, 2) for member in range(5)]
    assert sum(len(part.sends) for part in parts) == 2 * 2 * 4
    assert sum(len(part.sends) for part in parts) == sum(len(part.turns) for part in parts)


def test_an_all_to_all_leaves_the_message_where_it_is() -> None:
    part = part_of(lower("all_to_all", recipe_of("direct", 4)), 2, 3)
    assert not part.writes_message and part.sizes == (12, 12, 0)
    assert part_of(lower("reduce_scatter", recipe_of("ring", 4)), 2, 3).writes_message
    assert {send.place.area for send in part.sends} == {MESSAGE}


def test_rounds_hold_what_does_not_wait_for_each_other() -> None:
    """A ring's step is a round, whatever its channels; both ends of a message are in the same one."""
    lowered = lower("all_reduce", recipe_of("ring", 4, channels=2))
    parts = [part_of(lowered, member, 16, in_rounds=True) for member in range(4)]
    assert {len(part.rounds) for part in parts} == {6}
    assert {(len(each.sends), len(each.turns)) for part in parts for each in part.rounds} == {(2, 2)}
    direct = part_of(lower("all_to_all", recipe_of("direct", 4)), 0, 4, in_rounds=True)
    assert [(len(each.sends), len(each.turns)) for each in direct.rounds] == [(3, 4)]


def test_received_ahead_is_no_more_than_the_message() -> None:
    """A member that takes no turn has room for its message's size, and one message more."""
    lowered = lower("reduce_scatter", Recipe(algorithm="direct", orders=(tuple(range(6)),), per_node=6, slices=4))
    part, made = part_of(lowered, 0, 40), Rendezvous()
    pending = LoweredPending(
        RendezvousWire(made, 0), "reduce_scatter", 0, part, np.zeros((6, 40), np.float32), "sum", False, None
    )
    pending.advance()
    awaited = sum(values.size for (_, _, sent), calls in made.calls.items() if not sent for _, values in calls)
    assert 0 < awaited <= 240 == part.sizes[MESSAGE]
