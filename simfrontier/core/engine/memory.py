"""The memory timeline: bytes allocated on a rank over time, each buffer from its first write to its last use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simfrontier.base.arrays import Floats
from simfrontier.core.engine.step import SimulatedStep
from simfrontier.core.engine.walk import Walk
from simfrontier.core.program import Lifetimes, Peak, Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTimeline:
    """Bytes allocated on one rank over time, by kind of tensor: `times` in seconds (ascending), and for each kind in
    `held` the bytes allocated from each time to the next.

    `peak_bytes` is the largest sum over all kinds, at the time `peak_s`; `at_peak` holds its parts by kind.
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
    "update": "optimizer",
    "norms": "optimizer",
}


def memory_timeline(step: SimulatedStep, cls: int | None = None) -> MemoryTimeline:
    """Return the memory timeline of a rank class (default: the critical one). A buffer is allocated from the start of
    the op that writes it first to the end of the op that uses it last; persistent tensors that the rank's role uses are
    allocated throughout."""
    chosen = step.critical if cls is None else cls
    walk = Walk(step=step, cls=chosen)
    return _timeline(step.schedule, step.view(chosen).lifetimes, walk.start_s, walk.end_s, step.step_s)


def _timeline(schedule: Schedule, lives: Lifetimes, start: Floats, end: Floats, step_s: float) -> MemoryTimeline:
    mesh = schedule.mesh
    tensors = [schedule.tensors[name] for name in lives.names]
    tensor_of, comes, goes = lives.tensor, start[lives.first], end[lives.last]
    size = np.array([tensor.held_bytes(mesh) for tensor in tensors], float)
    stays = np.array([tensor.persistent for tensor in tensors], bool)
    kinds, kind = np.unique([KINDS.get(tensor.role, "other") for tensor in tensors], return_inverse=True)
    is_buffer = ~stays[tensor_of] & (size[tensor_of] > 0.0)
    times = np.unique(np.concatenate([[0.0, step_s], comes[is_buffer], goes[is_buffer]]))
    held = {}
    counted = is_buffer | stays[tensor_of]
    for each in np.unique(kind[tensor_of[counted]]).tolist():
        mine = kind[tensor_of] == each
        buffers, lasting = tensor_of[mine & is_buffer], tensor_of[mine & stays[tensor_of]]
        when = np.searchsorted(times, np.concatenate([comes[mine & is_buffer], goes[mine & is_buffer]]))
        change = np.bincount(when, np.concatenate([size[buffers], -size[buffers]]), len(times))
        held[str(kinds[each])] = size[lasting].sum() + np.cumsum(change)
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
    """Return the memory timeline of a rank of the role that needs most memory. `peaks`: the peak memory of each role,
    as found by the role's memory check (may be empty if there is one role)."""
    needs = [peak.num_bytes for peak in peaks]
    return memory_of_role(step, needs.index(max(needs)) if len(step.roles) > 1 else 0)


def memory_of_role(step: SimulatedStep, role: int) -> MemoryTimeline:
    """Return the memory timeline of a rank of a role: of the critical rank class if it runs this role, otherwise of the
    role's lowest rank class."""
    classes = step.roles[role].classes
    return memory_timeline(step, step.critical if step.critical in classes else classes[0])
