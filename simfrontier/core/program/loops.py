"""Loops: calls that follow each other again and again, each time some layers and micro-batches further."""

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
    """A `body` of calls and loops that runs `times` times over, each time `layers` layers and `micros` micro-batches
    further; its calls stand as they are the first time."""

    times: int
    body: tuple[Item, ...]
    layers: int
    micros: int


Item = Call | Loop


def expanded(items: Iterable[Item], layers: int = 0, micros: int = 0) -> Iterator[Call]:
    """Every call of some items, loops run, so many layers and micro-batches further than they stand."""
    for item in items:
        if isinstance(item, Loop):
            for time in range(item.times):
                yield from expanded(item.body, layers + time * item.layers, micros + time * item.micros)
        else:
            yield Call(item.label, item.layer + layers, item.micro + micros, item.ops, item.block)


def num_ops(items: Iterable[Item]) -> int:
    """Return the number of ops that some items mean, without running their loops."""
    return sum(item.times * num_ops(item.body) if isinstance(item, Loop) else len(item.ops) for item in items)


def folded(calls: Iterable[Call], blocks: Sequence[int]) -> tuple[Item, ...]:
    """Return calls with every stretch that follows itself as a loop, short ones first, so that the form is unique.
    `blocks` gives the stored block of each of the schedule's: calls of equal blocks are alike."""
    folder = _Folder()
    items = [folder.call(call, blocks[call.block]) for call in calls]
    places = _places(items)
    period = 1
    while 2 * period <= len(items):
        runs = _runs(places, period)
        if runs:
            items = folder.looped(items, period, runs)
            places = _places(items)
        period = 1 if runs else period + 1  # loops that follow each other may be alike
    return tuple([item.item for item in items])


class _Placed(NamedTuple):
    """An item by the number of what it is wherever it stands, and where its first call stands."""

    number: int
    layer: int
    micro: int
    item: Item


class _Folder:
    """Numbers what items are: two that differ in nothing but their place have the same number."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def _number(self, form: Hashable) -> int:
        return self._known.setdefault(form, len(self._known))

    def call(self, call: Call, block: int) -> _Placed:
        return _Placed(self._number((call.label, block)), call.layer, call.micro, call)

    def looped(self, items: list[_Placed], period: int, runs: list[tuple[int, int]]) -> list[_Placed]:
        """The items with stretches of `period` items as loops; `runs`: (first, end) of places whose item stands again
        `period` places later, always as much further."""
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
    """[3, num_items]: the number of every item, and the layer and micro-batch of its first call."""
    return np.array([item[:3] for item in items], dtype=np.int64).reshape(-1, 3).T.copy()


def _runs(places: NDArray[np.int64], period: int) -> list[tuple[int, int]]:
    """(first, end) of the places whose item stands again `period` places later, always as much further: those runs
    that are as long as a period. All places of one period are compared at once."""
    is_same = places[0, period:] == places[0, :-period]
    if not is_same.any():
        return []
    further = places[:, period:] - places[:, :-period]
    changes = np.flatnonzero((further[:, 1:] != further[:, :-1]).any(axis=0)) + 1
    bounds = [0, *changes.tolist(), len(is_same)]
    return [(first, end) for first, end in pairwise(bounds) if end - first >= period and is_same[first]]


class RepeatedRefs(NamedTuple):
    """Operands that stand `times` times over, each time `layer_step` layers further."""

    times: int
    refs: tuple[Ref, ...]
    layer_step: int


MIN_RUN = 16  # shorter lists of operands are stored as they are


def runs_of_refs(refs: tuple[Ref, ...]) -> list[Ref | RepeatedRefs]:
    """Operands of a call over many layers, with the layers as runs; a short list stays as it is."""
    out: list[Ref | RepeatedRefs] = []
    at = 0
    while at < len(refs):
        run = _run_at(refs, at) if len(refs) >= MIN_RUN else None
        out.append(run or refs[at])
        at += run.times * len(run.refs) if run else 1
    return out


def _run_at(refs: tuple[Ref, ...], at: int) -> RepeatedRefs | None:
    """The run that starts at a position: its period is the distance to the next operand of the same name."""
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
    """The operands that a run means."""
    for time in range(run.times):
        yield from _shifted(run.refs, time * run.layer_step)
