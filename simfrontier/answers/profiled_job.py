"""Simulation of a profiled job: kernels take their measured times, collective calls the times of the
library's model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import NamedTuple

import numpy as np

from simfrontier.base.arrays import Floats
from simfrontier.core.collectives import message_bytes
from simfrontier.core.cost import Pricing
from simfrontier.core.engine import Fidelity, SimulatedStep, simulate_step
from simfrontier.core.program import Collective, SegmentedProgram
from simfrontier.inputs.profiler.changed_job import Platform
from simfrontier.inputs.profiler.job import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTimes:
    """Collectives of one kind, size and group: the number of calls per rank, and the median measured and simulated
    times in seconds, without waiting for other ranks. `holds_waiting`: whether the measured times may include such
    waiting, because not all ranks of the group have a trace.
    """

    kind: str
    axes: tuple[str, ...]
    num_ranks: int
    num_bytes: int
    calls: int
    measured_s: float
    simulated_s: float
    holds_waiting: bool


def replayed(job: Job, on: Platform, fidelity: Fidelity = "flow", exact: bool = False) -> SimulatedStep:
    """Simulate one step of the job with each rank's measured kernel times. Raises InputError if the machine or the
    fidelity cannot run it.
    """
    kernels = replace(on.machine.kernels, measured=job.kernels)
    return simulate_step(
        job.schedule,
        replace(on.machine, kernels=kernels),
        on.library,
        fidelity,
        on.perturbation,
        exact,
        on.placement,
        factors_of=partial(_factors, job) if job.times else None,
    )


def _factors(job: Job, parts: Sequence[SegmentedProgram], pricing: Pricing) -> tuple[Floats, ...]:
    """Return the times of kernels and pauses of each rank relative to the mean of its role."""
    out = []
    for role, part in enumerate(parts):
        classes = np.flatnonzero(pricing.role_of == role)
        longer = np.ones((len(classes), part.program.num_ops))
        for row, rank in enumerate(pricing.folding.representative[classes].tolist()):
            own = job.times.get(rank, {})
            if own:
                longer[row, list(own)] = list(own.values())
        out.append(longer)
    return tuple(out)


def call_times(job: Job, step: SimulatedStep) -> list[CallTimes]:
    """Return the measured and simulated times of a job's collectives, those with the largest total time in the step
    first.
    """
    found: dict[_Alike, list[_Took]] = {}
    for alike, took in _each(job, step):
        found.setdefault(alike, []).append(took)
    mesh = step.schedule.mesh
    out = [
        CallTimes(
            kind=kind,
            axes=axes,
            num_ranks=mesh.size(axes),
            num_bytes=num_bytes,
            calls=len(each),
            measured_s=median(took.measured_s for took in each),
            simulated_s=median(took.simulated_s for took in each),
            holds_waiting=any(took.holds_waiting for took in each),
        )
        for (kind, axes, num_bytes), each in found.items()
    ]
    return sorted(out, key=lambda each: (-each.calls * each.measured_s, each.kind, each.axes, each.num_bytes))


_Alike = tuple[str, tuple[str, ...], int]  # kind, axes and bytes of a collective


class _Took(NamedTuple):
    measured_s: float
    simulated_s: float
    holds_waiting: bool


def _each(job: Job, step: SimulatedStep) -> Iterator[tuple[_Alike, _Took]]:
    mesh, tensors = step.schedule.mesh, step.schedule.tensors
    for role, measured in enumerate(job.call_s):
        places, ops = job.places[role], step.roles[role].segmented.expanded.ops
        program = job.roles.programs[role][0].ops
        line = step.view(step.roles[role].classes[0]).timeline
        for index, took_s in measured.items():
            op, call = ops[places[index]], program[index].kernel.call
            assert isinstance(op, Collective) and call is not None, f"{op.name}: no collective"
            num_bytes = message_bytes(op, tensors, mesh)
            simulated_s = float(line.end[0, places[index]] - line.start[0, places[index]])
            took = _Took(took_s, simulated_s, call.ranks in job.partial_groups)
            yield (op.kind, op.axes, num_bytes), took
