"""Run a sweep study into a folder: all its points at once, or in rounds in which a search proposes points or samples
are added until a stopping criterion holds.
"""

from __future__ import annotations

import dataclasses
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from simfrontier.answers.search import SmallSchedules, estimate
from simfrontier.answers.study import RESULTS
from simfrontier.answers.sweep.answers import best_of, goal_values
from simfrontier.answers.sweep.axes import SampledAxis, number_of, shares
from simfrontier.answers.sweep.form import SWEEP_POINTS, GoalTable, SearchTable, Value
from simfrontier.answers.sweep.indices import indices_of
from simfrontier.answers.sweep.keys import put
from simfrontier.answers.sweep.rounds import Report, Rounds, SweepOutcome
from simfrontier.answers.sweep.study import SweepStudy
from simfrontier.base.errors import InputError, shown
from simfrontier.base.optional import require
from simfrontier.base.workers import Place
from simfrontier.core.cost import Prices
from simfrontier.inputs.scenario import Scenario, scenario_of

_TEXT: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s{0,3}(points|s|min|h|%)?")
ALLOWED: Final = "a number of points (500), a time (90s, 30min, 2h) or a precision (1%)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Until:
    """Stopping criterion of a sweep: a number of points, the seconds within which points may begin, or a relative
    precision of the result. At most one of them is set."""

    points: int | None = None
    seconds: float | None = None
    precision: float | None = None

    def is_over(self, started: float) -> bool:
        """Return whether the time limit has passed since `started` (a value of `time.monotonic`)."""
        return self.seconds is not None and time.monotonic() - started >= self.seconds


def parse_until(text: str) -> Until:
    """Parse the value of --until. Raises InputError."""
    found = _TEXT.fullmatch(text.strip())
    if found is None or not (number := float(found[1])):
        raise InputError(f"got {shown(text)}; allowed: {ALLOWED}", where="--until")
    if found[2] == "%":
        return Until(precision=number / 100.0)
    if found[2] in ("s", "min", "h"):
        return Until(seconds=number * {"s": 1.0, "min": 60.0, "h": 3600.0}[found[2]])
    return Until(points=math.ceil(number))


STARTUP: Final = 10  # points of a search that are drawn at random before any is proposed: optuna's own default


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Search:
    """Search that proposes points and receives their results in rounds: the same seed and the same results give the
    same points, whichever workers compute them. `is_most`: whether the goal is maximised rather than minimised.
    """

    axes: Sequence[SampledAxis]
    is_most: bool
    seed: int
    _study: Any = dataclasses.field(init=False)
    _asked: list[Any] = dataclasses.field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        optuna = _optuna()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        # A tree-structured Parzen estimator that takes settings together, and points that are under way for bad ones.
        sampler = optuna.samplers.TPESampler(
            seed=self.seed, multivariate=True, constant_liar=True, n_startup_trials=STARTUP
        )
        direction = "maximize" if self.is_most else "minimize"
        self._study = optuna.create_study(direction=direction, sampler=sampler)

    def put_first(self, settings: Mapping[str, Value]) -> None:
        """Queue a point that is returned by `ask` before the proposed points."""
        self._study.enqueue_trial(
            {axis.key: axis.among.index(settings[axis.key]) if axis.among else settings[axis.key] for axis in self.axes}
        )

    def ask(self, count: int) -> list[tuple[Value, ...]]:
        """Return the next points, a value for each axis. Results of all earlier points must have been reported."""
        space = {axis.key: _distribution(axis) for axis in self.axes}
        self._asked = [self._study.ask(space) for _ in range(count)]
        return [tuple(_value(axis, trial.params[axis.key]) for axis in self.axes) for trial in self._asked]

    def tell(self, results: Sequence[float]) -> None:
        """Report the results of the points that were asked for last, in their order; NaN for a point without a
        result."""
        failed = _optuna().trial.TrialState.FAIL
        for trial, result in zip(self._asked, results, strict=True):
            if math.isnan(result):
                self._study.tell(trial, state=failed)
            else:
                self._study.tell(trial, result)
        self._asked = []


def _distribution(axis: SampledAxis) -> Any:
    """Return the optuna distribution of an axis; for unordered values, of their indices."""
    distributions = _optuna().distributions
    if axis.between is None:
        return distributions.CategoricalDistribution(range(len(axis.among)))
    low, high = axis.between
    kind = distributions.IntDistribution if axis.is_whole else distributions.FloatDistribution
    return kind(low, high, log=axis.is_log)


def _value(axis: SampledAxis, drawn: int | float) -> Value:
    return number_of(drawn, axis.is_whole) if axis.between is not None else axis.among[int(drawn)]


def _optuna() -> Any:
    require("sweep", "search")
    import optuna

    return optuna


def first_points(study: SweepStudy, table: SearchTable, goal: GoalTable) -> list[Mapping[str, Value]]:
    """Return the settings of randomly drawn points, ordered by their estimates, the best first. Points that do not fit
    into memory by their estimate are left out; empty if the goal cannot be derived from the step time.
    """
    rates = [each.name for each in RESULTS if each.mean == "per second"]
    if not table.estimates or goal.against is not None or goal.column not in ("step_time_s", *rates):
        return []
    (source,) = study.sources.values()
    drawn = shares("latin-hypercube", table.estimates, len(study.searched), table.seed)
    columns = [axis.values(column) for axis, column in zip(study.searched, drawn.T, strict=True)]
    found: list[tuple[float, Mapping[str, Value]]] = []
    for row in zip(*columns, strict=True):
        values = dict(zip(study.keys, row, strict=True))
        with suppress(InputError):
            changes = put({**study.settings, **values})
            worths = list(_worths(scenario_of(source.document, source.path, changes, laid_out=False), goal))
            found += [(max(worths), values)] if worths else []
    return [values for _, values in sorted(found, key=lambda each: -each[0])]


def _worths(scenario: Scenario, goal: GoalTable) -> Iterator[float]:
    """Yield the quality of each plan that can be estimated and fits into memory: samples per second, or the negative
    step time.
    """
    for plan in [goal.plan] if goal.plan else scenario.plans:
        size = goal.devices or max(scenario.file.run.devices)
        here = scenario.of(plan, size)
        if plan in here.searches:  # its options are open
            continue
        prices = Prices(here.machine, here.library, size, here.file.perturbation, here.file.run.placement)
        with suppress(InputError):
            case = scenario.case(plan, size)
            made = estimate(case, SmallSchedules(prices))
            if made.peak_bytes <= here.machine.device.hbm_bytes:
                yield -made.step_s if goal.column == "step_time_s" else case.samples / made.step_s


ROUND: Final = 8  # points of a search asked for at once: what it proposes does not depend on the number of workers
QUIET_ROUNDS: Final = 5  # of a search without a better point by the precision that is wanted: it ends
FIRST: Final = 4  # points of a search that come from estimates, at least
NORMAL_90: Final = 1.645  # half the width of a normal's central 90 %, in standard deviations
GROWING: Final = ("random", "sobol", "saltelli")  # ways of sampling of which more points begin with the fewer


def refuse_until(study: SweepStudy, until: Until) -> None:
    """Raise InputError if a study cannot be extended with points up to this stopping criterion."""
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


# ── samples ──


def sample_until(study: SweepStudy, rounds: Rounds, until: Until) -> SweepOutcome:
    """Run a sampled study, doubling the number of samples in each round until the stopping criterion holds."""
    sampling = study.file.sampling
    assert sampling is not None, "looked at by refuse_until"
    started, count = time.monotonic(), sampling.count
    while True:
        outcome = rounds.run(study)
        more = 2 * study.count
        is_enough = (
            (until.points is not None and more > until.points)
            or until.is_over(started)
            or (until.precision is not None and _half_width(outcome) <= until.precision)
        )
        if is_enough:
            return outcome
        if fault := SWEEP_POINTS.fault(more):
            return replace(outcome, ended=f"Ended before --until: the next round would have too many points ({fault})")
        count *= 2
        study = study.with_samples(count)


def _half_width(outcome: SweepOutcome) -> float:
    """Return half the width of the 90 % interval of the study's result: that of the widest first-order Sobol' index, or
    that of the mean of the goal over its samples, relative to the mean; infinite if too few points have a result.
    """
    study = outcome.study
    goal, sampling = study.file.goal, study.file.sampling
    assert goal is not None, "a study with a goal"
    values = np.array(goal_values(outcome.folder, goal, outcome.counts.points))
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


def search_best(study: SweepStudy, rounds: Rounds, until: Until) -> SweepOutcome:
    """Run rounds of points proposed by optuna, beginning with those that have the best estimates, until the stopping
    criterion holds.
    """
    table, goal = study.file.search, study.file.goal
    assert table is not None and goal is not None, "a study that searches"
    search = Search(axes=study.searched, is_most=goal.best == "most", seed=table.seed)
    for settings in first_points(study, table, goal)[: max(FIRST, table.points // 4)]:
        search.put_first(settings)
    most = until.points or (table.points if until.seconds is None else SWEEP_POINTS.most)
    rounds.most = most if until.seconds is None else 0
    rows: list[tuple[Value, ...]] = []
    bests: list[float] = []
    started = time.monotonic()
    while True:
        asked = search.ask(min(ROUND, most - len(rows)))
        rows += asked
        outcome = rounds.run(study.with_points(rows))
        values = goal_values(outcome.folder, goal, len(rows))
        search.tell(values[-len(asked) :])
        bests.append(best_of(values, goal))
        if until.precision is not None and _is_quiet(bests, until.precision):
            return outcome
        if until.is_over(started) or len(rows) >= most:
            return replace(outcome, ended="" if until.precision is None else _ended(len(rows), until.precision))


def _ended(points: int, precision: float) -> str:
    return (
        f"Ended at {points:,} points, as many as search.points allows, before {QUIET_ROUNDS} rounds found nothing "
        f"better by {precision:.3g} of it"
    )


def _is_quiet(bests: Sequence[float], precision: float) -> bool:
    """Return whether the last rounds changed the best result by no more than a relative `precision`."""
    if len(bests) <= QUIET_ROUNDS or math.isnan(bests[-1 - QUIET_ROUNDS]):
        return False
    return abs(bests[-1] - bests[-1 - QUIET_ROUNDS]) <= precision * abs(bests[-1 - QUIET_ROUNDS])


def run_sweep(
    study: SweepStudy, folder: Path, place: Place, report: Report = lambda _: None, until: Until | None = None
) -> SweepOutcome:
    """Simulate the points of a study whose results are not yet in the folder, and write the data set there; the points
    of a search, and further samples with `until`, are simulated in rounds.

    Raises InputError for a study without points, with too many points, or that cannot be extended up to `until`, and
    for a folder that belongs to something else or cannot be written; StoppedError and LostError if the run ends early:
    results kept so far are not simulated again.
    """
    if until is not None:
        refuse_until(study, until)
    with Rounds(folder, place, report) as rounds:
        if study.searched:
            return search_best(study, rounds, until or Until())
        return rounds.run(study) if until is None else sample_until(study, rounds, until)
