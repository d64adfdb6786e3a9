"""Left-out errors of published runs, by family, compared with those of the baseline: `make accuracy`."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Final

from simfrontier.answers.accuracy import RunsValidation, validate_shipped_runs
from simfrontier.answers.accuracy.published_runs.left_out import LEFT_OUT, LeftOut, write_left_out
from simfrontier.base.workers import Local, Workers
from simfrontier.inputs.measured import read_lines
from simfrontier.interfaces.cli.console import tell
from simfrontier.interfaces.report.phrases import NOTHING, percent, signed
from simfrontier.interfaces.report.table import Table

BASELINE: Final = Path(__file__).parent / "accuracy_baseline.csv"
COLUMNS: Final = ("family", "runs", "mean_error")
GROWN: Final = 0.1  # by which a family's mean error may grow, of itself
GROWN_BY: Final = 0.005  # and in absolute terms
FAMILIES: Final[dict[str, Callable[[LeftOut], str]]] = {
    "all": lambda row: "all",
    "machine": lambda row: f"{row.machine} (machine)",
    "source": lambda row: f"{row.source} (source)",
    "stack": lambda row: f"{row.stack} at {row.peak_tflops:g} TFLOPS a device (stack)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Number of left-out runs of a machine, source or stack, and their mean error (|predicted / measured − 1| of the
    step time)."""

    runs: int
    mean_error: float


NONE: Final = Family(runs=0, mean_error=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A family of runs in the baseline (`before`) and `now`; `NONE` where it has no runs."""

    family: str
    before: Family
    now: Family

    @property
    def is_worse(self) -> bool:
        """Return whether the mean error grew by more than a tenth and half a percentage point, or runs are missing."""
        had, has = self.before.mean_error, self.now.mean_error
        grew = self.before.runs > 0 and has > max(had * (1.0 + GROWN), had + GROWN_BY)
        return grew or self.now.runs < self.before.runs


def families_of(rows: Sequence[LeftOut]) -> dict[str, Family]:
    """Return the families of left-out runs by name: all, then by machine, source, and stack."""
    errors: dict[str, list[float]] = {}
    for name_of in FAMILIES.values():
        for row in rows:
            errors.setdefault(name_of(row), []).append(error(row))
    return {name: Family(runs=len(each), mean_error=fmean(each)) for name, each in errors.items()}


def changes(before: Mapping[str, Family], now: Mapping[str, Family]) -> list[Change]:
    """Return the change of each family of runs."""
    names = dict.fromkeys((*now, *before))
    return [Change(family=name, before=before.get(name, NONE), now=now.get(name, NONE)) for name in names]


def read_baseline(path: Path) -> dict[str, Family]:
    """Read the families of the baseline. Raises InputError."""
    return {
        line.cells["family"]: Family(
            runs=line.integer("runs"), mean_error=line.above_zero("mean_error", "a number above 0")
        )
        for line in read_lines(path, COLUMNS)
    }


def write_baseline(path: Path, families: Mapping[str, Family]) -> None:
    """Write the families of the baseline, errors with four digits."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows((name, each.runs, f"{each.mean_error:.4g}") for name, each in families.items())


def error(row: LeftOut) -> float:
    return abs(row.predicted_s / row.measured_s - 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table of left-out runs anew")
    parser.add_argument("--baseline", action="store_true", help="write the baseline of this gate anew")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    with Workers(Local(jobs=asked.jobs)) as workers:
        done = validate_shipped_runs(workers)
    rows = tuple(row.left_out for row in done.predicted)
    now = families_of(rows)
    found = changes(read_baseline(BASELINE), now)
    print_changes(found)
    print_intervals(done)
    if asked.write:
        write_left_out(LEFT_OUT, rows)
        sys.stdout.write(f"written: {LEFT_OUT}\n")
    if asked.baseline:
        write_baseline(BASELINE, now)
        sys.stdout.write(f"written: {BASELINE}\n")
    worse = ", ".join(change.family for change in found if change.is_worse)
    if worse and not asked.baseline:
        sys.exit(
            f"Errors grew by more than a tenth, or runs are missing (make accuracy BASELINE=1 accepts this): {worse}"
        )


def print_changes(found: Sequence[Change]) -> None:
    rows = [(each.family, *_cells(each.before), *_cells(each.now)) for each in found]
    styles = ["bold red" if each.is_worse else "" for each in found]
    heads = ("family", "runs", "baseline", "runs now", "now")
    tell(Table("mean left-out error of a step", heads, rows, words=("family",), styles=styles), least_width=120)


def _cells(family: Family) -> tuple[str, str]:
    return (f"{family.runs}", percent(family.mean_error)) if family.runs else (NOTHING, NOTHING)


def print_intervals(done: RunsValidation) -> None:
    """Print the covered share by machine, and the rankings."""
    groups = {"all": done.overall, **done.by("model"), **done.by("machine")}
    rows = [
        (name, f"{one.count}", percent(one.mean_abs), percent(one.median_abs), signed(one.bias), percent(one.covered))
        for name, one in groups.items()
        if one is not None
    ]
    heads = ("machine", "runs", "mean error", "median", "bias", "in 90 % interval")
    tell(Table("left out, in the unit of each row", heads, rows, left=("machine",)), least_width=120)
    for model, own in done.calibrations.items():
        leads = f"{percent(own.sure_lead(True))} by one stack, {percent(own.sure_lead(False))} by two"
        sys.stdout.write(f"{model}: sure from a lead of {leads}\n")
    sys.stdout.write(f"{done.rankings}\n")


if __name__ == "__main__":
    main()
