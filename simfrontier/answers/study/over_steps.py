"""Several steps of a training on a machine that changes: which differ, and the row that is their mean."""

from __future__ import annotations

from collections.abc import Sequence

from simfrontier.answers.study.columns import BAND, RESULTS, Column, Row
from simfrontier.base.units import written
from simfrontier.core.machine import Perturbation

MOST_LISTED = 6  # times of steps in a note


def different(perturbation: Perturbation, num_steps: int) -> tuple[tuple[int, int], ...]:
    """The steps that differ from all before them, each with how many of the first `num_steps` are alike."""
    if perturbation.calls_differ:
        return tuple((number, 1) for number in range(num_steps))
    last = min(perturbation.last_step + 1, num_steps - 1)
    first_of, count = dict[object, int](), dict[int, int]()
    for number in range(last + 1):
        first = first_of.setdefault(perturbation.states(number), number)
        count[first] = count.get(first, 0) + 1
    count[first_of[perturbation.states(last)]] += num_steps - last - 1  # alike to the end
    return tuple(count.items())


def mean_row(rows: Sequence[tuple[int, int, Row]], shown: int) -> Row:
    """The row of several steps, of (step, how many are like it, its row): that of the step that is shown, with the mean
    of each column over all of them as the column says, and a note of their times."""
    num_steps = sum(count for _, count, _ in rows)
    out = next(dict(row) for number, _, row in rows if number == shown)
    for column in RESULTS:
        cells = [row[column.name] for _, _, row in rows]
        if column.mean and not any(isinstance(cell, str) for cell in cells):
            out[column.name] = _mean(column, [(count, row) for _, count, row in rows], num_steps)
    if len(rows) <= MOST_LISTED:
        each = ", ".join(f"{count} of {written(float(row['step_time_s']), 's')}" for _, count, row in rows)
    else:
        seconds = [float(row["step_time_s"]) for _, _, row in rows]
        each = f"{written(min(seconds), 's')} to {written(max(seconds), 's')}"
    several = f"mean of {num_steps} steps: {each}; shown: step {shown}"
    out["note"] = "; ".join(filter(None, (several, str(out["note"]))))
    return out | dict.fromkeys(BAND, "")


def _mean(column: Column, rows: Sequence[tuple[int, Row]], num_steps: int) -> float:
    """The mean of a column over steps; of a rate all work over all time."""
    if column.mean == "per step":
        return sum(count * float(row[column.name]) for count, row in rows) / num_steps
    step = "step_time_nominal_s" if column.name.endswith("_nominal") else "step_time_s"  # of which it is a rate
    work = sum(count * float(row[column.name]) * float(row[step]) for count, row in rows)
    return work / sum(count * float(row[step]) for count, row in rows)
