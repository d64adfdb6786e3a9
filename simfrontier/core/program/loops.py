"""Loops in a role's program: calls that are repeated, with layer and micro-batch advancing by constant steps."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfrontier.core.program.ir import Call, Ref


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop over calls and inner loops: `body` runs `times` times, and each iteration advances by `layers` layers and
    `micros` micro-batches. The calls in `body` are those of the first iteration."""

    times: int
    body: tuple[Item, ...]
    layers: int
    micros: int


Item = Call | Loop


def expanded(items: Iterable[Item], layers: int = 0, micros: int = 0) -> Iterator[Call]:
    """Yield every call of some calls and loops, with loops unrolled, and all layers and micro-batches shifted by
    `layers` and `micros`."""
    for item in items:
        if isinstance(item, Loop):
            for time in range(item.times):
                yield from expanded(item.body, layers + time * item.layers, micros + time * item.micros)
        else:
            yield Call(item.label, item.layer + layers, item.micro + micros, item.ops, item.block)


def num_ops(items: Iterable[Item]) -> int:
    """Return the total number of ops of some calls and loops, without unrolling the loops."""
    return sum(item.times * num_ops(item.body) if isinstance(item, Loop) else len(item.ops) for item in items)


def folded(calls: Iterable[Call], blocks: Sequence[int]) -> tuple[Item, ...]:
    """Return the calls with every repeated sequence replaced by a loop, the shortest sequences first, which makes the
    result unique. `blocks` maps each block of the schedule to its stored block; calls with the same stored block are
    equivalent."""
    folder = _Folder()
    items = [folder.call(call, blocks[call.block]) for call in calls]
    places = _places(items)
    period = 1
    while 2 * period <= len(items):
        runs = _runs(places, period)
        if runs:
            items = folder.looped(items, period, runs)
            places = _places(items)
        period = 1 if runs else period + 1  # consecutive loops may themselves repeat
    return tuple([item.item for item in items])


class _Placed(NamedTuple):
    """A call or loop with a `number` that is equal for items that differ only in layer and micro-batch; `layer` and
    `micro` are those of its first call."""

    number: int
    layer: int
    micro: int
    item: Item


class _Folder:
    """Assigns numbers to calls and loops; two that differ only in layer and micro-batch get the same number."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def _number(self, form: Hashable) -> int:
        return self._known.setdefault(form, len(self._known))

    def call(self, call: Call, block: int) -> _Placed:
        return _Placed(self._number((call.label, block)), call.layer, call.micro, call)

    def looped(self, items: list[_Placed], period: int, runs: list[tuple[int, int]]) -> list[_Placed]:
        """Return the items with repetitions of `period` consecutive items replaced by loops. `runs`: ranges (first,
        end) of positions at which the item recurs `period` positions later, with a constant step in layer and
        micro-batch."""
        out: list[_Placed] = []
        at = 0
        for first, end in runs:
            begin = max(at, first)
            if end - begin < period:
                continue
            times = 1 + (end - begin) // period
            out += items[at:begin]
            out.append(self._loop(times, items[begin : begin + period], items[begin + period]))
            at = begin + times * period
        return out + items[at:]

    def _loop(self, times: int, body: list[_Placed], again: _Placed) -> _Placed:
        first = body[0]
        layers, micros = again.layer - first.layer, again.micro - first.micro
        inside = tuple([(each.number, each.layer - first.layer, each.micro - first.micro) for each in body])
        loop = Loop(times, tuple([each.item for each in body]), layers, micros)
        return _Placed(self._number((times, layers, micros, inside)), first.layer, first.micro, loop)


def _places(items: Sequence[_Placed]) -> NDArray[np.int64]:
    """Return an array [3, num_items]: the number, layer and micro-batch of every item."""
    return np.array([item[:3] for item in items], dtype=np.int64).reshape(-1, 3).T.copy()


def _runs(places: NDArray[np.int64], period: int) -> list[tuple[int, int]]:
    """Return the ranges (first, end) of positions at which the item recurs `period` positions later with a constant
    step in layer and micro-batch; only ranges of at least `period` positions. Vectorised over all positions."""
    is_same = places[0, period:] == places[0, :-period]
    if not is_same.any():
        return []
    further = places[:, period:] - places[:, :-period]
    changes = np.flatnonzero((further[:, 1:] != further[:, :-1]).any(axis=0)) + 1
    bounds = [0, *changes.tolist(), len(is_same)]
    return [(first, end) for first, end in pairwise(bounds) if end - first >= period and is_same[first]]


class RepeatedRefs(NamedTuple):
    """A sequence of operands that is repeated `times` times, each time shifted by `layer_step` layers."""

    times: int
    refs: tuple[Ref, ...]
    layer_step: int


MIN_RUN = 16  # shorter lists of operands are stored as they are


def runs_of_refs(refs: tuple[Ref, ...]) -> list[Ref | RepeatedRefs]:
    """Return the operands of an op, with sequences that are repeated over layers replaced by RepeatedRefs; a short list
    is returned unchanged."""
    out: list[Ref | RepeatedRefs] = []
    at = 0
    while at < len(refs):
        run = _run_at(refs, at) if len(refs) >= MIN_RUN else None
        out.append(run or refs[at])
        at += run.times * len(run.refs) if run else 1
    return out


def _run_at(refs: tuple[Ref, ...], at: int) -> RepeatedRefs | None:
    """Return the repeated sequence of operands that starts at a position; None if there is none. Its period is the
    distance to the next operand of the same name."""
    again = next((other for other in range(at + 1, len(refs)) if refs[other].name == refs[at].name), None)
    if again is None:
        return None
    period, step, times = again - at, refs[again].layer - refs[at].layer, 1
    first = refs[at:again]
    while refs[at + times * period : at + (times + 1) * period] == _shifted(first, times * step):
        times += 1
    return RepeatedRefs(times, first, step) if times > 1 else None


def _shifted(refs: tuple[Ref, ...], layers: int) -> tuple[Ref, ...]:
    return tuple([Ref(ref.name, ref.layer + layers, ref.micro) for ref in refs])


def refs_of_run(run: RepeatedRefs) -> Iterator[Ref]:
    """Yield all operands of a repeated sequence."""
    for time in range(run.times):
        yield from _shifted(run.refs, time * run.layer_step)
