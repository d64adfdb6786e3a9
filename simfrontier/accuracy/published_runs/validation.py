"""Published runs held against their predictions: by the shipped numbers, and by fits that have not seen them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Final, Literal

import numpy as np

from simfrontier.accuracy.published_runs.fit import StepMoves, moves_of, sensitivities
from simfrontier.accuracy.published_runs.job import Job, Unread
from simfrontier.accuracy.published_runs.parameters import load_parameters
from simfrontier.accuracy.published_runs.step import TimedStep, step_of
from simfrontier.accuracy.published_runs.table import TABLE, Run, read_runs
from simfrontier.analysis import NORMAL_90
from simfrontier.records import dataclass
from simfrontier.workers import Local, Workers

MEMORY_WITHIN: Final = 0.1  # of stated memory, what a prediction is to be within
Use = Literal["left out", "held"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRun:
    """A run and its prediction, in the unit of the row: `predicted`, and `low` to `high`, its 90 % interval.

    `step_s`, `measured_s`: seconds of a step. `use`: "left out" where the prediction comes from a fit without the runs
    of `without`, "held" where no fit has seen the run. `sd`: of the logarithm. `peak_bytes`: on the fullest device.
    """

    run: Run
    predicted: float
    low: float
    high: float
    sd: float
    use: Use
    without: str
    job: Job
    step_s: float
    measured_s: float
    peak_bytes: float

    @property
    def factor(self) -> float:
        """By which a step is longer or shorter at the ends of the interval."""
        return math.exp(NORMAL_90 * self.sd)

    @property
    def stated_bytes(self) -> float | None:
        """Memory of a device that the run's source states."""
        return self.job.stated_bytes

    @property
    def memory_error(self) -> float | None:
        """predicted / stated − 1 of the memory of a device; None where none is stated."""
        return None if self.stated_bytes is None else self.peak_bytes / self.stated_bytes - 1.0

    @property
    def error(self) -> float:
        """predicted / measured − 1."""
        return self.predicted / self.run.value - 1.0

    @property
    def is_covered(self) -> bool:
        """Whether the value lies inside the interval."""
        return self.low <= self.run.value <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class RunErrors:
    """Of some runs (`name`): how many, mean and median of the absolute error, its mean with sign, the share inside the
    intervals, and the median half width of these, relative to the prediction."""

    name: str
    count: int
    mean: float
    median: float
    bias: float
    covered: float
    width: float


@dataclass(frozen=True, kw_only=True)
class RunsValidation:
    """Runs with their predictions, in the order of the table, and those that could not be expressed."""

    title: str
    held: tuple[HeldRun, ...]
    unread: tuple[Unread, ...]

    @property
    def count(self) -> int:
        """Rows of the table."""
        return len(self.held) + len(self.unread)

    @cached_property
    def overall(self) -> RunErrors | None:
        """Errors of all runs that have a prediction; None where none has."""
        return errors_of("all", self.held) if self.held else None

    def by(self, column: str) -> tuple[RunErrors, ...]:
        """Errors by the text of a column, in the order of the table."""
        names = dict.fromkeys(each.run[column] for each in self.held)
        return tuple(errors_of(name, [each for each in self.held if each.run[column] == name]) for name in names)

    def by_size(self) -> tuple[RunErrors, ...]:
        """Errors by the number of devices."""
        bins = ((1, 8), (9, 64), (65, 256), (257, 512), (513, 10**9))
        out = []
        for low, high in bins:
            some = [each for each in self.held if low <= each.job.scenario.file.run.devices[0] <= high]
            if some:
                name = f"{low} to {high} devices" if high < 10**9 else f"{low} devices and more"
                out.append(errors_of(name, some))
        return tuple(out)

    @cached_property
    def memory(self) -> RunErrors | None:
        """Errors of the memory of a device, of runs that state it; None where none does."""
        some = [each for each in self.held if each.memory_error is not None]
        if not some:
            return None
        errors = np.array([each.memory_error for each in some])
        return RunErrors(
            name="memory",
            count=len(some),
            mean=float(np.abs(errors).mean()),
            median=float(np.median(np.abs(errors))),
            bias=float(errors.mean()),
            covered=float((np.abs(errors) <= MEMORY_WITHIN).mean()),
            width=MEMORY_WITHIN,
        )

    def reasons(self) -> dict[str, list[int]]:
        """Why runs have no prediction, and the numbers of their rows."""
        out: dict[str, list[int]] = {}
        for each in self.unread:
            out.setdefault(each.why.removeprefix(f"{each.run.where}: "), []).append(each.run.number)
        return out

    def worst(self, count: int = 10) -> tuple[HeldRun, ...]:
        """The runs that lie farthest off, by the logarithm."""
        return tuple(sorted(self.held, key=lambda each: -abs(math.log(each.predicted / each.run.value)))[:count])


def errors_of(name: str, held: Sequence[HeldRun]) -> RunErrors:
    """The errors of some runs, at least one."""
    errors = np.array([each.error for each in held])
    widths = [(each.high - each.low) / 2 / each.predicted for each in held]
    return RunErrors(
        name=name,
        count=len(held),
        mean=float(np.abs(errors).mean()),
        median=float(np.median(np.abs(errors))),
        bias=float(errors.mean()),
        covered=sum(each.is_covered for each in held) / len(held),
        width=float(np.median(widths)),
    )


def validate_runs(runs: Sequence[Run], title: str, workers: Workers | None = None) -> RunsValidation:
    """Runs that no fit has seen, by the shipped numbers. `workers`: who times their steps, a run at a time (None: this
    process)."""
    held: list[HeldRun] = []
    unread: list[Unread] = []
    for made in (workers or Workers(Local())).in_order(_timed, ((run,) for run in runs)):
        if isinstance(made, Unread):
            unread.append(made)
        else:
            held.append(_held(made, 0.0, 0.0, "held", ""))
    return RunsValidation(title=title, held=tuple(held), unread=tuple(unread))


def validate_shipped_runs(workers: Workers | None = None) -> RunsValidation:
    """The shipped table, each run by a fit that has seen no run of its machine or, where no other machine of the table
    has its device, of its system. `workers` as of `validate_runs`."""
    steps: list[TimedStep] = []
    moves: list[StepMoves] = []
    unread: list[Unread] = []
    for made in (workers or Workers(Local())).in_order(_moved, ((run,) for run in read_runs(TABLE))):
        if isinstance(made, Unread):
            unread.append(made)
        else:
            steps.append(made[0])
            moves.append(made[1])
    law = sensitivities(moves, load_parameters().parameters)
    groups = _groups(steps)
    held: dict[int, HeldRun] = {}
    for name in dict.fromkeys(groups):
        fit = law.fitted([row for row, group in enumerate(groups) if group != name])
        for row, group in enumerate(groups):
            if group == name:
                held[row] = _held(steps[row], *fit.of(law.moves[row]), "left out", name)
    return RunsValidation(
        title="End-to-end training runs", held=tuple(held[row] for row in sorted(held)), unread=tuple(unread)
    )


def _timed(run: Run) -> TimedStep | Unread:
    step = step_of(run)
    return step if isinstance(step, Unread) else step.timed


def _moved(run: Run) -> tuple[TimedStep, StepMoves] | Unread:
    """The step of a run, and how it moves with the fitted numbers."""
    step = step_of(run)
    if isinstance(step, Unread):
        return step
    timed = step.timed
    return timed, moves_of(step, timed.measured_s, load_parameters().parameters)


def _groups(steps: Sequence[TimedStep]) -> list[str]:
    """What is left out with each run: the rows of its machine, where others of the table have its device, else of its
    system."""
    machines: dict[float, set[str]] = {}
    for step in steps:
        machines.setdefault(_peak(step), set()).add(step.job.run["machine"])
    out = []
    for step in steps:
        run = step.job.run
        has_like = len(machines[_peak(step)]) > 1
        out.append(run["machine"] if has_like else run["system"])
    return out


def _peak(step: TimedStep) -> float:
    return step.job.scenario.machine.device.peak_flops_per_s


def _held(step: TimedStep, change: float, fit_sd: float, use: Use, without: str) -> HeldRun:
    """`change`: of the logarithm of the step by the fit, which is as sure as `fit_sd`."""
    job = step.job
    step_s = step.step_s * math.exp(change)
    value = step.value(step_s)
    sd = math.hypot(load_parameters().spread, fit_sd, *(each.spread for each in job.unknown))
    factor = math.exp(NORMAL_90 * sd)
    return HeldRun(
        run=job.run,
        predicted=value,
        low=value / factor,
        high=value * factor,
        sd=sd,
        use=use,
        without=without,
        job=job,
        step_s=step_s,
        measured_s=step.measured_s,
        peak_bytes=step.peak_bytes,
    )
