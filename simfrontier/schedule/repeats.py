"""Repeats: calls as nested loops, operands as runs over layers, so that neither grows with layers or micro-batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from simfrontier.records import dataclass
from simfrontier.schedule.ir import Call, Op, Ref


class RelativeCall(NamedTuple):
    """One call, relative to the call before it (the first from layer 0 of micro-batch 0)."""

    label: str
    block: int
    layer: int
    micro: int


@dataclass(frozen=True, slots=True)
class CallLoop:
    """A sequence that is run `times` times over."""

    times: int
    body: tuple[Item, ...]


Item = RelativeCall | CallLoop


def steps_of_calls(calls: Iterable[Call], blocks: Sequence[int]) -> list[RelativeCall]:
    """Each call as a step; `blocks` gives the stored block of each of the schedule's blocks."""
    out = []
    layer = micro = 0
    for call in calls:
        out.append(RelativeCall(call.label, blocks[call.block], call.layer - layer, call.micro - micro))
        layer, micro = call.layer, call.micro
    return out


def folded(steps: Iterable[RelativeCall]) -> tuple[Item, ...]:
    """The steps with every sequence that follows itself as a loop; short periods first, so that the form is unique.

    Items are compared as numbers, all of one period at once: for each of many periods nothing else is looked at.
    """
    import numpy as np  # takes long to import, and a name in this module needs none

    items: list[Item] = list(steps)
    number: dict[Item, int] = {}
    numbers = np.array([number.setdefault(item, len(number)) for item in items], dtype=np.int64)
    period = 1
    while 2 * period <= len(items):
        same = np.flatnonzero(np.diff(np.concatenate(([False], numbers[:-period] == numbers[period:], [False]))))
        runs = [(int(first), int(last)) for first, last in same.reshape(-1, 2) if last - first >= period]
        if runs:
            items = _fold(items, period, runs)
            numbers = np.array([number.setdefault(item, len(number)) for item in items], dtype=np.int64)
        period += 1
    return tuple(items)


def _fold(items: list[Item], period: int, runs: list[tuple[int, int]]) -> list[Item]:
    """One pass: runs of at least two equal stretches of `period` items become loops; `runs`: (first, end) of positions
    whose item stands again `period` further on."""
    out: list[Item] = []
    at = 0
    for first, end in runs:
        begin = max(at, first)
        if end - begin < period:
            continue
        times = 1 + (end - begin) // period
        out += items[at:begin]
        out.append(CallLoop(times, tuple(items[begin : begin + period])))
        at = begin + times * period
    return out + items[at:]


def num_steps(items: Iterable[Item]) -> int:
    """How many calls the loops mean, without running them."""
    return sum(1 if isinstance(item, RelativeCall) else item.times * num_steps(item.body) for item in items)


def unfolded(items: Iterable[Item]) -> Iterator[RelativeCall]:
    """The steps, loops run."""
    for item in items:
        if isinstance(item, RelativeCall):
            yield item
        else:
            for _ in range(item.times):
                yield from unfolded(item.body)


def calls_of_steps(steps: Iterable[RelativeCall], blocks: list[tuple[Op, ...]]) -> tuple[Call, ...]:
    """The calls that the steps mean; equal blocks stay the same object."""
    out = []
    layer = micro = 0
    for step in steps:
        layer, micro = layer + step.layer, micro + step.micro
        out.append(Call(step.label, layer, micro, blocks[step.block], step.block))
    return tuple(out)


class RepeatedRefs(NamedTuple):
    """Operands that stand `times` times over, each time `layer_step` layers further."""

    times: int
    refs: tuple[Ref, ...]
    layer_step: int


MIN_RUN = 16  # shorter lists of operands are stored as they are


def runs_of_refs(refs: tuple[Ref, ...]) -> list[Ref | RepeatedRefs]:
    """Operands of a call over many layers, with the layers as runs; a short list stays as it is."""
    if len(refs) < MIN_RUN:
        return list(refs)
    finder = _Runs(refs)
    out: list[Ref | RepeatedRefs] = []
    at = 0
    while at < len(refs):
        run = finder.at(at)
        out.append(run or refs[at])
        at += run.times * len(run.refs) if run else 1
    return out


class _Runs:
    """Finds the run that starts at a position: its period is the distance to the next operand of the same name.

    Where operands no longer repeat is kept by period and step, so that none is compared again from every position.
    """

    def __init__(self, refs: tuple[Ref, ...]) -> None:
        self.refs = refs
        self.again = [0] * len(refs)  # where the name stands next; 0 where it does not
        last: dict[str, int] = {}
        for at in range(len(refs) - 1, -1, -1):
            self.again[at] = last.get(refs[at].name, 0)
            last[refs[at].name] = at
        self.ends: dict[tuple[int, int], int] = {}

    def at(self, at: int) -> RepeatedRefs | None:
        again = self.again[at]
        if not again:
            return None
        period, step = again - at, self.refs[again].layer - self.refs[at].layer
        times = 1 + (self._end(at, period, step) - at) // period
        return RepeatedRefs(times, self.refs[at : at + period], step) if times > 1 else None

    def _end(self, at: int, period: int, step: int) -> int:
        """The first position from `at` on whose operand does not stand again a period and a step further."""
        end = self.ends.get((period, step), -1)
        if end < at:
            end = at
            while end + period < len(self.refs) and self.refs[end + period] == Ref(
                self.refs[end].name, self.refs[end].layer + step, self.refs[end].micro
            ):
                end += 1
            self.ends[period, step] = end
        return end


def _shifted(refs: tuple[Ref, ...], layers: int) -> tuple[Ref, ...]:
    return tuple(Ref(ref.name, ref.layer + layers, ref.micro) for ref in refs)


def refs_of_run(run: RepeatedRefs) -> Iterator[Ref]:
    """The operands that a run means."""
    for time in range(run.times):
        yield from _shifted(run.refs, time * run.layer_step)
