"""Answers to what-ifs: step times between those of simulated steps, with their measured error and whom to trust."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simfrontier.arrays import Floats, Ints
from simfrontier.schedule import Peak
from simfrontier.simulation import fullest
from simfrontier.whatif.bases import Bases

NEAREST: Final = 4  # simulated steps from which an answer is replayed
DIRECTIONS: Final = 5  # in which answers are corrected
FEWEST: Final = 6  # simulated steps that show how
RIDGE: Final = 0.01  # of the mean square along the directions
TRUSTED_SPREAD: Final = 0.03  # between the step times that those give for one variation, at most
TRUSTED_ERROR: Final = 0.01  # of the nearest simulated steps, each left out and answered from the others
TRUSTED_QUESTION: Final = 0.02  # of all of them; both root mean squares


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """Step times, or ratios of them, of variations.

    value       [num_variations] seconds, or a ratio
    simulated   [num_variations] whether it was simulated exactly
    spread      [num_variations] by how much, in relation to it, the steps differ from which it was replayed
    left_out    [num_steps] relative errors of the simulated steps from which others are answered, each left out
    near_error  [num_variations] root mean square of those of the steps that answer it; nan where none was measured
    peak_bytes  [num_variations] of the steps that answer it the most that a rank holds at once
    is_unlike   [num_variations] whether the library takes another algorithm there than in the steps that answer it
    """

    value: Floats
    simulated: NDArray[np.bool_]
    spread: Floats
    left_out: Floats
    near_error: Floats
    peak_bytes: Floats
    is_unlike: NDArray[np.bool_]

    @property
    def error(self) -> float:
        """Root mean square of the relative errors that were measured, of this question; nan where none was."""
        return float(np.sqrt(np.mean(self.left_out**2))) if len(self.left_out) else np.nan

    @property
    def trusted(self) -> NDArray[np.bool_]:
        """[num_variations] which answers are good enough; whoever needs another one simulates it."""
        is_near = (self.spread <= TRUSTED_SPREAD) & (self.near_error <= TRUSTED_ERROR)
        return self.simulated | (is_near & ~self.is_unlike & (self.error <= TRUSTED_QUESTION))

    def first(self, num: int) -> Answers:
        """Those of the first variations."""
        return Answers(
            value=self.value[:num],
            simulated=self.simulated[:num],
            spread=self.spread[:num],
            left_out=self.left_out,
            near_error=self.near_error[:num],
            peak_bytes=self.peak_bytes[:num],
            is_unlike=self.is_unlike[:num],
        )

    def over(self, other: Answers) -> Answers:
        """The ratio to those of another plan, of the same variations; errors add."""
        num = min(len(self.left_out), len(other.left_out))
        return Answers(
            value=self.value / other.value,
            simulated=self.simulated & other.simulated,
            spread=np.maximum(self.spread, other.spread),
            left_out=np.hypot(self.left_out[:num], other.left_out[:num]),
            near_error=np.hypot(self.near_error, other.near_error),
            peak_bytes=np.maximum(self.peak_bytes, other.peak_bytes),
            is_unlike=self.is_unlike | other.is_unlike,
        )


def answered(bases: Bases, peaks: Sequence[Peak]) -> Answers:
    """The step times of all variations but the first, which is the step as it is.

    A step time is the geometric mean of those that the nearest simulated steps give, each corrected, with a weight of 1
    over its distance squared. `peaks`: of the schedule, as its check finds them.
    """
    usable = np.array([step is not None for step in bases.steps])
    near = np.argsort(np.where(usable[:, None], bases.apart_s, np.inf), axis=0)[: min(NEAREST, int(usable.sum()))]
    num = bases.apart_s.shape[1]
    logs = np.full(bases.apart_s.shape, np.nan)
    asked = (near[None] == np.arange(len(usable))[:, None, None]).any(axis=1)
    asked[:, bases.number] = True
    asked &= usable[:, None]
    base, rows = np.nonzero(asked)
    logs[base, rows] = np.log(bases.replayed_s(base, rows))
    mean, spread = _mean(bases, logs, np.arange(num), usable)
    value = np.exp(mean)
    value[bases.number] = bases.step_s
    spread[bases.number] = 0.0
    is_simulated = np.zeros(num, bool)
    is_simulated[bases.number] = True
    left_out = _left_out(bases, logs, usable)
    held = np.array([np.nan if step is None else fullest(step, peaks).peak_bytes for step in bases.steps])
    return Answers(
        value=value[1:],
        simulated=is_simulated[1:],
        spread=spread[1:],
        left_out=left_out[usable] if usable.sum() > 1 else left_out[:0],
        near_error=np.sqrt((left_out[near[:, 1:]] ** 2).mean(axis=0)),
        peak_bytes=held[near[:, 1:]].max(axis=0),
        is_unlike=bases.prices.has_other_ways[1:],
    )


def _left_out(bases: Bases, logs: Floats, usable: NDArray[np.bool_]) -> Floats:
    """Relative errors of the simulated steps from which others are answered, each answered from the rest of them
    [num_steps]; nan where there is no rest, and of the steps from which none is answered."""
    out = np.full(len(usable), np.nan)
    for base in np.flatnonzero(usable).tolist():
        others = usable & (np.arange(len(usable)) != base)
        if others.any():
            mean, _ = _mean(bases, logs, bases.number[[base]], others)
            out[base] = float(np.exp(mean[0])) / bases.step_s[base] - 1.0
    return out


def _mean(bases: Bases, logs: Floats, rows: Ints, usable: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Means of the nearest steps' logarithms, corrected, and by how much these differ before that [len(rows)]."""
    apart = np.where(usable[:, None], bases.apart_s[:, rows], np.inf)
    near = np.argsort(apart, axis=0)[: min(NEAREST, int(usable.sum()))]
    distance = np.maximum(np.take_along_axis(apart, near, axis=0), np.finfo(float).tiny ** 0.25)
    weight = 1.0 / distance**2
    known = np.take_along_axis(logs[:, rows], near, axis=0)
    right = known - np.take_along_axis(_corrections(bases, logs, rows, usable), near, axis=0)
    return (weight * right).sum(axis=0) / weight.sum(axis=0), np.ptp(known, axis=0)


def _corrections(bases: Bases, logs: Floats, rows: Ints, usable: NDArray[np.bool_]) -> Floats:
    """By how much the logarithms are too large that each step gives [num_steps, len(rows)]: as far as that is linear in
    how far a variation is from the step, along the few directions in which the times of ops differ most. Fitted to what
    the simulated steps give for each other, with a ridge that keeps it small where they say little."""
    out, number = np.zeros((len(usable), len(rows))), bases.number[usable]
    if len(number) < FEWEST:
        return out
    times = bases.times / bases.step_s[0]
    times = times - times[:, number].mean(axis=1, keepdims=True)
    axes = np.linalg.svd(times[:, number], full_matrices=False)[0][:, :DIRECTIONS]
    place = axes.T @ times  # [DIRECTIONS, num_variations]
    one, other = np.nonzero(~np.eye(len(number), dtype=bool))
    moved = place[:, number[other]] - place[:, number[one]]
    wrong = logs[np.flatnonzero(usable)[one], number[other]] - np.log(bases.step_s[usable])[other]
    square = moved @ moved.T
    if not square.any():  # all alike
        return out
    ridge = RIDGE * np.trace(square) / len(square) * np.eye(len(square))
    slope = np.linalg.solve(square + ridge, moved @ wrong)
    out[usable] = slope @ (place[:, None, rows] - place[:, number][:, :, None]).transpose(1, 0, 2)
    return out
