"""Published runs with their left-out predictions, read from the shipped table of these: seconds instead of minutes."""

from __future__ import annotations

from typing import Final

from simfrontier.answers.accuracy.published_runs.job import job_of
from simfrontier.answers.accuracy.published_runs.left_out import LEFT_OUT, LeftOut, read_left_out
from simfrontier.answers.accuracy.published_runs.step import TimedStep, step_of, timed_step
from simfrontier.answers.accuracy.published_runs.table import Run, shipped_runs
from simfrontier.answers.accuracy.published_runs.validation import RunsValidation, groups_of, left_out_validation
from simfrontier.base.errors import InputError

SAME: Final = 1e-3  # by which the measured step times of a run and of its row may differ, relative


def written_runs() -> RunsValidation:
    """Return the shipped runs with the left-out predictions that `left_out.csv` has: those of `validate_shipped_runs`
    to five digits, without a simulated step. Raises InputError where its rows are not those of the shipped runs.
    """
    runs, rows = shipped_runs(), {row.run: row for row in read_left_out(LEFT_OUT)}
    made = [_step(run, rows.get(run.line)) for run in runs]
    steps = [step for step in made if not isinstance(step, str)]
    found = [rows[step.job.run.line] for step in steps]
    if len(found) < len(rows):
        raise _stale(next(iter(rows.keys() - {row.run for row in found})))
    groups = groups_of(steps)
    return left_out_validation(
        runs, made, [(row.predicted_s, row.sd, group) for row, group in zip(found, groups, strict=True)]
    )


def _step(run: Run, row: LeftOut | None) -> TimedStep | str:
    """Return the step of a run by its row, or the reason why the run has none."""
    try:
        job = job_of(run)
        if row is None:
            step_of(run)  # raises where the step cannot be built
    except InputError as error:
        return str(error)
    if row is None:
        raise _stale(run.line)
    step = timed_step(job, row.predicted_s, row.peak_bytes)
    if abs(step.measured_s / row.measured_s - 1.0) > SAME:
        raise _stale(run.line)
    return step


def _stale(line: str) -> InputError:
    return InputError(
        f"{LEFT_OUT.name}: {line}: not as in the tables of runs; `make accuracy WRITE=1` writes the table anew"
    )
