"""The model of a long training in closed form: which share of all time is useful, and the best time between
checkpoints.

Interruptions come at a constant rate, at any time but while the job waits for a node. Work is done in segments, each
followed by a checkpoint that holds training up; an interruption loses the segment that is under way, and takes a
restart, which may itself be interrupted and begins anew then (J. T. Daly, A higher order estimate of the optimum
checkpoint interval for restart dumps, Future Generation Computer Systems 22, 2006). Interruptions that leave a node
broken take a spare node, which is back after a repair of exponential length; with none left, the job waits until the
first is back. How often it waits is Erlang's loss formula for as many servers as there are spares, and one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from simfrontier.base.arrays import Floats

Rule = Literal["young", "daly", "best"]
HOPELESS = 300.0  # interruptions in the time of one segment, or restart: one in exp(300) is done


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What a job's upkeep takes: interruptions per second (`rate_per_s`; `broken_per_s` of them leave a node broken),
    the seconds for which a checkpoint holds training up, those of a restart with reading the last one, the mean of a
    repair, and the number of spare nodes."""

    rate_per_s: float
    broken_per_s: float
    checkpoint_s: float
    restart_s: float
    repair_s: float
    spare_nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Where all time goes, in shares of it: useful steps, checkpoints, work that is lost and done again, restarts, and
    waiting for a node."""

    useful: float
    checkpoints: float
    lost: float
    restarts: float
    waiting: float


def shares(upkeep: Upkeep, interval_s: float) -> Shares:
    """Where time goes with so many seconds of work between checkpoints; `is_hopeless` upkeeps have no shares."""
    rate, segment_s = upkeep.rate_per_s, interval_s + upkeep.checkpoint_s
    waiting = waiting_share(upkeep)
    # Interruptions per segment that is done, while it is worked on: each begins a restart that takes `restarting_s`.
    running = 1.0 - waiting
    failed = math.expm1(rate * segment_s)
    restarting_s = math.expm1(rate * upkeep.restart_s) / rate
    whole_s = failed * (1.0 / rate + restarting_s)
    return Shares(
        useful=running * interval_s / whole_s,
        checkpoints=running * upkeep.checkpoint_s / whole_s,
        lost=running * (failed / rate - segment_s) / whole_s,
        restarts=running * failed * restarting_s / whole_s,
        waiting=waiting,
    )


def is_hopeless(upkeep: Upkeep, interval_s: float) -> bool:
    """Whether a job is always interrupted before a segment or a restart is done."""
    return upkeep.rate_per_s * max(interval_s + upkeep.checkpoint_s, upkeep.restart_s) > HOPELESS


def waiting_share(upkeep: Upkeep) -> float:
    """The share of all time in which more nodes are broken than there were spares."""
    load = upkeep.broken_per_s * upkeep.repair_s
    blocked = 1.0
    for servers in range(1, upkeep.spare_nodes + 2):
        blocked = load * blocked / (servers + load * blocked)
    return blocked


def spares_for(upkeep: Upkeep, share: float) -> int:
    """The fewest spare nodes with which the job waits for at most that share of all time."""
    load, blocked, servers = upkeep.broken_per_s * upkeep.repair_s, 1.0, 0
    while blocked > share or servers == 0:
        servers += 1
        blocked = load * blocked / (servers + load * blocked)
    return servers - 1


def interval_of(rule: Rule, upkeep: Upkeep) -> float:
    """Seconds of work between checkpoints by a rule.

    `young`: sqrt(2 C M), of the checkpoint's seconds and the mean time between interruptions (J. W. Young, CACM 17,
    1974); `daly`: his higher order estimate; `best`: where the useful share of the model is largest.
    """
    mean_s, cost_s = 1.0 / upkeep.rate_per_s, upkeep.checkpoint_s
    if rule == "young":
        return math.sqrt(2.0 * cost_s * mean_s)
    if rule == "daly":
        if cost_s >= 2.0 * mean_s:
            return mean_s
        ratio = cost_s / (2.0 * mean_s)
        return math.sqrt(2.0 * cost_s * mean_s) * (1.0 + math.sqrt(ratio) / 3.0 + ratio / 9.0) - cost_s
    from scipy.optimize import brentq

    # d/dt of t / (exp((t + C) / M) - 1) is 0 where log(1 - t / M) + (t + C) / M = 0, with t between 0 and M.
    def slope(share: float) -> float:
        return math.log1p(-share) + share + cost_s / mean_s

    almost_one = math.nextafter(1.0, 0.0)
    if slope(almost_one) >= 0.0:
        return mean_s
    return mean_s * float(brentq(slope, 0.0, almost_one, xtol=1e-300))


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
