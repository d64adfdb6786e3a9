"""Checks behind the verdict on a trained schedule: gradients of every step, losses and weights, each with its bound."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from simfrontier.core.program import Schedule
from simfrontier_real.ops.programs import Programs
from simfrontier_real.train.states import Weights, weight_of
from simfrontier_real.train.training_settings import RankReport, TrainingResult
from simfrontier_real.verify.arrivals import MOVED, call_errors
from simfrontier_real.verify.bounds import TrainingBounds
from simfrontier_real.verify.gradients import RelativeError, finite, largest, step_errors, title

MESSAGES: Final = "messages, over their rounding"
GRADIENTS: Final = ("gradients", "gradient of one tensor")


@dataclass(frozen=True, slots=True)
class TrainingCheck:
    """A comparison with the unsharded model: its name, the largest difference, the limit, and where the difference
    occurs."""

    name: str
    seen: float
    limit: float
    where: str = ""

    @property
    def holds(self) -> bool:
        return self.seen <= self.limit

    def __str__(self) -> str:
        at = f" ({self.where})" if self.where else ""
        return f"{self.name} {self.seen:.1e} of {self.limit:.1e}{at}"


def checks_of(
    schedule: Schedule,
    programs: Programs,
    rank_reports: Sequence[RankReport],
    losses: tuple[float, ...],
    weights: Weights,
    masters: Weights,
    reference: TrainingResult,
    start: Weights,
    bounds: TrainingBounds,
    first: int = 0,
) -> tuple[TrainingCheck, ...]:
    """Compare the reports of the ranks with the unsharded model. `start` are the weights before the first step,
    `masters` the master weights by their own names, in published form where that is known. The reports and `losses`
    cover the steps from number `first` on, the reference covers all steps."""
    limits = bounds.limits
    taken = [number for number, step in enumerate(rank_reports[0].gradients) if not step.was_skipped]
    steps: dict[int, dict[str, RelativeError]] = {}
    for number in taken:
        mine = [each.gradients[number] for each in rank_reports]
        steps[first + number] = step_errors(schedule, bounds.share, mine, reference.gradients[first + number])
        steps[first + number]["codes of weights"] = _codes(rank_reports, number)
        calls = [each.calls[number] for each in rank_reports]
        steps[first + number][MESSAGES] = call_errors(schedule, programs, calls)

    def by_step(name: str) -> dict[int, RelativeError]:
        return {number: step[name] for number, step in steps.items()}

    errors = [finite(abs(a - b) / abs(b)) for a, b in zip(losses, reference.losses[first:], strict=True)]
    known = {key for each in rank_reports for key in each.published}
    return (
        *(_worst(name, limits[name], by_step(name)) for name in GRADIENTS),
        *(_usual(name, limits[f"{name} of most steps"], by_step(name)) for name in GRADIENTS),
        *(_worst(name, limits[name], by_step(name)) for name in ("norm to clip by", "Adam's moves")),
        _worst(
            "losses", limits["losses"], {number: RelativeError(error) for number, error in enumerate(errors, first)}
        ),
        *_of_weights(weights, reference.weights, start, bounds),
        *_beside(schedule, weights, masters, bounds, known),
        _worst("codes of weights", MOVED, by_step("codes of weights")),
        _worst(MESSAGES, 1.0, by_step(MESSAGES)),
    )


def _codes(rank_reports: Sequence[RankReport], number: int) -> RelativeError:
    """Return the largest difference between the encoded weights that were sent and the encoding of the actual weights,
    and the rank on which it occurs."""
    return largest(RelativeError(each.code_errors[number], f"rank {rank}") for rank, each in enumerate(rank_reports))


def _worst(name: str, limit: float, by_step: dict[int, RelativeError]) -> TrainingCheck:
    if not by_step:
        return TrainingCheck(name, 0.0, limit)
    number = max(by_step, key=lambda each: by_step[each].error)
    error, where = by_step[number]
    return TrainingCheck(name, error, limit, f"step {number + 1}" + (f", {where}" if where else ""))


def _usual(name: str, limit: float, by_step: dict[int, RelativeError]) -> TrainingCheck:
    """Return the check of the median step, which at least half of the steps do not exceed; of two steps, the worse
    one."""
    order = sorted(by_step, key=lambda each: by_step[each].error)
    half = {number: by_step[number] for number in order[: len(order) // 2 + 1]}
    return _worst(f"{name} of most steps", limit, half)


def _of_weights(
    weights: Weights, reference: Weights, start: Weights, bounds: TrainingBounds
) -> Iterator[TrainingCheck]:
    """Yield the checks of weights: element by element if nothing is lost; otherwise the difference of all weights
    relative to the length of their change in training, and the largest relative error in the length of a single
    weight's change."""
    error, worst = distance(weights, reference)
    if bounds.is_exact:
        yield TrainingCheck("weights", error, bounds.limits["weights"], worst)
        return
    apart = moved = size = 0.0
    lengths = []
    for key, values in reference.items():
        far, length = _square(weights[key] - values), _square(values - start[key])
        apart, moved, size = apart + far, moved + length, size + _square(start[key])
        if length > 0:
            ratio = math.sqrt(_square(weights[key] - start[key]) / length)
            ratio = finite(max(ratio, 1 / ratio) if ratio > 0 else math.inf) - 1
            published = bounds.published * math.sqrt(_square(start[key]) / length)
            lengths.append(TrainingCheck("length of a move", ratio, bounds.length + published, title(key)))
    share = math.sqrt(size / moved) if moved > 0 else 0.0
    error = finite(math.sqrt(apart / moved)) if moved > 0 else 0.0
    yield TrainingCheck("weights", error, bounds.limits["weights"] + bounds.published * share)
    yield max(
        lengths, key=lambda each: each.seen / each.limit, default=TrainingCheck("length of a move", 0.0, bounds.length)
    )


def _beside(
    schedule: Schedule, weights: Weights, masters: Weights, bounds: TrainingBounds, known: set[tuple[str, int]]
) -> Iterator[TrainingCheck]:
    """Yield the errors of published weights: compared with the expected results of publishing their masters, if these
    are `known`; otherwise with the masters, which shows only the loss of publishing."""
    for name, limit, keys in (
        ("published weights", bounds.limits["published weights"], masters.keys() & known),
        ("weights beside masters", bounds.limits["weights beside masters"], masters.keys() - known),
    ):
        if not keys:
            continue
        apart = size = 0.0
        for master, layer in keys:
            values = masters[master, layer]
            apart += _square(weights[weight_of(schedule.tensors[master]), layer] - values)
            size += _square(values)
        yield TrainingCheck(name, finite(math.sqrt(apart / size)) if size > 0 else 0.0, limit)


def _square(values: object) -> float:
    return float(np.sum(np.square(values)))  # type: ignore[call-overload]


def distance(weights: Weights, reference: Weights) -> RelativeError:
    """Return the largest relative difference of a parameter tensor, and the name of this tensor."""

    def error_of(key: tuple[str, int], values: Any) -> RelativeError:
        error = float(np.abs(weights[key] - values).max()) / (float(np.abs(values).max()) or 1.0)
        return RelativeError(error, title(key) if error else "")

    return largest(error_of(key, values) for key, values in reference.items())
