"""Sweeps that add points by themselves: a search for the best, and samples until the goal is known well enough."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from simfrontier.errors import InputError
from simfrontier.experiments import RowRunner
from simfrontier.limits import SWEEP_POINTS
from simfrontier.records import dataclass
from simfrontier.scenario import scenario_of
from simfrontier.study import RESULTS
from simfrontier.sweep.answers import goal_values
from simfrontier.sweep.axes import SampledAxis, number_of
from simfrontier.sweep.estimates import Estimates
from simfrontier.sweep.form import Value
from simfrontier.sweep.indices import indices_of
from simfrontier.sweep.keys import put
from simfrontier.sweep.runner import Progress, Report, SweepOutcome, run_sweep
from simfrontier.sweep.search import Dimension, Number, Search
from simfrontier.sweep.study import SweepStudy
from simfrontier.sweep.until import Until
from simfrontier.workers import PerProcess, Place, Workers

ROUND = 8  # points of a search that are asked for at once: what it proposes does not depend on the number of workers
QUIET_ROUNDS = 5  # of a search without a better point by the precision that is wanted: it ends
FIRST = 4  # points of a search that come from estimates, at least
NORMAL_90 = 1.645  # half the width of a normal's central 90 %, in standard deviations
GROWING = ("random", "sobol", "saltelli")  # ways of sampling of which more points begin with the fewer


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveOutcome:
    """What a sweep that adds points has made: the outcome of all rounds, the study with all points that it came to, and
    how many of a search's points were proposed by estimates. `ended`: why it ended before the precision that was
    wanted, as a sentence; empty where it did not."""

    outcome: SweepOutcome
    study: SweepStudy
    estimated: int = 0
    ended: str = ""


@dataclasses.dataclass(slots=True, kw_only=True)
class _Rounds:
    """The rounds of a sweep, each of which begins with the points of those before it. `most`: points, where it is known
    how many there are at the end; the others are of the rounds so far: points, those that were there before the first,
    and those refused."""

    folder: Path
    place: Place
    workers: Workers
    report: Report
    runner: PerProcess[RowRunner] = dataclasses.field(default_factory=lambda: PerProcess(RowRunner))
    most: int = 0
    points: int = 0
    known: int = 0
    refused: int = 0

    def run(self, study: SweepStudy) -> SweepOutcome:
        """The outcome of all rounds with this one. Raises as `run_sweep`."""
        refused = self.refused

        def told(at: Progress) -> None:
            self.refused = refused + at.refused
            known = self.known + max(0, at.known - self.points)
            self.report(replace(at, known=known, refused=self.refused, total=max(self.most, at.total)))

        outcome = run_sweep(study, self.folder, self.place, told, self.workers, self.runner)
        self.known += max(0, outcome.known - self.points)
        self.points = outcome.counts.points
        return replace(outcome, known=self.known)


def refuse_until(study: SweepStudy, until: Until) -> None:
    """Raise InputError where points cannot be added until then."""
    if study.searched:
        return
    sampling = study.file.sampling
    if sampling is None or sampling.method not in GROWING:
        text = f"allowed: a study that searches, or one with sampling.method {', '.join(GROWING)}"
        raise InputError(f"not with the points of this study; {text}", where="--until")
    if until.precision is not None and study.file.goal is None:
        raise InputError("a precision takes a study with a table goal", where="--until")
    if until.precision is not None and (len(study.axes) > 1 or len(study.sources) > 1):
        text = "a precision is of a mean over samples; allowed: a study of one scenario whose axes are all sampled"
        raise InputError(text, where="--until")
    if until.points is not None and study.count > until.points:
        raise InputError(
            f"the first round alone has {study.count:,} points; allowed: that many or more", where="--until"
        )


def run_adaptive(
    study: SweepStudy, folder: Path, place: Place, until: Until | None, report: Report = lambda _: None
) -> AdaptiveOutcome:
    """Run a study in rounds until there are enough points. Raises as `run_sweep`, and InputError where more points of
    the study would not begin with the fewer."""
    if study.searched:
        return _searched(study, folder, place, until, report)
    assert until is not None, "a study that is not a search has all of its points at once"
    refuse_until(study, until)
    return _sampled(study, folder, place, until, report)


# ── samples ──


def _sampled(study: SweepStudy, folder: Path, place: Place, until: Until, report: Report) -> AdaptiveOutcome:
    """Twice as many samples in each round."""
    sampling = study.file.sampling
    assert sampling is not None, "looked at by refuse_until"
    per_sample, started = study.count / sampling.count, time.monotonic()
    count = sampling.count
    with Workers(place) as workers:
        rounds = _Rounds(folder=folder, place=place, workers=workers, report=report)
        while True:
            now = study.with_samples(count)
            outcome = rounds.run(now)
            spent = time.monotonic() - started
            more = 2 * count * per_sample
            is_enough = (
                (until.points is not None and more > until.points)
                or (until.seconds is not None and spent >= until.seconds)
                or (until.precision is not None and _half_width(now, folder, outcome) <= until.precision)
            )
            if is_enough:
                return AdaptiveOutcome(outcome=outcome, study=now)
            if fault := SWEEP_POINTS.fault(round(more)):
                ended = f"Ended before --until: the next round would have too many points ({fault})"
                return AdaptiveOutcome(outcome=outcome, study=now, ended=ended)
            count *= 2


def _half_width(study: SweepStudy, folder: Path, outcome: SweepOutcome) -> float:
    """Half of the 90 % interval of what a study is to find: of the widest first index, or of the mean of the goal over
    its samples, relative to that; endless where too few points have the goal."""
    import numpy as np

    goal = study.file.goal
    assert goal is not None, "a study with a goal"
    values = np.array(goal_values(folder, goal, outcome.counts.points))
    sampling = study.file.sampling
    if sampling is not None and sampling.method == "saltelli":
        try:
            return indices_of(study.keys, values.reshape(sampling.count, -1), sampling.seed).widest
        except InputError:
            return math.inf
    known = values[np.isfinite(values)]
    if len(known) < 2 or known.mean() == 0.0:
        text = (
            f"{len(known)} of {len(values)} points have the goal, with a mean of {known.mean() if len(known) else 0:g}"
        )
        raise InputError(f"{text}; allowed with a precision: a goal that is not 0", where="--until")
    return float(NORMAL_90 * known.std(ddof=1) / math.sqrt(len(known)) / abs(known.mean()))


# ── a search ──


def _searched(study: SweepStudy, folder: Path, place: Place, until: Until | None, report: Report) -> AdaptiveOutcome:
    table, goal = study.file.search, study.file.goal
    assert table is not None and goal is not None, "a study that searches"
    dimensions = [
        Dimension(
            key=axis.key,
            values=tuple(range(len(axis.among))),
            between=axis.between or (0.0, 0.0),
            is_log=axis.is_log,
        )
        for axis in study.searched
    ]
    search = Search(dimensions=dimensions, is_most=goal.best == "most", seed=table.seed)
    most = _most_points(table.points, until)
    estimated = list(_estimated(study, table.estimates, table.seed))[: max(FIRST, table.points // 4)]
    for settings in estimated:
        search.put_first({axis.key: _place(axis, settings[axis.key]) for axis in study.searched})
    rows: list[tuple[Value, ...]] = []
    bests: list[float] = []
    started = time.monotonic()
    with Workers(place) as workers:
        planned = most if until is None or until.seconds is None else 0
        rounds = _Rounds(folder=folder, place=place, workers=workers, report=report, most=planned)
        while True:
            asked = search.ask(min(ROUND, most - len(rows)))
            rows += [tuple(_value(axis, each[axis.key]) for axis in study.searched) for each in asked]
            now = study.with_points(rows)
            outcome = rounds.run(now)
            values = goal_values(folder, goal, len(rows))
            search.tell([None if math.isnan(value) else value for value in values[-len(asked) :]])
            bests.append(_best(values, goal.best == "most"))
            is_over = until is not None and until.seconds is not None and time.monotonic() - started >= until.seconds
            is_quiet = until is not None and until.precision is not None and _is_quiet(bests, until.precision)
            if is_over or is_quiet or len(rows) >= most:
                ended = ""
                if until is not None and until.precision is not None and not is_quiet:
                    ended = (
                        f"Ended at {len(rows):,} points, as many as search.points allows, before {QUIET_ROUNDS} rounds "
                        f"found nothing better by {until.precision:.3g} of it"
                    )
                return AdaptiveOutcome(
                    outcome=outcome, study=now, estimated=min(len(estimated), len(rows)), ended=ended
                )


def _most_points(points: int, until: Until | None) -> int:
    """How many points a search has at most: those of the study, unless --until says how many, or for how long."""
    if until is not None and until.points is not None:
        return until.points
    return SWEEP_POINTS.most if until is not None and until.seconds is not None else points


def _place(axis: SampledAxis, value: Value) -> Number:
    """Where a value stands on an axis: a number itself, one of several by its place among them."""
    if not axis.among:
        assert isinstance(value, int | float), "of an axis of numbers"
        return value
    return next(place for place, one in enumerate(axis.among) if one is value)


def _value(axis: SampledAxis, place: Number) -> Value:
    """The inverse of `_place`."""
    if axis.among:
        return axis.among[int(place)]
    return number_of(place, axis.is_whole)


def _best(values: Sequence[float], is_most: bool) -> float:
    known = [value for value in values if not math.isnan(value)]
    return (max if is_most else min)(known) if known else math.nan


def _is_quiet(bests: Sequence[float], precision: float) -> bool:
    """Whether the last rounds found nothing that is better by that part."""
    if len(bests) <= QUIET_ROUNDS or math.isnan(bests[-1 - QUIET_ROUNDS]):
        return False
    return abs(bests[-1] - bests[-1 - QUIET_ROUNDS]) <= precision * abs(bests[-1 - QUIET_ROUNDS])


def _estimated(study: SweepStudy, count: int, seed: int) -> Iterator[Mapping[str, Value]]:
    """Points drawn evenly over the space, the best first by what `tune` estimates of them; those that do not fit by
    their estimate, and goals that are not estimated, are left out."""
    goal = study.file.goal
    assert goal is not None, "a study that searches"
    worth = _worth_of(goal.column)
    if not count or worth is None or goal.against is not None:
        return
    (source,) = study.sources.values()
    estimates = Estimates()
    found = []
    for number, shares in enumerate(_even(len(study.searched), count, seed)):
        values = {axis.key: axis.values([share])[0] for axis, share in zip(study.searched, shares, strict=True)}
        try:
            scenario = scenario_of(source.document, source.path, put({**study.settings, **values}), laid_out=False)
        except InputError:
            continue
        for plan in [goal.plan] if goal.plan else scenario.plans:
            size = goal.devices or max(scenario.file.run.devices)
            made = estimates.of(scenario, plan, size)
            capacity = scenario.of(plan, size).machine.device.hbm_bytes
            if made is not None and made.peak_bytes <= capacity:
                found.append((worth(scenario.case(plan, size).samples / made.step_s, made.step_s), number, values))
    seen = set()
    for _, number, values in sorted(found, key=lambda each: (-each[0], each[1])):
        if number not in seen:
            seen.add(number)
            yield values


def _worth_of(column: str) -> Callable[[float, float], float] | None:
    """How good a point is, out of its samples per second and its step time; None of a goal that is not estimated."""
    if column == "step_time_s":
        return lambda _, step_s: -step_s
    rates = {each.name for each in RESULTS if each.mean == "per second"}
    return (lambda rate, _: rate) if column in rates else None


def _even(num_axes: int, count: int, seed: int) -> Iterator[Sequence[float]]:
    from scipy.stats import qmc

    yield from qmc.LatinHypercube(num_axes, rng=seed).random(count)
