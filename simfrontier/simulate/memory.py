"""The memory timeline: which bytes live on a rank when, from the buffers' first write to their last use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfrontier.schedule.lifetimes import lifetimes
from simfrontier.simulate.step import SimulatedStep

Floats = NDArray[np.float64]


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


_KINDS = {
    "weight": "weights",
    "copy": "second copy",
    "accumulator": "gradients",
    "optimizer": "optimizer",
    "master": "optimizer",
    "gathered": "gathered weights",
    "gradient": "gradient buffers",
    "encoded": "encoded messages",
    "activation": "activations",
}


def memory_timeline(step: SimulatedStep, cls: int | None = None) -> MemoryTimeline:
    """The timeline of a rank class (by default the critical one). A buffer lives from the start of the op that writes
    it first to the end of the op that touches it last; persistent tensors live throughout."""
    chosen = step.critical if cls is None else cls
    schedule, mesh = step.schedule, step.schedule.mesh
    layers = int(schedule.meta["num_layers"])
    size = {name: tensor.held_bytes(mesh) for name, tensor in schedule.tensors.items()}
    kind = {name: _KINDS.get(tensor.role, "other") for name, tensor in schedule.tensors.items()}
    base: dict[str, int] = defaultdict(int)
    for name, tensor in schedule.tensors.items():
        if tensor.persistent:
            base[kind[name]] += size[name] * (layers if tensor.per_layer else 1)
    events: dict[str, list[tuple[float, int]]] = defaultdict(list)
    start, end = step.timeline.start[chosen], step.timeline.end[chosen]
    for ref, first, last in lifetimes(step.program):
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
