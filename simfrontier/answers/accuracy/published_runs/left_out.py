"""Errors of published runs that were left out of the fit: their table, and the error of a new step that they imply."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache, cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np

from simfrontier.answers.accuracy.published_runs.facts import JobFacts
from simfrontier.answers.accuracy.published_runs.fit import load_parameters
from simfrontier.answers.accuracy.published_runs.step import ModelKind
from simfrontier.answers.accuracy.published_runs.table import Run
from simfrontier.answers.step import NORMAL_90
from simfrontier.base.wholefile import write_whole
from simfrontier.inputs.measured import Line, read_lines

LEFT_OUT: Final = Path(__file__).parent / "left_out.csv"
ALIKE: Final = 1e-4  # relative difference of predictions that are one number in the five digits of `left_out.csv`
COVERED: Final = 0.9  # probability that an interval contains the measured value, and that a sure ranking is right
OTHER_DEVICE: Final = 0.25  # weight of a source's runs on other devices (assumed)
# Ratio of the errors of runs that nobody had seen to those of left-out runs, which were in view when laws and readings
# were chosen. Inferred: intervals with 93 % of left-out runs inside (1.81 normal deviations) held 85 % (1.46) of
# 239 runs that were kept back in November 2026 (without ten on Frontier, none of which lay inside).
IN_VIEW: Final = 1.25
_REPOSITORY: Final = re.compile(r"(?:github\.com/)?([\w.-]+/[\w.-]+|[\w-]+\.[\w./-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A published run predicted by a fit that had not seen it.

    `run`: file and line; `source`: who published it; `machine`: the machine of the catalog that it was simulated on;
    `peak_tflops`: of one of its devices, 16-bit numbers, which stands for the kind of device; `job`: runs of one source
    with the same job differ in nothing but plan and micro-batch; `sd`: standard deviation of the logarithm of the step
    time by the fit, by what the source does not state, and by `spread` of the parameters' file; `peak_bytes`: predicted
    memory of the fullest device; `model`: the kind of model, whose runs alone say how far others of it are off;
    `facts`: by which the run is listed and compared.
    """

    run: str
    source: str
    machine: str
    peak_tflops: float
    stack: str
    job: str
    predicted_s: float
    measured_s: float
    sd: float
    peak_bytes: float
    facts: JobFacts
    model: ModelKind = "dense"

    @property
    def off(self) -> float:
        """log(predicted / measured) of the step time."""
        return math.log(self.predicted_s / self.measured_s)

    @property
    def score(self) -> float:
        """Absolute error of the logarithm, in standard deviations."""
        return abs(self.off) / self.sd


def source_of(run: Run) -> str:
    """Return who published a run: the repository or site that its source begins with, else the name of its system."""
    found = _REPOSITORY.match(run["source"])
    return found[1] if found else run["system"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """Predicted and measured lead of one plan of a job over another: log of the ratio of their step times."""

    source: str
    job: str
    predicted: float
    measured: float

    @property
    def is_right(self) -> bool:
        """Return whether the predicted faster plan was the faster one."""
        return self.predicted * self.measured > 0.0


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The error of a step, and of the ratio of two steps, that runs left out of the fit imply, all of one kind of
    model.

    A source is the unit that is drawn: its runs share software, machine, author and the reading of its texts, so that
    they err alike.
    """

    rows: tuple[LeftOut, ...]

    @cached_property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.source for row in self.rows))

    def half_width(self, sd: float, peak_flops_per_s: float, without: str | None = None) -> float:
        """Return the half width of the 90 % interval of the logarithm of a step time with standard deviation `sd` on
        devices of this peak. `without`: the source of a run of the table, which is left out; None for a run that is not
        of it, which is expected to be `IN_VIEW` times as far off.
        """
        deviations = self._deviations(round(peak_flops_per_s / 1e12, 1), without)
        return sd * deviations * (IN_VIEW if without is None else 1.0)

    def _deviations(self, peak_tflops: float, without: str | None) -> float:
        """Return how many standard deviations the 90 % interval reaches: the weighted 90 % quantile of the scores
        (conformal prediction of a run of a new source). All runs of a source on a kind of device weigh as much as the
        root of their number, and those on other devices `OTHER_DEVICE` of that.
        """
        known = self._by_place(without)
        if not known:
            return NORMAL_90
        weights = {
            place: len(rows) ** -0.5 * (1.0 if place[1] == peak_tflops else OTHER_DEVICE)
            for place, rows in known.items()
        }
        scores = [(row.score, weights[place]) for place, rows in known.items() for row in rows]
        return _quantile(scores, COVERED)

    def _by_place(self, without: str | None) -> dict[tuple[str, float], list[LeftOut]]:
        """Return the runs by source and kind of device."""
        known: dict[tuple[str, float], list[LeftOut]] = {}
        for row in self.rows:
            if row.source != without:
                known.setdefault((row.source, row.peak_tflops), []).append(row)
        return known

    # ── rankings ──

    @cached_property
    def leads(self) -> tuple[Lead, ...]:
        """The leads of all pairs of runs of one job by one software stack whose predictions differ."""
        jobs: dict[tuple[str, str, str], list[LeftOut]] = {}
        for row in self.rows:
            jobs.setdefault((row.source, row.job, row.stack), []).append(row)
        pairs = (pair for runs in jobs.values() for pair in combinations(runs, 2))
        leads = (
            Lead(
                source=first.source,
                job=first.job,
                predicted=math.log(second.predicted_s / first.predicted_s),
                measured=math.log(second.measured_s / first.measured_s),
            )
            for first, second in pairs
        )
        return tuple(lead for lead in leads if abs(lead.predicted) > ALIKE and lead.measured)

    def sure_lead(self, same_stack: bool, without: str = "") -> float:
        """Return the relative lead of one plan over another (0.05: 5 % faster) from which on nine of ten rankings are
        right. `same_stack`: both run by one software stack on one machine, so that the errors of kernels and network
        cancel in part; else those of the machine alone do. `without`: a job that is left out.
        """
        return math.expm1(self._sure_of_one(without) if same_stack else max(self._sure_of_two, self._sure_of_one("")))

    def _sure_of_one(self, without: str) -> float:
        """Return the least predicted lead at which nine of ten pairs are ranked right, by isotonic regression of the
        right rankings on the lead; 0 without pairs, the largest lead of all if even there fewer are right.

        Such a regression reaches nine tenths where the right rankings of all smaller leads fall furthest short of it.
        """
        known = [(abs(lead.predicted), lead.is_right) for lead in self.leads if lead.job != without]
        if not known:
            return 0.0
        leads, right = np.array(known).T
        each, place = np.unique(leads.round(6), return_inverse=True)
        short = np.cumsum(np.bincount(place, COVERED - right)).round(6)
        return float(each[min(int(np.argmax([0.0, *short])), len(each) - 1)])

    @cached_property
    def _sure_of_two(self) -> float:
        """Return the 90 % quantile of the difference of the errors of two runs on one kind of device, of different
        sources and stacks, in a direction, as far as their sources told everything (each error scaled to `spread`);
        all pairs of two sources weigh as much as those of two others. 0 without such runs."""
        known: dict[tuple[str, float, str], list[float]] = {}
        for row in self.rows:
            known.setdefault((row.source, row.peak_tflops, row.stack), []).append(row.off / row.sd)
        differences: list[tuple[float, float]] = []
        for (first, some), (second, others) in combinations(known.items(), 2):
            if first[0] != second[0] and first[1] == second[1] and first[2] != second[2]:
                each = np.subtract.outer(some, others).ravel().tolist()
                differences += [(sign * deviations, 1.0 / len(each)) for deviations in each for sign in (1.0, -1.0)]
        return load_parameters().spread * _quantile(differences, COVERED) if differences else 0.0


def _quantile(weighted: Sequence[tuple[float, float]], level: float) -> float:
    """Return the smallest of some values up to which a share `level` of all weight lies."""
    values, weights = np.array(sorted(weighted)).T
    return float(values[int(np.searchsorted(np.cumsum(weights) / weights.sum(), level - 1e-9))])


@dataclass(frozen=True, slots=True, kw_only=True)
class Rankings:
    """Rankings of pairs of published runs of one job: the number of pairs (`pairs`), of those with a lead that is large
    enough to be sure (`sure`), and of the right rankings among all pairs and among the sure ones.
    """

    pairs: int
    right: int
    sure: int
    sure_right: int

    @property
    def right_share(self) -> float:
        """The share of all pairs that are ranked right."""
        return self.right / self.pairs

    @property
    def too_close_share(self) -> float:
        """The share of pairs that are too close to call."""
        return 1.0 - self.sure / self.pairs

    @property
    def sure_right_share(self) -> float | None:
        """The share of right rankings among the sure ones; None without any."""
        return self.sure_right / self.sure if self.sure else None


def rankings_of(leads: Sequence[Lead], sure_lead: Callable[[str], float]) -> Rankings | None:
    """Judge the predicted leads of pairs of runs; None without pairs. `sure_lead`: the relative lead from which on a
    ranking is sure, by the job of the pair."""
    if not leads:
        return None
    sure = [lead for lead in leads if abs(lead.predicted) > math.log1p(sure_lead(lead.job))]
    return Rankings(
        pairs=len(leads),
        right=sum(lead.is_right for lead in leads),
        sure=len(sure),
        sure_right=sum(lead.is_right for lead in sure),
    )


# ── the shipped table ──

_TYPES: Final = {each.name: each.type for form in (LeftOut, JobFacts) for each in fields(form) if each.name != "facts"}


def calibrations_of(rows: Sequence[LeftOut]) -> dict[ModelKind, Calibration]:
    """Return the calibration of each kind of model by the runs of that kind."""
    kinds: tuple[ModelKind, ...] = get_args(ModelKind)
    return {kind: Calibration(rows=tuple(row for row in rows if row.model == kind)) for kind in kinds}


@cache
def calibration(model: ModelKind) -> Calibration:
    """Return the calibration by the shipped table of left-out runs, which `make accuracy WRITE=1` writes."""
    return calibrations_of(read_left_out(LEFT_OUT))[model]


@cache
def sure_lead(same_stack: bool, model: ModelKind) -> float:
    """Return the relative lead of one plan over another from which on their ranking is sure (0.05: 5 % faster), by the
    shipped left-out runs (`Calibration.sure_lead`)."""
    return calibration(model).sure_lead(same_stack)


@cache
def step_factor(peak_flops_per_s: float, model: ModelKind) -> float:
    """Return the factor from a predicted step time to the ends of its 90 % interval, for a job of which everything is
    stated, on devices of this 16-bit peak."""
    return math.exp(calibration(model).half_width(load_parameters().spread, peak_flops_per_s))


def read_left_out(path: Path) -> tuple[LeftOut, ...]:
    """Read a table of left-out runs. Raises InputError."""
    rows = []
    for line in read_lines(path, tuple(_TYPES)):
        values = {name: _value(line, name) for name in _TYPES}
        facts = JobFacts(**{each.name: values.pop(each.name) for each in fields(JobFacts)})
        rows.append(LeftOut(**values, facts=facts))
    return tuple(rows)


def _value(line: Line, name: str) -> Any:
    """Return the value of a column in the type of its field."""
    match _TYPES[name]:
        case "float":
            return line.above_zero(name, "a number above 0")
        case "int":
            return line.integer(name, least=0)
    return line.cells[name]


def write_left_out(path: Path, rows: Sequence[LeftOut]) -> None:
    """Write a table of left-out runs, numbers with five digits."""
    import pandas as pd

    table = pd.DataFrame([{**asdict(row), **asdict(row.facts)} for row in rows], columns=list(_TYPES))
    write_whole(path, table.to_csv(index=False, float_format="%.5g", lineterminator="\n"))
