"""Faults put into right algorithms are found: dropped steps, other places, peers and orders, and waits left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from simfrontier_extras.msccl.evaluate import verdict
from simfrontier_extras.msccl.program import READS, WRITES, Algo, Chunk, Step, ThreadBlock
from simfrontier_extras.msccl.rccl import faults
from simfrontier_extras.msccl.tests.made import keys, made
from simfrontier_extras.msccl.tests.played import plays

Mutate = Callable[[Algo, int, ThreadBlock], Iterator[Algo]]


def changed(algo: Algo, rank: int, block: ThreadBlock) -> Algo:
    """The algorithm with another thread block in the place of the one of that number."""
    gpu = algo.gpus[rank]
    blocks = tuple(block if each.number == block.number else each for each in gpu.thread_blocks)
    gpus = tuple(replace(gpu, thread_blocks=blocks) if each.number == rank else each for each in algo.gpus)
    return replace(algo, gpus=gpus)


def with_steps(algo: Algo, rank: int, block: ThreadBlock, steps: list[Step]) -> Algo:
    return changed(algo, rank, replace(block, steps=tuple(steps)))


def without_a_step(algo: Algo, rank: int, block: ThreadBlock) -> Iterator[Algo]:
    """Who waits for a later step of the thread block waits for its new number."""
    for at in range(len(block.steps)):
        if block.steps[at].type == "nop":
            continue
        fewer = with_steps(algo, rank, block, [*block.steps[:at], *block.steps[at + 1 :]])
        for other in fewer.gpus[rank].thread_blocks:
            steps = [_renumbered(step, block.number, at) for step in other.steps]
            fewer = with_steps(fewer, rank, other, steps)
        yield fewer


def _renumbered(step: Step, number: int, at: int) -> Step:
    if step.after is None or step.after[0] != number or step.after[1] < at:
        return step
    return replace(step, after=(number, max(0, step.after[1] - 1)))


def other_places(algo: Algo, rank: int, block: ThreadBlock) -> Iterator[Algo]:
    """A step reads, or writes, the next chunk."""
    for at, step in enumerate(block.steps):
        for end, types in (("src", READS), ("dst", WRITES)):
            if step.type in types:
                place: Chunk = getattr(step, end)
                moved = replace(step, **{end: Chunk(place.buffer, place.offset + 1)})  # type: ignore[arg-type]
                yield with_steps(algo, rank, block, [*block.steps[:at], moved, *block.steps[at + 1 :]])


def other_peers(algo: Algo, rank: int, block: ThreadBlock) -> Iterator[Algo]:
    for end in ("send", "recv"):
        peer = getattr(block, end)
        if peer is not None:
            for other in (peer + 1) % algo.size, (peer - 1) % algo.size:
                if other != peer:
                    yield changed(algo, rank, replace(block, **{end: other}))  # type: ignore[arg-type]


def without_a_wait(algo: Algo, rank: int, block: ThreadBlock) -> Iterator[Algo]:
    """A wait of a `nop` is that of the next step instead, whose own is lost."""
    for at, step in enumerate(block.steps):
        if step.after is not None and (at == 0 or block.steps[at - 1].type != "nop") and step.type != "nop":
            yield with_steps(algo, rank, block, [*block.steps[:at], replace(step, after=None), *block.steps[at + 1 :]])


def in_another_order(algo: Algo, rank: int, block: ThreadBlock) -> Iterator[Algo]:
    """Two neighbours change places; copies within the GPU may."""
    for at in range(len(block.steps) - 1):
        one, other = block.steps[at : at + 2]
        if one.type != "cpy" and one != other and "nop" not in (one.type, other.type):
            yield with_steps(algo, rank, block, [*block.steps[:at], other, one, *block.steps[at + 2 :]])


def another_count(algo: Algo, rank: int, block: ThreadBlock) -> Iterator[Algo]:
    for at, step in enumerate(block.steps):
        if step.count > 1:
            less = replace(step, count=step.count - 1)
            yield with_steps(algo, rank, block, [*block.steps[:at], less, *block.steps[at + 1 :]])


def added_where_it_replaces(algo: Algo, rank: int, block: ThreadBlock) -> Iterator[Algo]:
    other = {"r": "rrc", "rrc": "r", "rrcs": "rcs", "rcs": "rrcs"}
    for at, step in enumerate(block.steps):
        if step.type in other:
            turned = replace(step, type=other[step.type])  # type: ignore[arg-type]
            yield with_steps(algo, rank, block, [*block.steps[:at], turned, *block.steps[at + 1 :]])


def survivors(mutate: Mutate) -> tuple[int, list[Algo]]:
    """How many mutants there are of small algorithms, and those that are said to be right."""
    made_of, left = 0, []
    for key in keys([2, 3, 5]):
        algo = made(key)
        gpu = algo.gpus[algo.size // 2]
        for block in gpu.thread_blocks:
            for mutant in mutate(algo, gpu.number, block):
                made_of += 1
                if verdict(mutant).is_right:
                    left.append(mutant)
    return made_of, left


# How many there are, and how many of them compute the collective all the same, as 10 random orders show: messages of
# others bring about what was waited for, neighbours use different memory, and nobody needs what `ring_twice` gathers.
COUNTS = {
    without_a_step: (995, 0),
    other_places: (1229, 4),
    other_peers: (1248, 0),
    without_a_wait: (214, 56),
    in_another_order: (424, 51),
    another_count: (29, 0),
    added_where_it_replaces: (484, 0),
}


@pytest.mark.parametrize("mutate", COUNTS, ids=lambda mutate: mutate.__name__)
def test_mutants_are_found(mutate: Mutate) -> None:
    num, left = survivors(mutate)
    assert (num, len(left)) == COUNTS[mutate]
    for mutant in left:
        assert plays(mutant, times=10), mutant.name


def test_what_is_wrong_in_some_order_is_never_said_to_be_right() -> None:
    ended: Counter[tuple[bool, bool]] = Counter()
    for key in keys([2, 3]):
        algo = made(key)
        for block in algo.gpus[0].thread_blocks:
            for mutate in (without_a_step, without_a_wait, in_another_order, added_where_it_replaces):
                for mutant in mutate(algo, 0, block):
                    if not faults(mutant):
                        ended[verdict(mutant).is_right, plays(mutant, times=2)] += 1
    assert ended[True, False] == 0 and ended[False, False] > 100, ended
