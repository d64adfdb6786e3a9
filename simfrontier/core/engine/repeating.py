"""Steady-state extrapolation: the periodic parts of a step (repeated layers or micro-batches) are simulated until an
engine state recurs, and then extrapolated."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import ceil
from operator import is_not, itemgetter

import numpy as np

from simfrontier.base.arrays import Floats, Ints
from simfrontier.core.engine.context import Classes, Ending, EngineContext
from simfrontier.core.engine.engine import Engine
from simfrontier.core.engine.flows import INSTANT_S, RESOLUTION, Remaining, RunningFlow
from simfrontier.core.engine.timeline import RoleTimeline
from simfrontier.core.program import SegmentedProgram

READY, START, END = range(3)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _State:
    """State of the engine at an instant. `counts`: for each role, the numbers of program nodes of each lane for which
    each rank class was ready, which it has begun, and which it has finished [3, num_classes, num_lanes]; `seconds`:
    time until the end of each item in progress, and, negative, since the events so far inside the program calls that
    run op by op."""

    now: float
    counts: tuple[Ints, ...]
    seconds: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Repetition:
    """Period of `seconds` that repeats `times` more times; each repetition advances every lane of a role by `steps`
    program nodes [num_lanes]. `counts`: the counts of the `_State` at which the first period began."""

    counts: tuple[Ints, ...]
    steps: tuple[Ints, ...]
    seconds: float
    times: int

    def copy(self, role: int, part: SegmentedProgram, tables: Floats) -> None:
        """Write the times at which the program nodes of every repetition are ready, start and end into a role's
        `tables` [3, num_classes, num_nodes]."""
        later = self.seconds * np.arange(1, self.times + 1)[:, None]
        for which, row in np.ndindex(*self.counts[role].shape[:2]):
            for source, further in self._nodes(role, part, which, row):
                times = tables[which, row]
                times[further.ravel()] = (times[source] + later).ravel()

    def copy_calls(self, role: int, engine: Engine) -> None:
        """Record the times inside the program calls of every repetition of a role."""
        part, by_class, by_node = engine.parts[role], engine.times_by_class[role], engine.times_by_node[role]
        later = (self.seconds * np.arange(1, self.times + 1)).tolist()
        for row, cls in enumerate(engine.classes[role]):
            for source, further in self._nodes(role, part, START, row):
                for node, targets in zip(source.tolist(), further.T.tolist(), strict=True):
                    for since, times in by_node.get(node, ()):
                        if cls == min(times):
                            for target, seconds in zip(targets, later, strict=True):
                                by_node.setdefault(target, []).append((since + seconds, times))
            for source, further in self._nodes(role, part, END, row):
                for node, targets in zip(source.tolist(), further.T.tolist(), strict=True):
                    if (cls, node) in by_class:
                        since, inside = by_class[cls, node]
                        for target, seconds in zip(targets, later, strict=True):
                            by_class[cls, target] = since + seconds, inside

    def _nodes(self, role: int, part: SegmentedProgram, which: int, row: int) -> Iterator[tuple[Ints, Ints]]:
        """Yield for each lane of a role the nodes of the first period [step] and those of the repetitions [times,
        step], by what the period contains: the instants `which` of the rank class in this row."""
        for lane, step in enumerate(self.steps[role].tolist()):
            if step:
                first = int(self.counts[role][which, row, lane])
                nodes = np.array(part.program.by_lane[lane][first : first + step * (self.times + 1)])
                yield nodes[:step], nodes[step:].reshape(-1, step)


class SteadyState:
    """Engine states recorded in a step whenever a program call begins, in order to detect a state that recurs."""

    def __init__(self, engine: RepeatingEngine) -> None:
        self.engine = engine
        self.row_of = {cls: row for classes in engine.classes for row, cls in enumerate(classes)}
        self.first = engine.issuers[engine.classes[0][0]]
        program = engine.parts[0].program
        self.busiest = int(np.bincount(program.lane).argmax())
        calls = [program.calls[op] for op in program.by_lane[self.busiest]]
        self.call_of = [*accumulate([is_not(*both) for both in pairwise(calls)], initial=0), -1]
        self.call = 0
        self.states: dict[object, _State] = {}

    def is_at_call(self) -> bool:
        """Return whether the first rank class has reached a new program call since this method was last called."""
        before, self.call = self.call, self.call_of[self.first.done[self.busiest]]
        return self.call not in (before, -1)

    def repetition(self, instant: float) -> Repetition | None:
        """Return the repetition that can be extrapolated if an equal state has occurred before, otherwise None; times
        that differ by at most `instant` are considered equal."""
        form, state = self._state()
        before, self.states[form] = self.states.get(form), state
        if before is None or (abs(before.seconds - state.seconds) > instant).any():
            return None
        each = zip(before.counts, state.counts, strict=True)
        steps = tuple([now[READY, 0] - earlier[READY, 0] for earlier, now in each])
        times = self._times(before, state, [step.tolist() for step in steps])
        seconds = state.now - before.now
        return Repetition(counts=before.counts, steps=steps, seconds=seconds, times=times) if times > 0 else None

    def _state(self) -> tuple[object, _State]:
        """Return a key and the state; the keys of two states are equal if the states differ only by a shift along the
        programs."""
        engine = self.engine
        going = sorted([(self._described(each), each.seconds) for each in engine.remaining()])
        counts = self._counts()
        form = (
            tuple([what for what, _ in going]),
            tuple([(of_role - of_role[READY, 0]).tobytes() for of_role in counts]),
            tuple(sorted([(cls, *call.issuer.done, *call.issuer.ready) for cls, call in engine.by_ops.items()])),
            tuple(sorted([(calls.classes, len(calls.nodes), *sorted(calls.left)) for calls in engine.whole])),
            tuple(sorted([(coupled, self._ahead(key, coupled[0])) for key, coupled in engine.by_ops_keys])),
        )
        seconds = [*[seconds for _, seconds in going], *[time - engine.now for time in self._past()]]
        return form, _State(now=engine.now, counts=counts, seconds=np.array(seconds))

    def _past(self) -> Iterator[float]:
        """Yield the times so far of all ops inside the program calls that run op by op."""
        for _, call in sorted(self.engine.by_ops.items(), key=itemgetter(0)):
            ready, done = call.issuer.ready, call.issuer.done
            for lane, ops in enumerate(call.inner.segmented.program.by_lane):
                yield from [call.ready[op] for op in ops[: ready[lane]]]
                yield from [time for op in ops[: done[lane]] for time in (call.start[op], call.end[op])]

    def _described(self, each: Remaining) -> tuple[Classes, int, int, int, int, bool]:
        """Return a description of an item in progress that does not contain the position of its node in the lane: the
        node is always the first one of the lane that has not ended."""
        flow = each.what if isinstance(each.what, RunningFlow) else None
        ending = ending_of(each.what)
        number = -1 if flow is None else flow.flow
        after = -1 if flow is None or flow.then is None else flow.then.flow
        lane, _ = self.engine.place(ending.key, ending.classes[0])
        return ending.classes, lane, ending.inner, number, after, each.is_running

    def _ahead(self, key: int, cls: int) -> int:
        """Return how many nodes of its lane a rank class has to finish before a node."""
        lane, position = self.engine.place(key, cls)
        return position - self.engine.issuers[cls].done[lane]

    def _counts(self) -> tuple[Ints, ...]:
        """Return the counts of the engine's state."""
        engine = self.engine
        out = []
        for classes in engine.classes:
            issuers = [engine.issuers[cls] for cls in classes]
            done = [issuer.done for issuer in issuers]
            out.append(np.array([[issuer.ready for issuer in issuers], done, done]))
        endings = {ending_of(each.what) for each in engine.remaining()}
        begun = [(ending.key, cls) for ending in endings if ending.inner < 0 for cls in ending.classes]
        for key, cls in [*begun, *[(call.key, cls) for cls, call in engine.by_ops.items()]]:
            lane, _ = engine.place(key, cls)
            out[engine.role_of[cls]][START, self.row_of[cls], lane] += 1
        return tuple(out)

    def _times(self, before: _State, after: _State, steps: Sequence[Sequence[int]]) -> int:
        """Return a lower bound of the number of times that the period between two states repeats."""
        engine = self.engine
        furthest = [of_role[END].max(axis=0).tolist() for of_role in after.counts]
        for calls in engine.whole:
            program, last = engine.parts[calls.role].program, calls.nodes[-1]
            lane = program.lane[last]
            furthest[calls.role][lane] = max(furthest[calls.role][lane], program.position[last])
        times = min(
            self._times_of_role(part, of_role[END].min(axis=0).tolist(), far, step)
            for part, of_role, far, step in zip(engine.parts, before.counts, furthest, steps, strict=True)
        )
        for cls, issuer in engine.issuers.items():
            program, step = engine.parts[engine.role_of[cls]].program, steps[engine.role_of[cls]]
            for op, lacking in issuer.blocked():
                if not step[program.lane[op]]:  # it must not start before the repetitions are over
                    further = [(step[program.lanes.index(lane)], needed - 1 - done) for lane, done, needed in lacking]
                    if all(far for far, _ in further):
                        times = min(times, max(left // far for far, left in further))
        return times

    def _times_of_role(
        self, part: SegmentedProgram, done: Sequence[int], furthest: Sequence[int], step: Sequence[int]
    ) -> int:
        """Return how many times a role may repeat its period at most. `done`: the nodes of each lane that all its rank
        classes had finished when the period began; `furthest`: those that any of them has finished at its end, with all
        but the last call of those that run as a whole."""
        program = part.program
        times = program.num_ops
        for lane, far in enumerate(step):
            if far and times > 0:
                ops, last = program.by_lane[lane], done[lane]
                while last + far < len(ops) and self._is_same(part, ops[last], ops[last + far], step, done):
                    last += 1
                times = min(times, (last - 1 - furthest[lane]) // far + 1)
        return times

    def _is_same(self, part: SegmentedProgram, op: int, further: int, step: Sequence[int], done: Sequence[int]) -> bool:
        """Return whether an op equals the later op `further`, and the dependencies of both are equal up to a shift by
        `step`; dependencies on ops within `done` are ignored."""
        program = part.program
        return (
            program.ops[op].number == program.ops[further].number
            and (part.followers[op] < 0) == (part.followers[further] < 0)
            and [(lane, count) for lane, count in program.waits[op] if count > done[lane]]
            == [(lane, count - step[lane]) for lane, count in program.waits[further] if count - step[lane] > done[lane]]
        )


def ending_of(what: Ending | RunningFlow) -> Ending:
    """Return the end of the op to which an item in progress belongs."""
    ending: Ending = what.op if isinstance(what, RunningFlow) else what
    return ending


class RepeatingEngine(Engine):
    """Engine that extrapolates repetitions instead of simulating them; its clock does not advance during skipped
    repetitions."""

    def __init__(
        self,
        roles: Sequence[tuple[EngineContext, SegmentedProgram, Classes]],
        later: Sequence[tuple[float, EngineContext]] = (),
    ) -> None:
        super().__init__(roles, later)
        self.steady = SteadyState(self)
        self.repetitions: list[Repetition] = []
        self.skipped_s = 0.0

    @property
    def now(self) -> float:
        """Seconds since the step began, including skipped repetitions."""
        return super().now + self.skipped_s

    def place(self, key: int, cls: int) -> tuple[int, int]:
        """Return the lane of a program node in the program of a rank class, and its position on this lane."""
        role = self.role_of[cls]
        program, node = self.parts[role].program, self.nodes.node(key, role)
        return program.lane[node], program.position[node]

    def _role_timeline(self, role: int) -> RoleTimeline:
        for repetition in self.repetitions:
            repetition.copy_calls(role, self)
        return super()._role_timeline(role)

    def _tables(self, role: int) -> Floats:
        tables = super()._tables(role)
        for repetition in self.repetitions:
            repetition.copy(role, self.parts[role], tables)
        return tables

    def _settle(self) -> None:
        super()._settle()
        if self.steady.is_at_call() and not self.contexts[0].some_dead:
            self.by_ops_keys = {(key, coupled) for key, coupled in self.by_ops_keys if self._is_awaited(key, coupled)}
            repetition = self.steady.repetition(max(INSTANT_S, self.env.now * RESOLUTION))
            if repetition is not None:
                self._skip(repetition)

    def _is_awaited(self, key: int, coupled: Classes) -> bool:
        """Return whether any of these rank classes is not yet ready for a program call."""
        for cls in coupled:
            lane, position = self.place(key, cls)
            if self.issuers[cls].ready[lane] <= position:
                return True
        return False

    def _skip(self, repetition: Repetition) -> None:
        """Continue after the repetitions that end before the machine changes to another state: items in progress become
        items of the corresponding ops after these repetitions."""
        if self.later:
            left = (self.later[0][0] - self.now) / repetition.seconds
            repetition = replace(repetition, times=min(repetition.times, max(0, ceil(left) - 1)))
            if not repetition.times:
                return
        self.repetitions.append(repetition)
        later = repetition.seconds * repetition.times
        self.skipped_s += later
        steps: list[list[int]] = [(step * repetition.times).tolist() for step in repetition.steps]

        def further(role: int, node: int) -> int:
            program = self.parts[role].program
            lane = program.lane[node]
            return program.by_lane[lane][program.position[node] + steps[role][lane]]

        def further_key(key: int, role: int) -> int:
            return self.nodes.keys[role][further(role, self.nodes.node(key, role))]

        arrived, self.arrived = self.arrived, {}
        for (key, inner, group), count in arrived.items():
            self.arrived[further_key(key, self._role_at(key)), inner, group] = count
        for cls, issuer in self.issuers.items():
            issuer.skip(steps[self.role_of[cls]])
        self.by_ops_keys = {(further_key(key, self.role_of[coupled[0]]), coupled) for key, coupled in self.by_ops_keys}
        going = [each.what for each in self.remaining()]
        # A flow that was taken over from the simulation of a call alone has another ending than the flow after it.
        following = [what.then for what in going if isinstance(what, RunningFlow) and what.then is not None]
        for ending in {ending_of(what) for what in (*going, *following)}:
            ending.key = further_key(ending.key, self.role_of[ending.classes[0]])
        for cls, call in self.by_ops.items():
            role = self.role_of[cls]
            call.node, call.key = further(role, call.node), further_key(call.key, role)
            for table in (call.ready, call.start, call.end):
                table[:] = [time + later for time in table]
        for calls in self.whole:
            calls.nodes = [further(calls.role, node) for node in calls.nodes]
            calls.key = self.nodes.keys[calls.role][calls.nodes[-1]]
            calls.begins = [begin + later for begin in calls.begins]
        self._await_change()

    def _role_at(self, key: int) -> int:
        """Return the role of which a rank class is at a program node, or the first of these roles."""
        for role, node in self.nodes.shared.get(key, {}).items():
            lane, position = self.parts[role].program.lane[node], self.parts[role].program.position[node]
            if any(self.issuers[cls].ready[lane] > position for cls in self.classes[role]):
                return role
        return bisect_right(self.nodes.first, key) - 1

    def _change(self) -> None:
        super()._change()
        self.steady.states.clear()
