"""Engines by fidelity; `analytic` is the longest path through ops that take their times alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from simfrontier.base.arrays import Floats
from simfrontier.core.cost import Pricing
from simfrontier.core.engine.context import EngineContext
from simfrontier.core.engine.durations import AloneDurations
from simfrontier.core.engine.engine import Engine
from simfrontier.core.engine.repeating import RepeatingEngine
from simfrontier.core.engine.step_path import CallPath, Node, StepPath
from simfrontier.core.engine.timeline import CallTimes, RoleTimeline, Timeline
from simfrontier.core.program import SegmentedProgram


def without_contention(
    parts: Sequence[SegmentedProgram], classes: Sequence[tuple[int, ...]], pricing: Pricing
) -> tuple[RoleTimeline, ...]:
    """Run one step of all roles, one result for each."""
    return timelines(StepPath(AloneDurations(pricing, parts, classes)), classes)


def timelines(path: StepPath, classes: Sequence[tuple[int, ...]]) -> tuple[RoleTimeline, ...]:
    """The times of all roles, of one variation."""
    times = [np.empty((3, part.program.num_ops, len(rows))) for part, rows in zip(path.parts, classes, strict=True)]
    calls = _CallTimes(path, classes)
    for (role, node), *when in path.passed():
        for which, each in enumerate(when):
            times[role][which, node] = each[:, 0]
        if path.parts[role].blocks[node] is not None:
            calls.note((role, node), when[1])
    return tuple(
        RoleTimeline(
            segmented=part,
            classes=classes[role],
            timeline=Timeline(ready=ready.T, start=start.T, end=end.T),
            by_class=calls.by_class[role],
            by_node=calls.by_node[role],
        )
        for role, (part, (ready, start, end)) in enumerate(zip(path.parts, times, strict=True))
    )


class _CallTimes:
    """When the ops of calls run: of those that run as a whole once for all that begin at one instant."""

    def __init__(self, path: StepPath, classes: Sequence[tuple[int, ...]]) -> None:
        self.path, self.classes = path, classes
        self.by_class: list[dict[tuple[int, int], CallTimes]] = [{} for _ in classes]
        self.by_node: list[dict[int, list[tuple[float, Mapping[int, CallTimes]]]]] = [{} for _ in classes]
        self._whole: dict[CallPath, dict[int, CallTimes]] = {}

    def note(self, node: Node, start: Floats) -> None:
        """A call that starts on the rows of its role then."""
        role, index = node
        call = self.path.call(role, index)
        if not self.path.runs_whole[node]:
            times = self._by_class(call.times(start), role)
            self.by_class[role].update({(cls, index): each for cls, each in times.items()})
            return
        if call not in self._whole:
            self._whole[call] = self._by_class(call.times_alone, role)
        whole, begins = self._whole[call], start[:, 0]
        for begin in np.unique(begins).tolist():
            mine = np.flatnonzero(begins == begin)
            some = whole if len(mine) == len(begins) else {(cls := self.classes[role][row]): whole[cls] for row in mine}
            self.by_node[role].setdefault(index, []).append((begin, some))

    def _by_class(self, times: Floats, role: int) -> dict[int, CallTimes]:
        ready, start, end = np.ascontiguousarray(times[..., 0].swapaxes(1, 2))
        each = zip(self.classes[role], ready, start, end, strict=True)
        return {cls: CallTimes(ready=r, start=s, end=e) for cls, r, s, e in each}


def simulate(
    parts: Sequence[SegmentedProgram],
    pricing: Pricing,
    contended: bool = True,
    later: Sequence[tuple[float, Pricing]] = (),
) -> tuple[RoleTimeline, ...]:
    """Run one step of all roles, one result for each; not `contended`, every op takes its time alone (fidelity
    `analytic`). `later`: the machine in other states, folded with this one, and from when on, in seconds. Raises
    JobStopsError where something is dead that the step needs, and stays so."""
    classes = classes_of(pricing, len(parts))
    if not contended:
        return without_contention(parts, classes, pricing)
    context, others = EngineContext(pricing), [(since, EngineContext(state)) for since, state in later]
    if len(parts) == 1 and parts[0].num_ops == parts[0].program.num_ops:
        return RepeatingEngine(context, parts[0], classes[0], others).run()
    return Engine([(context, *role) for role in zip(parts, classes, strict=True)], later=others).run()


def classes_of(pricing: Pricing, num_roles: int) -> list[tuple[int, ...]]:
    """The rank classes of each role."""
    return [tuple(np.flatnonzero(pricing.role_of == number).tolist()) for number in range(num_roles)]
