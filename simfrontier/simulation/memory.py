"""The memory timeline: which bytes live on a rank when, from the buffers' first write to their last use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simfrontier.arrays import Floats
from simfrontier.schedule import Peak
from simfrontier.simulation.step import SimulatedStep


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTimeline:
    """Bytes on one rank by what they hold: `times` (s, ascending), and per kind the bytes from each time to the next.

    `peak_bytes` is the largest sum, at `peak_s`; `at_peak` says what it is made of.
    """

    times: Floats
    held: Mapping[str, Floats]
    peak_bytes: int
    peak_s: float
    at_peak: Mapping[str, int]


KINDS = {
    "weight": "weights",
    "copy": "second copy",
    "accumulator": "gradients",
    "optimizer": "optimizer",
    "master": "optimizer",
    "state": "kept states",
    "constant": "kept states",
    "gathered": "gathered weights",
    "gradient": "gradient buffers",
    "encoded": "encoded messages",
    "activation": "activations",
}


def memory_timeline(step: SimulatedStep, cls: int | None = None) -> MemoryTimeline:
    """The timeline of a rank class (by default the critical one). A buffer lives from the start of the op that writes
    it first to the end of the op that touches it last; persistent tensors that the rank's role touches live
    throughout."""
    chosen = step.critical if cls is None else cls
    view = step.view(chosen)
    row = view.classes.index(chosen)
    schedule, mesh = step.schedule, step.schedule.mesh
    lives = view.program.lifetimes
    size = {name: tensor.held_bytes(mesh) for name, tensor in schedule.tensors.items()}
    kind = {name: KINDS.get(tensor.role, "other") for name, tensor in schedule.tensors.items()}
    base: dict[str, int] = defaultdict(int)
    for ref, _, _ in lives:
        if schedule.tensors[ref.name].persistent:
            base[kind[ref.name]] += size[ref.name]
    events: dict[str, list[tuple[float, int]]] = defaultdict(list)
    start, end = view.timeline.start[row], view.timeline.end[row]
    for ref, first, last in lives:
        if not schedule.tensors[ref.name].persistent and size[ref.name]:
            events[kind[ref.name]] += [(float(start[first]), size[ref.name]), (float(end[last]), -size[ref.name])]
    times = np.unique(np.array([0.0, step.step_s, *(t for mine in events.values() for t, _ in mine)]))
    held = {}
    for name in sorted({*base, *events}):
        change = np.zeros(len(times))
        if events[name]:
            when, how = zip(*events[name], strict=True)
            np.add.at(change, np.searchsorted(times, np.array(when)), np.array(how, float))
        held[name] = base[name] + np.cumsum(change)
    total = np.sum(list(held.values()), axis=0)
    peak = int(np.argmax(total))
    return MemoryTimeline(
        times=times,
        held=held,
        peak_bytes=round(float(total[peak])),
        peak_s=float(times[peak]),
        at_peak={name: round(float(values[peak])) for name, values in held.items()},
    )


def fullest(step: SimulatedStep, peaks: Sequence[Peak]) -> MemoryTimeline:
    """The timeline of a rank of the role that needs most; `peaks`: the peak of each role, as its check finds it (may be
    left out where there is one)."""
    needs = [peak.num_bytes for peak in peaks]
    return memory_of_role(step, needs.index(max(needs)) if len(step.roles) > 1 else 0)


def memory_of_role(step: SimulatedStep, role: int) -> MemoryTimeline:
    """The timeline of a rank of a role: the critical one if it runs the role, else one of the lowest class."""
    classes = step.roles[role].classes
    return memory_timeline(step, step.critical if step.critical in classes else classes[0])
