"""Steady-state extrapolation: the periodic parts of a step (repeated layers or micro-batches) are simulated until an
engine state recurs, and then extrapolated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import ceil
from operator import is_not

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Floats
from simfrontier.core.engine.context import Classes, EngineContext
from simfrontier.core.engine.engine import Engine
from simfrontier.core.engine.flows import INSTANT_S, RESOLUTION, Remaining, RunningFlow
from simfrontier.core.program import ExpandedProgram, Issuer, SegmentedProgram


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _State:
    """State of the engine at an instant. `counts`: the numbers of ops of each lane for which each rank class was ready,
    which it has begun, and which it has finished [3, num_classes, num_lanes]; `seconds`: time until the end of each
    item in progress."""

    now: float
    counts: NDArray[np.int64]
    seconds: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Repetition:
    """Period of `seconds` that repeats `times` more times; each repetition advances every lane by `step` ops
    [num_lanes]. `counts`: the counts of the `_State` at which the first period began."""

    counts: NDArray[np.int64]
    step: NDArray[np.int64]
    seconds: float
    times: int

    def copy(self, program: ExpandedProgram, tables: NDArray[np.float64]) -> None:
        """Write the times at which the ops of every repetition are ready, start and end into `tables` [3, num_classes,
        num_ops]."""
        later = self.seconds * np.arange(1, self.times + 1)[:, None]
        for lane, step in enumerate(self.step.tolist()):
            ops = np.array(program.by_lane[lane])
            for table, row in np.ndindex(self.counts.shape[:2]):
                first, times = int(self.counts[table, row, lane]), tables[table, row]
                further = ops[first + step : first + step * (self.times + 1)]
                times[further] = (times[ops[first : first + step]] + later).reshape(-1)


class SteadyState:
    """Engine states recorded in a step of one role whenever a program call begins, in order to detect a state that
    recurs."""

    def __init__(self, program: ExpandedProgram, issuers: Mapping[int, Issuer]) -> None:
        """`issuers`: the issuer of each rank class."""
        self.program = program
        self.issuers = list(issuers.values())
        self.row_of = {cls: row for row, cls in enumerate(issuers)}
        self.busiest = int(np.bincount(program.lane).argmax())
        calls = [program.calls[op] for op in program.by_lane[self.busiest]]
        self.call_of = [*accumulate([is_not(*both) for both in pairwise(calls)], initial=0), -1]
        self.call = 0
        self.states: dict[object, _State] = {}

    def is_at_call(self) -> bool:
        """Return whether the first rank class has reached a new program call since this method was last called."""
        before, self.call = self.call, self.call_of[self.issuers[0].done[self.busiest]]
        return self.call not in (before, -1)

    def repetition(self, now: float, under_way: Iterable[Remaining], instant: float) -> Repetition | None:
        """Return the repetition that can be extrapolated if an equal state has occurred before, otherwise None; times
        that differ by at most `instant` are considered equal."""
        form, state = self._state(now, under_way)
        before, self.states[form] = self.states.get(form), state
        if before is None or (abs(before.seconds - state.seconds) > instant).any():
            return None
        step = state.counts[0, 0] - before.counts[0, 0]
        times = self._times(before, state, step.tolist())
        seconds = now - before.now
        return Repetition(counts=before.counts, step=step, seconds=seconds, times=times) if times > 0 else None

    def _state(self, now: float, under_way: Iterable[Remaining]) -> tuple[object, _State]:
        """Return a key and the state; the keys of two states are equal if the states differ only by a shift along the
        program."""
        going = sorted([(self._described(each), each.seconds) for each in under_way])
        done = np.array([issuer.done for issuer in self.issuers])
        ready = np.array([issuer.ready for issuer in self.issuers])
        started = done.copy()
        for (lane, classes, *_), _ in going:
            started[[self.row_of[cls] for cls in classes], lane] += 1
        counts, seconds = np.array([ready, started, done]), np.array([seconds for _, seconds in going])
        form = tuple([what for what, _ in going]), (counts - ready[0]).tobytes()
        return form, _State(now=now, counts=counts, seconds=seconds)

    def _described(self, each: Remaining) -> tuple[int, Classes, int, int, bool]:
        """Return a description of an item in progress that does not contain the position of its op in the lane: the op
        is always the first one of the lane that has not ended."""
        flow = each.what if isinstance(each.what, RunningFlow) else None
        ending = each.what if flow is None else flow.op
        number = -1 if flow is None else flow.flow
        after = -1 if flow is None or flow.then is None else flow.then.flow
        return self.program.lane[ending.key], ending.classes, number, after, each.is_running

    def _times(self, before: _State, after: _State, step: Sequence[int]) -> int:
        """Return a lower bound of the number of times that the period between two states repeats."""
        program = self.program
        done, most = before.counts[2].min(axis=0).tolist(), after.counts[2].max(axis=0).tolist()
        times = program.num_ops
        for lane, far in enumerate(step):
            if far and times > 0:
                ops, last = program.by_lane[lane], done[lane]
                while last + far < len(ops) and self._is_same(ops[last], ops[last + far], step, done):
                    last += 1
                times = min(times, (last - 1 - most[lane]) // far + 1)
        for issuer in self.issuers:
            for op, lacking in issuer.blocked():
                if not step[program.lane[op]]:  # it must not start before the repetitions are over
                    further = [(step[program.lanes.index(lane)], needed - 1 - done) for lane, done, needed in lacking]
                    if all(far for far, _ in further):
                        times = min(times, max(left // far for far, left in further))
        return times

    def _is_same(self, op: int, further: int, step: Sequence[int], done: Sequence[int]) -> bool:
        """Return whether an op equals the later op `further`, and the dependencies of both are equal up to a shift by
        `step`; dependencies on ops within `done` are ignored."""
        program = self.program
        return program.ops[op].number == program.ops[further].number and [
            (lane, count) for lane, count in program.waits[op] if count > done[lane]
        ] == [(lane, count - step[lane]) for lane, count in program.waits[further] if count - step[lane] > done[lane]]


class RepeatingEngine(Engine):
    """Engine that extrapolates repetitions instead of simulating them; its clock does not advance during skipped
    repetitions."""

    def __init__(
        self,
        context: EngineContext,
        part: SegmentedProgram,
        classes: Classes,
        later: Sequence[tuple[float, EngineContext]] = (),
    ) -> None:
        super().__init__([(context, part, classes)], later=later)
        self.steady = SteadyState(part.program, self.issuers)
        self.repetitions: list[Repetition] = []
        self.skipped_s = 0.0

    @property
    def now(self) -> float:
        """Seconds since the step began, including skipped repetitions."""
        return super().now + self.skipped_s

    def _tables(self, role: int) -> Floats:
        tables = super()._tables(role)
        for repetition in self.repetitions:
            repetition.copy(self.parts[role].program, tables)
        return tables

    def _settle(self) -> None:
        super()._settle()
        if self.steady.is_at_call() and not self.contexts[0].some_dead:
            repetition = self.steady.repetition(self.now, self.remaining(), max(INSTANT_S, self.env.now * RESOLUTION))
            if repetition is not None:
                self._skip(repetition)

    def _skip(self, repetition: Repetition) -> None:
        """Continue after the repetitions that end before the machine changes to another state: items in progress become
        items of the corresponding ops after these repetitions."""
        if self.later:
            left = (self.later[0][0] - self.now) / repetition.seconds
            repetition = replace(repetition, times=min(repetition.times, max(0, ceil(left) - 1)))
            if not repetition.times:
                return
        self.repetitions.append(repetition)
        self.skipped_s += repetition.seconds * repetition.times
        program = self.parts[0].program
        step: list[int] = (repetition.step * repetition.times).tolist()

        def further(node: int) -> int:
            lane = program.lane[node]
            return program.by_lane[lane][program.position[node] + step[lane]]

        for issuer in self.issuers.values():
            issuer.skip(step)
        self.arrived = {(further(node), inner, group): count for (node, inner, group), count in self.arrived.items()}
        for each in self.remaining():
            ending = each.what.op if isinstance(each.what, RunningFlow) else each.what
            ending.key = further(ending.key)
        self._await_change()

    def _change(self) -> None:
        super()._change()
        self.steady.states.clear()
