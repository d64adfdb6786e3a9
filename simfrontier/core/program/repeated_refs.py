"""Runs of operands over layers, so that a list of operands does not grow with the layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from simfrontier.core.program.ir import Ref


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
