"""Sobol' indices: the share of a result's variance that each unknown input explains, to decide which one to measure
next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simfrontier.answers.sweep.form import Number
from simfrontier.base.arrays import Floats
from simfrontier.base.errors import InputError

CONFIDENCE = 0.9  # of the intervals of indices
RESAMPLES = 500  # of the bootstrap that they come from
LEAST_ROUNDS = 8  # with fewer, intervals say nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """Sobol' indices of one unknown: the share of the variance of a result that it explains.

    first   share by which the variance would shrink, on average, if only this unknown were known
    total   share of the variance that would remain, on average, if all other unknowns were known

    Both have a 90 % interval from resampled rounds. `sd_left`: the average standard deviation that remains if only this
    unknown is known.
    """

    key: str
    first: Number
    first_interval: tuple[Number, Number]
    total: Number
    total_interval: tuple[Number, Number]
    sd_left: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Indices:
    """The indices of all unknowns, sorted by first-order index, the largest first. `mean` and `sd`: of the result over
    the unknowns; `num_rounds`: number of rounds of the design that are used, without rounds that have a point without a
    result (out of `num_planned`).
    """

    mean: Number
    sd: Number
    num_rounds: int
    num_planned: int
    unknowns: tuple[Index, ...]

    @property
    def widest(self) -> float:
        """Half the width of the widest interval of a first-order index."""
        return max((high - low) / 2.0 for low, high in (each.first_interval for each in self.unknowns))


def design(num_unknowns: int, num_rounds: int, seed: int) -> Floats:
    """Return points in the unit cube [num_rounds, num_unknowns + 2, num_unknowns], of which indices are found: in each
    round two points A and B of a scrambled Sobol' sequence, and A with each single coordinate of B (Saltelli et al.,
    Variance based sensitivity analysis of model output, Comput. Phys. Commun. 181, 2010). More rounds begin with the
    fewer."""
    from scipy.stats import qmc

    both = qmc.Sobol(2 * num_unknowns, rng=seed).random(num_rounds)
    a, b = both[:, None, :num_unknowns], both[:, None, num_unknowns:]
    is_own = np.eye(num_unknowns, dtype=bool)[None]
    mixed: Floats = np.where(is_own, b, a)
    return np.concatenate([a, b, mixed], axis=1)


def indices_of(keys: Sequence[str], values: Floats, seed: int) -> Indices:
    """Return the indices for the results of a design [num_rounds, num_unknowns + 2]; rounds that contain nan (a point
    without a result) are dropped. Of the others a power of two is used, as Sobol' sequences require. Raises InputError
    if too few rounds remain.
    """
    whole = values[np.isfinite(values).all(axis=1)]
    count = 1 << max(0, len(whole).bit_length() - 1) if len(whole) else 0
    if count < LEAST_ROUNDS:
        raise InputError(
            f"{len(whole)} of {len(values)} rounds of the design have all results; indices take {LEAST_ROUNDS} rounds"
        )
    used = whole[:count]
    mean, sd = float(used[:, :2].mean()), float(used[:, :2].std())
    if not sd > 1e-12 * abs(mean):
        nothing = [_index(key, 0.0, (0.0, 0.0), 0.0, (0.0, 0.0), sd) for key in keys]
        return Indices(mean=mean, sd=0.0, num_rounds=count, num_planned=len(values), unknowns=tuple(nothing))
    first, total = _shares(used)
    firsts, totals = _intervals(used, seed)
    made = [_index(key, float(first[i]), firsts[i], float(total[i]), totals[i], sd) for i, key in enumerate(keys)]
    made.sort(key=lambda each: (-each.first, each.key))
    return Indices(mean=mean, sd=sd, num_rounds=count, num_planned=len(values), unknowns=tuple(made))


def _shares(used: Floats) -> tuple[Floats, Floats]:
    """Return first and total indices [num_unknowns each] of the results of whole rounds."""
    from scipy.stats import sobol_indices

    of_points = {"f_A": used[None, :, 0], "f_B": used[None, :, 1], "f_AB": used.T[2:, None, :]}
    found = sobol_indices(func=of_points, n=len(used))
    return np.ravel(found.first_order), np.ravel(found.total_order)


def _intervals(used: Floats, seed: int) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return the 90 % intervals of each first-order and each total index, from bootstrap samples of the rounds."""
    draws = np.random.default_rng(seed)
    samples = []
    for _ in range(RESAMPLES):
        some = used[draws.integers(len(used), size=len(used))]
        if some[:, :2].std() > 0.0:
            samples.append(_shares(some))
    ends = ((1.0 - CONFIDENCE) / 2.0, (1.0 + CONFIDENCE) / 2.0)
    first, total = (np.quantile(each, ends, axis=0).T.tolist() for each in zip(*samples, strict=True))
    return [(low, high) for low, high in first], [(low, high) for low, high in total]


def _index(
    key: str, first: float, firsts: tuple[float, float], total: float, totals: tuple[float, float], sd: float
) -> Index:
    left = sd * float(np.sqrt(min(1.0, max(0.0, 1.0 - first))))
    return Index(key=key, first=first, first_interval=firsts, total=total, total_interval=totals, sd_left=left)
