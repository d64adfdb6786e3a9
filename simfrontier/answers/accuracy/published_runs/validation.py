"""Published runs compared with predictions, by the shipped parameters and by fits that have not seen the runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Final, Literal

import numpy as np

from simfrontier.answers.accuracy.fit_rows import fits_without
from simfrontier.answers.accuracy.published_runs.causes import causes_of
from simfrontier.answers.accuracy.published_runs.fit import (
    Parameter,
    StepMoves,
    load_parameters,
    moves_of,
    sensitivities,
)
from simfrontier.answers.accuracy.published_runs.job import Job
from simfrontier.answers.accuracy.published_runs.left_out import (
    Calibration,
    LeftOut,
    Rankings,
    calibration,
    calibrations_of,
    rankings_of,
    source_of,
    sure_lead,
)
from simfrontier.answers.accuracy.published_runs.step import ModelKind, TimedStep, model_kind_of, step_of
from simfrontier.answers.accuracy.published_runs.table import Run, shipped_runs
from simfrontier.answers.accuracy.residual import Errors, Prediction, Residual, Use, errors_by, errors_of, grouped
from simfrontier.base.errors import InputError
from simfrontier.base.workers import Local, Workers

MEMORY_WITHIN: Final = 0.1  # of stated memory, what a prediction is to be within
FAR: Final = 0.25  # error from which on a page says why, or that it is not known
SIZES: Final = (8, 64, 256, 512)  # devices at which the groups of runs by size end
Facet = Literal["machine", "model", "stack", "precision", "size", "source"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedRun(Residual[Run]):
    """A published run with its prediction, both in the unit of the row, and its step and job.

    `step_s`: predicted step time in seconds. `without`: the machine or source whose runs were left out of the fit;
    empty if no fit has seen the run. `sd`: standard deviation of the logarithm of the step time, as in `LeftOut`;
    `factor`: factor from the predicted step time to the ends of its 90 % interval.
    """

    measured: float
    prediction: Prediction
    step: TimedStep
    step_s: float
    sd: float
    factor: float
    without: str = ""

    @property
    def job(self) -> Job:
        """The run's scenario, with the assumptions about what its source does not state."""
        return self.step.job

    @property
    def stack(self) -> str:
        """The software stack that the run was simulated with."""
        return str(self.job.scenario.file.stack)

    @property
    def left_out(self) -> LeftOut:
        """The run as a row of the table of left-out runs."""
        return _left_out(self.step, self.step_s, self.sd)

    @property
    def facets(self) -> Mapping[Facet, str]:
        """What the run is grouped by: its machine of the catalog, kind of model, software stack, precision of linear
        modules, size, and who published it."""
        row = self.left_out
        return {
            "machine": row.machine,
            "model": row.model,
            "stack": row.stack,
            "precision": row.facts.precision,
            "size": _size_words(self.devices),
            "source": row.source,
        }

    @property
    def causes(self) -> tuple[str, ...]:
        """Known reasons why the prediction is off."""
        return causes_of(self.row)

    @property
    def is_far(self) -> bool:
        """Return whether the run lies outside its 90 % interval, or `FAR` off."""
        return not self.is_covered or abs(self.error or 0.0) >= FAR

    @property
    def devices(self) -> int:
        """Number of devices of the job."""
        return self.job.scenario.file.run.devices[0]

    @property
    def memory(self) -> Residual[Run]:
        """Predicted memory per device compared with the memory that the run's source states, if it states one."""
        within = Prediction(
            value=self.step.peak_bytes,
            low=self.step.peak_bytes / (1.0 + MEMORY_WITHIN),
            high=self.step.peak_bytes / (1.0 - MEMORY_WITHIN),
        )
        stated = self.job.stated_bytes
        return Residual(table=self.table, row=self.row, measured=stated, prediction=within, use=self.use)


@dataclass(frozen=True, kw_only=True)
class RunsValidation:
    """The residuals of published runs, in the order of the table; runs that no scenario expresses have no prediction
    (`use` "no model").
    """

    title: str
    rows: tuple[Residual[Run], ...]

    @cached_property
    def predicted(self) -> tuple[PredictedRun, ...]:
        """The runs that have a prediction."""
        return tuple(row for row in self.rows if isinstance(row, PredictedRun))

    @cached_property
    def overall(self) -> Errors | None:
        """Errors of all runs that have a prediction; None where none has."""
        return errors_of(self.predicted)

    @cached_property
    def calibrations(self) -> dict[ModelKind, Calibration]:
        """The calibrations that these runs give, by kind of model: of intervals and rankings of further runs."""
        return calibrations_of([row.left_out for row in self.predicted])

    @cached_property
    def rankings(self) -> Rankings | None:
        """Rankings of pairs of runs of one job, sure from the lead on that the pairs of other jobs give (where the runs
        were left out of fits; else all shipped pairs); None without pairs."""
        are_left_out = all(row.use == "left out" for row in self.predicted)
        margins: dict[str, float] = {}
        for model, own in self.calibrations.items():
            for job in {lead.job for lead in own.leads}:
                margins[job] = own.sure_lead(True, without=job) if are_left_out else sure_lead(True, model)
        leads = [lead for own in self.calibrations.values() for lead in own.leads]
        return rankings_of(leads, margins.__getitem__)

    def by(self, facet: Facet) -> dict[str, Errors]:
        """Return errors grouped by a facet of the runs, in the order of the table; by their size in ascending order."""
        rows = sorted(self.predicted, key=lambda row: row.devices) if facet == "size" else self.predicted
        return errors_by(rows, lambda row: row.facets[facet])

    @cached_property
    def memory(self) -> Errors | None:
        """Errors of the predicted memory per device, over the runs that state it; None if no run states it."""
        errors = errors_of(row.memory for row in self.predicted)
        return errors and replace(errors, width=MEMORY_WITHIN)

    def reasons(self) -> dict[str, list[str]]:
        """Reasons why runs have no prediction, each with the files and lines of these runs."""
        unpredicted = grouped(
            (row for row in self.rows if row.is_unpredicted), lambda row: row.why.removeprefix(f"{row.row.where}: ")
        )
        return {why: [row.row.line for row in rows] for why, rows in unpredicted.items()}

    def worst(self, count: int = 10) -> tuple[PredictedRun, ...]:
        """Return the `count` runs with the largest errors, compared by the absolute logarithm."""

        def far(row: PredictedRun) -> float:
            return abs(math.log(row.prediction.value / row.measured))

        return tuple(sorted(self.predicted, key=far, reverse=True)[:count])


def validate_runs(runs: Sequence[Run], title: str, workers: Workers | None = None) -> RunsValidation:
    """Compare runs that no fit has seen with predictions by the shipped parameters. `workers`: time the steps of the
    runs in parallel, one run at a time (None: in this process).
    """
    rows = [
        _unpredicted(run, title, made) if isinstance(made, str) else _held(made[0], title)
        for run, made in zip(runs, _timed_all(runs, (), workers), strict=True)
    ]
    return RunsValidation(title=title, rows=tuple(rows))


def validate_shipped_runs(workers: Workers | None = None) -> RunsValidation:
    """Compare the shipped table of runs with predictions. Each run is predicted by a fit that has seen no run of its
    machine or, if no other machine of the table has the same device, no run of its source. No fit sees runs with
    experts, which are off by what their layers have besides. `workers` as in `validate_runs`.
    """
    runs, parameters = shipped_runs(), load_parameters().parameters
    made = list(_timed_all(runs, parameters, workers))
    timed = [each for each in made if not isinstance(each, str)]
    steps = [step for step, _ in timed]
    law = sensitivities([moves for _, moves in timed], parameters)
    experts = np.array([model_kind_of(step.shape) == "experts" for step in steps])
    fitted: dict[int, Fitted] = {}
    for name, left, fit in fits_without(groups_of(steps), lambda left: law.without(left | experts)):
        for at in left.nonzero()[0].tolist():
            change, fit_sd = fit.of(law.moves[at])
            fitted[at] = steps[at].step_s * math.exp(change), _sd(steps[at], fit_sd), name
    return left_out_validation(
        runs, [each if isinstance(each, str) else each[0] for each in made], [fitted[at] for at in range(len(steps))]
    )


def left_out_validation(
    runs: Sequence[Run], made: Sequence[TimedStep | str], fitted: Sequence[Fitted]
) -> RunsValidation:
    """Return the shipped runs with predictions of fits that have not seen them. `made`: the step of each run, or why
    there is none; `fitted`: for each step in this order, its left-out prediction."""
    title, steps = "End-to-end training runs", [step for step in made if not isinstance(step, str)]
    known = calibrations_of([_left_out(step, *each[:2]) for step, each in zip(steps, fitted, strict=True)])
    predicted = {
        step.job.run.number: _predicted(step, title, "left out", each, known, source_of(step.job.run))
        for step, each in zip(steps, fitted, strict=True)
    }
    rows = (
        _unpredicted(run, title, each) if isinstance(each, str) else predicted[run.number]
        for run, each in zip(runs, made, strict=True)
    )
    return RunsValidation(title=title, rows=tuple(rows))


Fitted = tuple[float, float, str]  # step time in seconds, sd of its logarithm, and what was left out of the fit
_Timed = tuple[TimedStep, StepMoves] | str  # or why there is none


def _timed_all(runs: Sequence[Run], parameters: Sequence[Parameter], workers: Workers | None) -> Iterator[_Timed]:
    """Yield the step of each run with its sensitivity to the parameters, or the reason why there is no step."""
    return (workers or Workers(Local())).in_order(partial(_timed, parameters), ((run,) for run in runs))


def _timed(parameters: Sequence[Parameter], run: Run) -> _Timed:
    try:
        step = step_of(run)
    except InputError as error:
        return str(error)
    timed = step.timed
    return timed, moves_of(step, timed.measured_s, parameters)


def groups_of(steps: Sequence[TimedStep]) -> list[str]:
    """Return the group that is left out with each run: its machine, by the name that its source gives it, if other
    machines of the table have the same device, else who published it.
    """
    machines: dict[float, set[str]] = {}
    for step in steps:
        machines.setdefault(_peak(step), set()).add(_machine_told(step))
    return [_machine_told(step) if len(machines[_peak(step)]) > 1 else source_of(step.job.run) for step in steps]


def _machine_told(step: TimedStep) -> str:
    return step.job.run["machine"].casefold()


def _peak(step: TimedStep) -> float:
    return step.job.scenario.machine.device.peak_flops_per_s


def _size_words(devices: int) -> str:
    """Return the size group of runs that a number of devices belongs to."""
    least = 1
    for most in SIZES:
        if devices <= most:
            return f"{least} to {most} devices"
        least = most + 1
    return f"{least} devices and more"


def _unpredicted(run: Run, title: str, why: str) -> Residual[Run]:
    measured = None if math.isnan(run.value) else run.value
    return Residual(table=title, row=run, measured=measured, prediction=None, use="no model", why=why)


def _held(step: TimedStep, title: str) -> PredictedRun:
    model = model_kind_of(step.shape)
    known = {model: calibration(model)}
    return _predicted(step, title, "held", (step.step_s, _sd(step), ""), known)


def _sd(step: TimedStep, fit_sd: float = 0.0) -> float:
    """Return the standard deviation of the logarithm of a step time: of steps in general, of the fit, and of each
    assumption about what the run's source does not state."""
    return math.hypot(load_parameters().spread, fit_sd, *(each.spread for each in step.job.unknown))


def _left_out(step: TimedStep, step_s: float, sd: float) -> LeftOut:
    run, scenario = step.job.run, step.job.scenario
    job = ("machine", "model_shape", "devices", "batch", "seq", "precision")
    return LeftOut(
        run=Path(run.where).name,
        source=source_of(run),
        machine=scenario.machine.name,
        peak_tflops=round(_peak(step) / 1e12, 1),
        stack=str(scenario.file.stack),
        job="; ".join([*(run[column] for column in job), *filter(None, [step.job.rate.layer])]),
        predicted_s=step_s,
        measured_s=step.measured_s,
        sd=sd,
        peak_bytes=step.peak_bytes,
        model=model_kind_of(step.shape),
        facts=step.facts,
    )


def _predicted(
    step: TimedStep,
    title: str,
    use: Use,
    fitted: Fitted,
    known: Mapping[ModelKind, Calibration],
    source: str | None = None,
) -> PredictedRun:
    """Return a run with its prediction. `fitted`: the step time in seconds, the standard deviation of its logarithm,
    and what was left out of the fit. The interval follows from the left-out runs of other sources than `source`.
    """
    step_s, sd, without = fitted
    factor = math.exp(known[model_kind_of(step.shape)].half_width(sd, _peak(step), without=source))
    low, high = sorted((step.value(step_s / factor), step.value(step_s * factor)))
    return PredictedRun(
        table=title,
        row=step.job.run,
        measured=step.job.run.value,
        prediction=Prediction(value=step.value(step_s), low=low, high=high),
        use=use,
        step=step,
        step_s=step_s,
        sd=sd,
        factor=factor,
        without=without,
    )
