"""Loops: repeated calls, which advance by a number of layers and micro-batches per iteration."""

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
    """A `body` of calls and loops that runs `times` times, advancing by `layers` and `micros` (micro-batches) per
    iteration; its calls are those of the first iteration."""

    times: int
    body: tuple[Item, ...]
    layers: int
    micros: int


Item = Call | Loop


def expanded(items: Iterable[Item], layers: int = 0, micros: int = 0) -> Iterator[Call]:
    """Yield every call of some items, with loops expanded, shifted by `layers` and `micros` (micro-batches)."""
    for item in items:
        if isinstance(item, Loop):
            for time in range(item.times):
                yield from expanded(item.body, layers + time * item.layers, micros + time * item.micros)
        else:
            yield Call(item.label, item.layer + layers, item.micro + micros, item.ops, item.block)


def num_ops(items: Iterable[Item]) -> int:
    """Return the number of ops of some items, without expanding their loops."""
    return sum(item.times * num_ops(item.body) if isinstance(item, Loop) else len(item.ops) for item in items)


def folded(calls: Iterable[Call], blocks: Sequence[int]) -> tuple[Item, ...]:
    """Return calls with every repeated stretch as a loop, shortest first, so that the form is unique. `blocks` gives
    the stored block of each block of the schedule: calls of equal stored blocks are equivalent."""
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
    """An item with its place: `number` identifies it regardless of place; `layer` and `micro` are those of its first
    call."""

    number: int
    layer: int
    micro: int
    item: Item


class _Folder:
    """Numbers items: two that differ only in their place have the same number."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def _number(self, form: Hashable) -> int:
        return self._known.setdefault(form, len(self._known))

    def call(self, call: Call, block: int) -> _Placed:
        return _Placed(self._number((call.label, block)), call.layer, call.micro, call)

    def looped(self, items: list[_Placed], period: int, runs: list[tuple[int, int]]) -> list[_Placed]:
        """Return the items with stretches of `period` items as loops; `runs`: (first, end) of positions whose item is
        repeated `period` positions later with a constant advance."""
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
    """Return [3, num_items]: the number of every item, and the layer and micro-batch of its first call."""
    return np.array([item[:3] for item in items], dtype=np.int64).reshape(-1, 3).T.copy()


def _runs(places: NDArray[np.int64], period: int) -> list[tuple[int, int]]:
    """Return (first, end) of the runs of positions whose item is repeated `period` positions later with a constant
    advance, if at least one period long. All positions are compared at once."""
    is_same = places[0, period:] == places[0, :-period]
    if not is_same.any():
        return []
    further = places[:, period:] - places[:, :-period]
    changes = np.flatnonzero((further[:, 1:] != further[:, :-1]).any(axis=0)) + 1
    bounds = [0, *changes.tolist(), len(is_same)]
    return [(first, end) for first, end in pairwise(bounds) if end - first >= period and is_same[first]]


class RepeatedRefs(NamedTuple):
    """Operands that are repeated `times` times, advancing by `layer_step` layers each time."""

    times: int
    refs: tuple[Ref, ...]
    layer_step: int


MIN_RUN = 16  # shorter lists of operands are stored as they are


def runs_of_refs(refs: tuple[Ref, ...]) -> list[Ref | RepeatedRefs]:
    """Return the operands of a call over many layers, with repetitions over layers as runs; a short list is
    unchanged."""
    out: list[Ref | RepeatedRefs] = []
    at = 0
    while at < len(refs):
        run = _run_at(refs, at) if len(refs) >= MIN_RUN else None
        out.append(run or refs[at])
        at += run.times * len(run.refs) if run else 1
    return out


def _run_at(refs: tuple[Ref, ...], at: int) -> RepeatedRefs | None:
    """Return the run that starts at a position, if any: its period is the distance to the next operand of the same
    name."""
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
    """Yield the operands of a run."""
    for time in range(run.times):
        yield from _shifted(run.refs, time * run.layer_step)
