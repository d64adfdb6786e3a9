"""The step of a published run: its time in seconds from small schedules, and its value in the unit of the row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

from simfrontier.answers.accuracy.published_runs.facts import JobFacts, facts_of
from simfrontier.answers.accuracy.published_runs.job import PLAN, Job, job_of
from simfrontier.answers.accuracy.published_runs.rates import value_of
from simfrontier.answers.accuracy.published_runs.rules import Unknown
from simfrontier.answers.accuracy.published_runs.table import Run
from simfrontier.answers.search import Estimate, SmallSchedules, estimate
from simfrontier.core.collectives import Library
from simfrontier.core.cost import Prices
from simfrontier.core.machine import Machine
from simfrontier.core.plan import build
from simfrontier.core.workload import Experts, GptShape, Shape
from simfrontier.inputs.scenario import Case

FAR_TOO_MUCH: Final = 1.5  # of a device's memory; of what runs state the model is within a fifth
ModelKind = Literal["dense", "experts"]


def model_kind_of(shape: Shape) -> ModelKind:
    """Return the kind of model of a shape."""
    return "experts" if isinstance(shape, GptShape) and shape.num_experts else "dense"


class JobStep:
    """The step of a job, built once; can be timed on any variant of its machine that has the same links."""

    def __init__(self, job: Job) -> None:
        """Raises InputError where its schedule cannot be made."""
        scenario = job.scenario
        self.job, self.devices = job, scenario.file.run.devices[0]
        self.case: Case = scenario.case(PLAN, self.devices)
        self._prices = Prices(scenario.machine, scenario.library, self.devices)
        self._small = SmallSchedules(self._prices)

    @property
    def machine(self) -> Machine:
        """Machine that the job's files describe."""
        return self.job.scenario.machine

    @property
    def library(self) -> Library:
        """Library that the job's files describe."""
        return self.job.scenario.library

    @cached_property
    def estimate(self) -> Estimate:
        """Estimate of the step on the machine of its files."""
        return self.on(self.machine)

    @property
    def peak_bytes(self) -> float:
        """Peak memory of the fullest device in bytes, including what the software stack reserves."""
        stack = self.job.scenario.stack
        return self.estimate.peak_bytes + (0.0 if stack is None else stack.memory.reserved_bytes)

    def on(self, machine: Machine, library: Library | None = None) -> Estimate:
        """Estimate the step with a variant of the machine (devices and kernels may differ, links may not) and of the
        library. Raises InputError.
        """
        prices = self._prices if library is None else self._prices.by(library)
        self._small.reprice(prices, machine)
        if self.job.rate.layer:
            return replace(estimate(self.case, self._small), step_s=self._layer_s, floor_s=0.0)
        whole = self._sharing(estimate(self.case, self._small))
        steps = self.job.steps
        return replace(whole, step_s=steps * whole.step_s, floor_s=steps * whole.floor_s) if steps != 1.0 else whole

    @property
    def _layer_s(self) -> float:
        """Time of the run's pass of a layer of experts in seconds, one op after the other."""
        case, label = self.case, self.job.rate.layer
        schedule = build(case.workload, case.plan, case.mesh, case.engine, 1)
        ops = next(call.ops for call in schedule.roles[0].calls if call.label == label)
        on_lane = [op for op in ops if op.lane == "compute"]
        start, end = ([op.name for op in on_lane].index(name) if name else -1 for name in Experts.bounds[label])
        return sum(self._small.prices.seconds(op, schedule) for op in on_lane[start + 1 : end])

    def _sharing(self, alone: Estimate) -> Estimate:
        """Return the estimate with kernels slowed while a collective overlaps them and occupies some of the compute
        units: in proportion, and persistent matrix products by a second round, for the thread blocks that found no
        unit."""
        machine, library = self._small.prices.machine, self._small.prices.library
        held = library.num_channels * library.units_per_channel
        beside = min(alone.aside_s, alone.busy_s)
        products = alone.products_s / alone.busy_s if machine.kernels.persistent and beside and held else 0.0  # share
        loss = products + (1.0 - products) * held / max(1, machine.device.num_compute_units - held)
        return replace(alone, step_s=max(alone.step_s, alone.busy_s + beside * loss))

    @property
    def timed(self) -> TimedStep:
        """Timed step on the machine of its files."""
        return timed_step(self.job, self.estimate.step_s, self.peak_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedStep:
    """A timed step, without the schedules used for timing: seconds, bytes on the fullest device, and the inputs needed
    for the value of the row: model, sequences (`samples`), and whether activations are recomputed; and the `facts` by
    which the run is listed.
    """

    job: Job
    step_s: float
    peak_bytes: float
    shape: GptShape
    samples: float
    recomputes: bool
    facts: JobFacts

    def value(self, step_s: float) -> float:
        """Return the value, in the unit of the row, of a step that takes `step_s` seconds."""
        scenario, devices = self.job.scenario, self.job.scenario.file.run.devices[0]
        peak = scenario.peak_flops_per_s
        return value_of(self.job.rate, step_s, self.shape, self.samples, devices, self.recomputes, peak)

    @property
    def measured_s(self) -> float:
        """Measured step time in seconds, derived from the run's published value."""
        at_one, value = self.value(1.0), self.job.run.value
        return value / at_one if self.job.rate.rises_with_time else at_one / value


def timed_step(job: Job, step_s: float, peak_bytes: float) -> TimedStep:
    """Return the timed step of a job. That it needs far more memory than a device has is added to the assumptions: it
    is one of another job than the run's. Raises InputError where the plan does not fit the job."""
    case = job.scenario.case(PLAN, job.scenario.file.run.devices[0])
    assert isinstance(case.shape, GptShape), "rules read GPTs"
    peak_gb, has_gb = peak_bytes / 1e9, job.scenario.machine.device.hbm_bytes / 1e9
    if peak_gb > FAR_TOO_MUCH * has_gb:
        text = f"memory: {peak_gb:.0f} GB of {has_gb:.0f} on a device; recomputation, kernels or plan differ in part"
        job = replace(job, unknown=(*job.unknown, Unknown(text=text)))
    return TimedStep(
        job=job,
        step_s=step_s,
        peak_bytes=peak_bytes,
        shape=case.shape,
        samples=job.steps * case.samples,
        recomputes=case.checkpointing == "full",
        facts=facts_of(job.scenario, case, job.steps),
    )


def step_of(run: Run) -> JobStep:
    """Return the step of a run. Raises InputError where no scenario expresses it, or it cannot be built or priced."""
    step = JobStep(job_of(run))
    _ = step.estimate
    return step
