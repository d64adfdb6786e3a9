"""Faults put into right algorithms are found: dropped steps, other places, peers and orders, and waits left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from simfrontier_extras.msccl.evaluate import verdict
from simfrontier_extras.msccl.program import NONE, READS, WRITES, Algo, Step, ThreadBlock
from simfrontier_extras.msccl.rccl import faults
from simfrontier_extras.msccl.tests.made import keys, made
from simfrontier_extras.msccl.tests.played import plays

Mutate = Callable[[Algo, int, ThreadBlock], Iterator[Algo]]


def changed(algo: Algo, rank: int, block: ThreadBlock, **update: object) -> Algo:
    """The algorithm with something else in a thread block."""
    blocks = [each.model_copy(update=update) if each.id == block.id else each for each in algo.gpu[rank].tb]
    gpu = algo.gpu[rank].model_copy(update={"tb": tuple(blocks)})
    return algo.model_copy(update={"gpu": (*algo.gpu[:rank], gpu, *algo.gpu[rank + 1 :])})


def with_step(algo: Algo, rank: int, block: ThreadBlock, at: int, **update: object) -> Algo:
    """The algorithm with something else in a step."""
    steps = [step.model_copy(update=update) if number == at else step for number, step in enumerate(block.step)]
    return changed(algo, rank, block, step=tuple(steps))


def without_a_step(algo: Algo, rank: int, block: ThreadBlock) -> Iterator[Algo]:
    """Who waits for a later step of the thread block waits for its new number."""
    for at in range(len(block.step)):
        if block.step[at].type == "nop":
            continue
        fewer = changed(algo, rank, block, step=(*block.step[:at], *block.step[at + 1 :]))
        for other in fewer.gpu[rank].tb:
            steps = [_renumbered(step, block.id, at) for step in other.step]
            fewer = changed(fewer, rank, other, step=tuple(steps))
        yield fewer


def _renumbered(step: Step, number: int, at: int) -> Step:
    if step.depid != number or step.deps < at:
        return step
    return step.model_copy(update={"deps": max(0, step.deps - 1)})


def other_places(algo: Algo, rank: int, block: ThreadBlock) -> Iterator[Algo]:
    """A step reads, or writes, the next chunk."""
    for at, step in enumerate(block.step):
        for key, types in (("srcoff", READS), ("dstoff", WRITES)):
            if step.type in types:
                yield with_step(algo, rank, block, at, **{key: getattr(step, key) + 1})


def other_peers(algo: Algo, rank: int, block: ThreadBlock) -> Iterator[Algo]:
    for end in ("send", "recv"):
        peer = getattr(block, end)
        if peer != NONE:
            for other in (peer + 1) % algo.ngpus, (peer - 1) % algo.ngpus:
                if other != peer:
                    yield changed(algo, rank, block, **{end: other})


def without_a_wait(algo: Algo, rank: int, block: ThreadBlock) -> Iterator[Algo]:
    """A wait of a `nop` is that of the next step instead, whose own is lost."""
    for at, step in enumerate(block.step):
        if step.waits and (at == 0 or block.step[at - 1].type != "nop") and step.type != "nop":
            yield with_step(algo, rank, block, at, depid=NONE, deps=NONE)


def in_another_order(algo: Algo, rank: int, block: ThreadBlock) -> Iterator[Algo]:
    """Two neighbours change places; copies within the GPU may."""
    for at in range(len(block.step) - 1):
        one, other = block.step[at : at + 2]
        if one.type != "cpy" and one.model_copy(update={"s": other.s}) != other and "nop" not in (one.type, other.type):
            yield changed(algo, rank, block, step=(*block.step[:at], other, one, *block.step[at + 2 :]))


def another_count(algo: Algo, rank: int, block: ThreadBlock) -> Iterator[Algo]:
    for at, step in enumerate(block.step):
        if step.cnt > 1:
            yield with_step(algo, rank, block, at, cnt=step.cnt - 1)


def added_where_it_replaces(algo: Algo, rank: int, block: ThreadBlock) -> Iterator[Algo]:
    other = {"r": "rrc", "rrc": "r", "rrcs": "rcs", "rcs": "rrcs"}
    for at, step in enumerate(block.step):
        if step.type in other:
            yield with_step(algo, rank, block, at, type=other[step.type])


def survivors(mutate: Mutate) -> tuple[int, list[Algo]]:
    """How many mutants there are of small algorithms, and those that are said to be right."""
    made_of, left = 0, []
    for key in keys([2, 3, 5]):
        algo = made(key)
        gpu = algo.gpu[algo.ngpus // 2]
        for block in gpu.tb:
            for mutant in mutate(algo, gpu.id, block):
                made_of += 1
                if verdict(mutant).is_right:
                    left.append(mutant)
    return made_of, left


# How many there are, and how many of them compute the collective all the same, as 10 random orders show: messages of
# others bring about what was waited for, neighbours use different memory, and nobody needs what `ring_twice` gathers.
COUNTS = {
    without_a_step: (1214, 0),
    other_places: (1490, 4),
    other_peers: (1572, 0),
    without_a_wait: (214, 56),
    in_another_order: (475, 66),
    another_count: (32, 0),
    added_where_it_replaces: (577, 0),
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
        for block in algo.gpu[0].tb:
            for mutate in (without_a_step, without_a_wait, in_another_order, added_where_it_replaces):
                for mutant in mutate(algo, 0, block):
                    if not faults(mutant):
                        ended[verdict(mutant).is_right, plays(mutant, times=2)] += 1
    assert ended[True, False] == 0 and ended[False, False] > 100, ended
