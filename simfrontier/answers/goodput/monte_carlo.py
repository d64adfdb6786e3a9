"""The same model played out: interruptions, restarts, broken nodes and repairs of many trainings, drawn at random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simfrontier.answers.goodput.model import Upkeep
from simfrontier.base.arrays import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The useful share of all time over all trainings, and its standard error."""

    useful: float
    error: float


def play(upkeep: Upkeep, interval_s: float, num_events: int, num_trainings: int, seed: int) -> Played:
    """Play so many trainings at once, each until so many interruptions have come. Raises nothing.

    Between two interruptions a training first restarts, then does whole segments of work and checkpoints; what is left
    over is lost. All that is drawn is when the next interruption comes, whether it leaves a node broken, and how long
    the repair takes. The first interruptions, a tenth of them, only bring the repairs under way and do not count.
    """
    draws = np.random.Generator(np.random.PCG64(seed))
    count = upkeep.spare_nodes + 1
    back_s = np.zeros((num_trainings, count))  # when each of the nodes that may be broken at once is back
    now, useful, began = np.zeros((3, num_trainings))
    is_restart = np.zeros(num_trainings, bool)
    share_broken = upkeep.broken_per_s / upkeep.rate_per_s
    for number in range(num_events):
        if number == num_events // 10:
            began, useful = now.copy(), np.zeros(num_trainings)
        runs_s = draws.exponential(1.0 / upkeep.rate_per_s, num_trainings)
        works_s = np.maximum(runs_s - np.where(is_restart, upkeep.restart_s, 0.0), 0.0)
        useful += np.floor(works_s / (interval_s + upkeep.checkpoint_s)) * interval_s
        now += runs_s
        is_restart[:] = True
        now = _broken(upkeep, draws, share_broken, now, back_s)
    rates: Floats = useful / (now - began)
    return Played(useful=float(rates.mean()), error=float(rates.std(ddof=1) / np.sqrt(num_trainings)))


def _broken(upkeep: Upkeep, draws: np.random.Generator, share: float, now: Floats, back_s: Floats) -> Floats:
    """Take a spare node where an interruption leaves one broken, and wait where there is none left; the time after."""
    hit = np.flatnonzero(draws.random(len(now)) < share)
    place = back_s[hit].argmin(axis=1)  # of a node that is whole by now, or else of the first that will be
    back_s[hit, place] = now[hit] + draws.exponential(upkeep.repair_s, len(hit)) if upkeep.repair_s else now[hit]
    # The job runs again as soon as one of the nodes that may be broken at once is whole.
    later = now.copy()
    later[hit] = np.maximum(now[hit], back_s[hit].min(axis=1))
    return later
