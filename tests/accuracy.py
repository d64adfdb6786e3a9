"""Left-out errors of published runs, by family, compared with those of the last landing: `make accuracy`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from simfrontier.answers.accuracy import RunsValidation, validate_shipped_runs
from simfrontier.answers.accuracy.published_runs.left_out import (
    LEFT_OUT,
    Calibration,
    LeftOut,
    read_left_out,
    write_left_out,
)
from simfrontier.base.workers import Local, Workers
from simfrontier.interfaces.cli.console import tell
from simfrontier.interfaces.report.phrases import NOTHING, percent, signed
from simfrontier.interfaces.report.table import Table

GROWN: Final = 0.1  # by which a family's mean error may grow, of itself
GROWN_BY: Final = 0.005  # and in absolute terms
FAMILIES: Final[dict[str, Callable[[LeftOut], str]]] = {
    "all": lambda row: "all",
    "machine": lambda row: row.machine,
    "source": lambda row: row.source,
    "stack": lambda row: f"{row.stack} at {row.peak_tflops:g} TFLOPS a device",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Mean error of a family of runs (|predicted / measured − 1| of the step time), over the runs that both tables
    have; `lost`: the number of runs that only the one before has, `new`: that only the one now has."""

    family: str
    runs: int
    before: float
    now: float
    lost: int
    new: int

    @property
    def is_worse(self) -> bool:
        return self.lost > 0 or self.now > max(self.before * (1.0 + GROWN), self.before + GROWN_BY)


def changes(before: Sequence[LeftOut], now: Sequence[LeftOut]) -> list[Change]:
    """Return the change of each family of runs."""
    out = []
    for kind, family in FAMILIES.items():
        was, has = ({row.run: row for row in rows} for rows in (before, now))
        names = dict.fromkeys(family(row) for row in (*before, *now))
        for name in names:
            old = {run for run, row in was.items() if family(has.get(run, row)) == name}
            new = {run for run, row in has.items() if family(row) == name}
            both = old & new
            out.append(
                Change(
                    family=f"{name} ({kind})" if kind != "all" else name,
                    runs=len(both),
                    before=fmean(error(was[run]) for run in both) if both else 0.0,
                    now=fmean(error(has[run]) for run in both) if both else 0.0,
                    lost=len(old - new),
                    new=len(new - old),
                )
            )
    return [change for change in out if change.runs or change.lost or change.new]


def error(row: LeftOut) -> float:
    return abs(row.predicted_s / row.measured_s - 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table of left-out runs anew")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    with Workers(Local(jobs=asked.jobs)) as workers:
        done = validate_shipped_runs(workers)
    now = done.calibration.rows
    found = changes(read_left_out(LEFT_OUT) if LEFT_OUT.exists() else now, now)
    print_changes(found)
    print_intervals(done)
    worse = ", ".join(change.family for change in found if change.is_worse)
    if asked.write:
        write_left_out(LEFT_OUT, now)
        sys.stdout.write(f"written: {LEFT_OUT}\n")
    if worse:
        sys.exit(f"Errors grew by more than a tenth, or runs are no longer predicted: {worse}")


def print_changes(found: Sequence[Change]) -> None:
    rows = [
        (
            each.family,
            f"{each.runs}",
            percent(each.before),
            percent(each.now),
            f"{each.new or NOTHING}",
            f"{each.lost or NOTHING}",
        )
        for each in found
    ]
    styles = ["bold red" if each.is_worse else "" for each in found]
    heads = ("family", "runs", "last landing", "now", "new runs", "lost")
    tell(
        Table("mean left-out error of a step, over runs of both", heads, rows, left=("family",), styles=styles),
        least_width=120,
    )


def print_intervals(done: RunsValidation) -> None:
    """Print the covered share by machine, and the rankings."""
    groups = {"all": done.overall, **done.by_machine()}
    rows = [
        (name, f"{one.count}", percent(one.mean_abs), percent(one.median_abs), signed(one.bias), percent(one.covered))
        for name, one in groups.items()
        if one is not None
    ]
    heads = ("machine", "runs", "mean error", "median", "bias", "in 90 % interval")
    tell(Table("left out, in the unit of each row", heads, rows, left=("machine",)), least_width=120)
    own: Calibration = done.calibration
    sys.stdout.write(
        f"sure from a lead of {percent(own.sure_lead(True))} by one stack, {percent(own.sure_lead(False))} by two;"
        f" {done.rankings}\n"
    )


if __name__ == "__main__":
    main()
