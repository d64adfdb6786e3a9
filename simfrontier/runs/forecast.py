"""What simfrontier says of a published run: seconds of its step by small schedules, as a number of the row's unit."""

from __future__ import annotations


from simfrontier.cost import Prices
from simfrontier.errors import InputError
from simfrontier.records import dataclass
from simfrontier.runs.job import PLAN, Job, Unread, job_of
from simfrontier.runs.rates import value_of
from simfrontier.runs.table import Run
from simfrontier.tuning.estimate import estimate
from simfrontier.tuning.small_steps import SmallSchedules


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """A run and what is predicted for it: seconds of a step, the value in the row's unit, bytes on the fullest
    device."""

    job: Job
    step_s: float
    value: float
    peak_bytes: float


def predict(run: Run) -> Predicted | Unread:
    """The prediction of one run, by itself."""
    job = job_of(run)
    return job if isinstance(job, Unread) else predicted(job)


def predicted(job: Job) -> Predicted | Unread:
    """The prediction of a job."""
    scenario = job.scenario
    devices = scenario.file.run.devices[0]
    try:
        case = scenario.case(PLAN, devices)
        prices = Prices(scenario.machine, scenario.library, devices)
        whole = estimate(case, SmallSchedules(prices))
    except InputError as error:
        return Unread(run=job.run, why=str(error))
    value = value_of(
        job.rate, whole.step_s, case.shape, case.samples, devices, case.checkpointing, scenario.peak_flops_per_s
    )
    return Predicted(job=job, step_s=whole.step_s, value=value, peak_bytes=whole.peak_bytes)
