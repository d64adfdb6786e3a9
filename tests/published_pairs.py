"""Pairs of published runs of one model: is the difference of their rates predicted? `python -m tests.published_pairs`.

A pair is two runs of one model whose measured tokens per second and device differ by `LEAST` or more: less is within
the scatter of runs. The first is drawn from all runs that have such a partner, the second from its partners; no pair is
drawn twice. Nothing else chooses them.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from simfrontier.answers.accuracy import JobStep, ListedRun, job_of, listed_runs
from simfrontier.base.workers import Local, Workers

LEAST: Final = 1.1
WITHIN: Final = 1.5
Pair = tuple[ListedRun, ListedRun]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairResult:
    """Measured and predicted logarithm of the ratio of the rates of two runs."""

    measured: float
    predicted: float

    @property
    def has_sign(self) -> bool:
        """Return whether the faster run is predicted to be the faster one."""
        return self.measured * self.predicted > 0.0

    @property
    def has_size(self) -> bool:
        """Return whether the predicted ratio is within a factor of `WITHIN` of the measured one."""
        return abs(self.predicted - self.measured) < math.log(WITHIN)

    @property
    def has_log_size(self) -> bool:
        """Return whether the logarithm of the predicted ratio is, which is stricter where rates differ little."""
        return 1.0 / WITHIN < self.predicted / self.measured < WITHIN


def rate(run: ListedRun) -> float:
    """Return the measured tokens per second and device of a run."""
    return run.facts.tokens_per_s_per_device(run.row.measured_s)


@cache
def partners() -> dict[str, tuple[ListedRun, ...]]:
    """Return the runs with which each run makes a pair, by its name; runs without a partner are left out."""
    runs = listed_runs()
    found = {
        run.name: tuple(
            other
            for other in runs
            if other is not run
            and run.row.model == other.row.model
            and run.facts.is_of_model(other.facts)
            and abs(math.log(rate(run) / rate(other))) >= math.log(LEAST)
        )
        for run in runs
    }
    return {name: others for name, others in found.items() if others}


def drawn(count: int, seed: int) -> list[Pair]:
    """Return so many pairs of runs by a seed."""
    draw, pairs = random.Random(seed), dict[frozenset[str], Pair]()
    known = {run.name: run for run in listed_runs()}
    while len(pairs) < count:
        first = known[draw.choice(sorted(partners()))]
        second = draw.choice(partners()[first.name])
        pairs.setdefault(frozenset((first.name, second.name)), (first, second))
    return list(pairs.values())


def shipped_s(run: ListedRun) -> float:
    """Return the step of a run in seconds by the shipped parameters, as `explain --against runs` predicts it."""
    return JobStep(job_of(run.run)).estimate.step_s


def left_out_s(run: ListedRun) -> float:
    """Return the step of a run in seconds by a fit that has not seen its machine."""
    return run.row.predicted_s


def results(pairs: Sequence[Pair], step_s: Callable[[ListedRun], float]) -> list[PairResult]:
    """Return the results of pairs by predicted steps."""
    return [
        PairResult(
            measured=math.log(rate(first) / rate(second)),
            predicted=math.log(
                first.facts.tokens_per_s_per_device(step_s(first))
                / second.facts.tokens_per_s_per_device(step_s(second))
            ),
        )
        for first, second in pairs
    ]


def summary(name: str, found: Sequence[PairResult]) -> str:
    """Return a line with how many pairs have the right sign and size."""
    counts = [
        sum(each) for each in zip(*((one.has_sign, one.has_size, one.has_log_size) for one in found), strict=True)
    ]
    return f"{name}: of {len(found)} pairs {counts[0]} signs, {counts[1]} ratios, {counts[2]} logarithms within 1.5"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    pairs = drawn(asked.pairs, asked.seed)
    runs = list({run.name: run for pair in pairs for run in pair}.values())
    with Workers(Local(jobs=asked.jobs)) as workers:
        steps = dict(
            zip((run.name for run in runs), workers.in_order(shipped_s, ((run,) for run in runs)), strict=True)
        )
    shipped = results(pairs, lambda run: steps[run.name])
    for (first, second), one in zip(pairs, shipped, strict=True):
        ratios = f"measured ×{math.exp(one.measured):.2f}, predicted ×{math.exp(one.predicted):.2f}"
        sys.stdout.write(f"{'ok ' if one.has_sign and one.has_size else 'NO '} {ratios}  {first.name}, {second.name}\n")
        for run in (first, second):
            sys.stdout.write(f"      {run.run.title[:120]}\n")
    sys.stdout.write(summary("shipped parameters", shipped) + "\n")
    sys.stdout.write(summary("left-out fits", results(pairs, left_out_s)) + "\n")


if __name__ == "__main__":
    main()
