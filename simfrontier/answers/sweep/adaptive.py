"""Sweeps that add points by themselves: a search for the best, and samples until the goal is known well enough."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from simfrontier.answers.sweep.answers import best_of, goal_values
from simfrontier.answers.sweep.first_points import first_points
from simfrontier.answers.sweep.form import SWEEP_POINTS, Value
from simfrontier.answers.sweep.indices import indices_of
from simfrontier.answers.sweep.rounds import Rounds, SweepOutcome
from simfrontier.answers.sweep.search import Search
from simfrontier.answers.sweep.study import SweepStudy
from simfrontier.answers.sweep.until import Until
from simfrontier.base.errors import InputError

ROUND: Final = 8  # points of a search asked for at once: what it proposes does not depend on the number of workers
QUIET_ROUNDS: Final = 5  # of a search without a better point by the precision that is wanted: it ends
FIRST: Final = 4  # points of a search that come from estimates, at least
NORMAL_90: Final = 1.645  # half the width of a normal's central 90 %, in standard deviations
GROWING: Final = ("random", "sobol", "saltelli")  # ways of sampling of which more points begin with the fewer


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


# ── samples ──


def sample_until(study: SweepStudy, rounds: Rounds, until: Until) -> SweepOutcome:
    """Run a study with twice as many samples in each round until there are enough."""
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
    """Half of the 90 % interval of what a study is to find: of the widest first index, or of the mean of the goal over
    its samples, relative to that; endless where too few points have the goal."""
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
    """Run rounds of points that optuna proposes, those with the best estimates first, until there are enough."""
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
    """Whether the last rounds found nothing that is better by that part."""
    if len(bests) <= QUIET_ROUNDS or math.isnan(bests[-1 - QUIET_ROUNDS]):
        return False
    return abs(bests[-1] - bests[-1 - QUIET_ROUNDS]) <= precision * abs(bests[-1 - QUIET_ROUNDS])
