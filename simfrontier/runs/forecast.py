"""What simfrontier says of a published run: seconds of its step by small schedules, as a number of the row's unit."""

from __future__ import annotations

from functools import cached_property

from simfrontier.cost import Prices
from simfrontier.errors import InputError
from simfrontier.machine import Machine
from simfrontier.records import dataclass
from simfrontier.runs.job import PLAN, Job, Unread
from simfrontier.runs.rates import value_of
from simfrontier.scenario import Case
from simfrontier.tuning.estimate import Estimate, estimate
from simfrontier.tuning.small_steps import SmallSchedules


class Step:
    """The step of a job, built once and timed on any variant of its machine with the same links."""

    def __init__(self, job: Job) -> None:
        """Raises InputError where its schedule cannot be made."""
        scenario = job.scenario
        self.job, self.devices = job, scenario.file.run.devices[0]
        self.case: Case = scenario.case(PLAN, self.devices)
        self._small = SmallSchedules(Prices(scenario.machine, scenario.library, self.devices))

    @property
    def machine(self) -> Machine:
        """As the job's files say."""
        return self.job.scenario.machine

    @cached_property
    def estimate(self) -> Estimate:
        """On the machine of its files."""
        return self.on(self.machine)

    def on(self, machine: Machine) -> Estimate:
        """On another variant of the machine: devices and kernels may differ, links may not. Raises InputError."""
        self._small.prices.machine = machine
        self._small.op_times.known.clear()
        return estimate(self.case, self._small)

    def value(self, step_s: float) -> float:
        """What a step of that time is in the unit of the row."""
        job = self.job
        peak = job.scenario.peak_flops_per_s
        return value_of(
            job.rate, step_s, self.case.shape, self.case.samples, self.devices, self.case.checkpointing, peak
        )


def step_of(job: Job) -> Step | Unread:
    """The step of a job, or why it cannot be built or priced."""
    try:
        step = Step(job)
        _ = step.estimate
    except InputError as error:
        return Unread(run=job.run, why=str(error))
    return step
