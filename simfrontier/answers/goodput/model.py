"""The model of a long training in closed form: which share of all time is useful, and the best time between
checkpoints; and how often jobs are interrupted, by counts of published trainings (TOML files with a source).

Interruptions come at a constant rate, at any time but while the job waits for a node. Work is done in segments, each
followed by a checkpoint that holds training up; an interruption loses the segment that is under way, and takes a
restart, which may itself be interrupted and begins anew then (J. T. Daly, A higher order estimate of the optimum
checkpoint interval for restart dumps, Future Generation Computer Systems 22, 2006). Interruptions that leave a node
broken take a spare node, which is back after a repair of exponential length; with none left, the job waits until the
first is back. How often it waits is Erlang's loss formula for as many servers as there are spares, and one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Annotated, Final, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, MinLen

from simfrontier.base.arrays import Floats
from simfrontier.base.errors import InputError, nearest
from simfrontier.base.io import Line, read_toml, typed
from simfrontier.base.limits import LARGEST_S
from simfrontier.core.program import SavedBytes
from simfrontier.inputs.scenario import GoodputTable

CATALOG: Final = Path(__file__).parent / "catalog"
DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A cause of interruptions: the number of interruptions observed, and the unit with which they scale: packages (a
    GPU, an MI250X) or nodes. `broken`: whether the node must be repaired before it is used again.
    """

    name: Line
    interruptions: Annotated[float, Gt(0), Le(LARGEST_S)]
    of: Literal["package", "node"]
    broken: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Observed interruptions, by part, of a training of `days` days on `packages` packages and `nodes` nodes."""

    name: Line
    title: Line
    source: Line
    days: Annotated[float, Ge(1e-3), Le(LARGEST_S)]
    packages: Annotated[int, Ge(1)]
    nodes: Annotated[int, Ge(1)]
    parts: Annotated[tuple[Part, ...], MinLen(1)]

    def per_s(self, part: Part, num_packages: int, num_nodes: int) -> float:
        """Return the interruptions per second caused by one part, for a job on `num_packages` packages and `num_nodes`
        nodes.
        """
        there, here = (self.packages, num_packages) if part.of == "package" else (self.nodes, num_nodes)
        return part.interruptions / (self.days * DAY_S) * here / there

    def rate_per_s(self, num_packages: int, num_nodes: int, broken: bool = False) -> float:
        """Return the interruptions per second caused by all parts, or only by those that leave a node `broken`."""
        return sum(self.per_s(part, num_packages, num_nodes) for part in self.parts if part.broken or not broken)


def names_of_failures() -> tuple[str, ...]:
    """Return the names of the failure records in the catalog."""
    return tuple(sorted(path.stem for path in CATALOG.glob("*.toml")))


def load_failures(name_or_path: str, folder: Path | None = None) -> Failures:
    """Load failure records from the catalog by name, or from a TOML file by path (any text with a "/" or ".toml"),
    relative to `folder`. Raises InputError.
    """
    if "/" in name_or_path or name_or_path.endswith(".toml"):
        path = Path(name_or_path) if folder is None else folder / name_or_path
        return typed(read_toml(path, "file of failures"), Failures, str(path))
    names = names_of_failures()
    if name_or_path not in names:
        raise InputError(
            f'failures "{name_or_path}" are not in the catalog; {nearest(name_or_path, names)} '
            "(a file of your own: give its path, ending in .toml)"
        )
    path = CATALOG / f"{name_or_path}.toml"
    return typed(read_toml(path, "file of failures"), Failures, path.name)


Rule = Literal["young", "daly", "best"]
HOPELESS = 300.0  # interruptions in the time of one segment, or restart: one in exp(300) is done


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """Upkeep of a job: interruptions per second (`rate_per_s`; `broken_per_s` of them leave a node broken), seconds
    that a checkpoint blocks training, seconds of a restart including reading the last checkpoint, mean seconds of a
    repair, and number of spare nodes."""

    rate_per_s: float
    broken_per_s: float
    checkpoint_s: float
    restart_s: float
    repair_s: float
    spare_nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Shares of total time: useful steps, checkpoints, repeated work that an interruption lost, restarts, and waiting
    for a node.
    """

    useful: float
    checkpoints: float
    lost: float
    restarts: float
    waiting: float


def shares(upkeep: Upkeep, interval_s: float) -> Shares:
    """Return the shares of total time with `interval_s` seconds of work between checkpoints. Undefined for jobs that
    make no progress (`is_hopeless`).
    """
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
    """Return whether interruptions are so frequent that no segment or no restart is ever completed."""
    return upkeep.rate_per_s * max(interval_s + upkeep.checkpoint_s, upkeep.restart_s) > HOPELESS


def _waiting_shares(upkeep: Upkeep) -> Iterator[float]:
    """Yield the share of total time in which more nodes are broken than there are spares, for 0, 1, 2 … spare nodes."""
    load, blocked = upkeep.broken_per_s * upkeep.repair_s, 1.0
    for servers in count(1):
        blocked = load * blocked / (servers + load * blocked)
        yield blocked


def waiting_share(upkeep: Upkeep) -> float:
    """Return the share of total time in which more nodes are broken than the job has spares."""
    return next(islice(_waiting_shares(upkeep), upkeep.spare_nodes, None))


def spares_for(upkeep: Upkeep, share: float) -> int:
    """Return the smallest number of spare nodes with which the job waits for at most `share` of total time."""
    return next(spares for spares, waiting in enumerate(_waiting_shares(upkeep)) if waiting <= share)


def interval_of(rule: Rule, upkeep: Upkeep) -> float:
    """Return the seconds of work between checkpoints by one of three rules.

    `young`: sqrt(2 C M), where C is the time of a checkpoint and M the mean time between interruptions (J. W. Young,
    CACM 17, 1974); `daly`: Daly's higher order estimate; `best`: the interval with the largest useful share in this
    model.
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
    """Result of a Monte Carlo simulation: the useful share of total time over all trainings, and its standard error."""

    useful: float
    error: float


def play(upkeep: Upkeep, interval_s: float, num_events: int, num_trainings: int, seed: int) -> Played:
    """Simulate `num_trainings` trainings of `num_events` interruptions each (vectorised). Raises nothing.

    Between two interruptions a training first restarts, then completes whole segments of work and checkpoints; an
    unfinished segment is lost. Three things are random: when the next interruption comes, whether it leaves a node
    broken, and how long the repair takes. The first tenth of the interruptions is a warm-up for the repairs and does
    not count.
    """
    draws = np.random.Generator(np.random.PCG64(seed))
    back_s = np.zeros(
        (num_trainings, upkeep.spare_nodes + 1)
    )  # when each of the nodes that may be broken at once is back
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
    """Return the times at which trainings continue after an interruption: if it leaves a node broken, a spare node is
    used, or the training waits until a repair ends if none is left. Updates `back_s`, the repair end times.
    """
    hit = np.flatnonzero(draws.random(len(now)) < share)
    place = back_s[hit].argmin(axis=1)  # of a node that is whole by now, or else of the first that will be
    back_s[hit, place] = now[hit] + draws.exponential(upkeep.repair_s, len(hit)) if upkeep.repair_s else now[hit]
    # The job runs again as soon as one of the nodes that may be broken at once is whole.
    later = now.copy()
    later[hit] = np.maximum(now[hit], back_s[hit].min(axis=1))
    return later


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedStep:
    """A plan's step at a size: step seconds, trained tokens per step, and bytes of a checkpoint."""

    devices: int
    nodes: int
    packages: int
    step_s: float
    tokens: float
    checkpoint: SavedBytes
    fits: bool


def upkeep_of(given: GoodputTable, failures: Failures, step: SizedStep) -> Upkeep:
    """Return the upkeep of a job that runs `step` at its size."""
    return Upkeep(
        rate_per_s=failures.rate_per_s(step.packages, step.nodes),
        broken_per_s=failures.rate_per_s(step.packages, step.nodes, broken=True),
        checkpoint_s=given.held_share * step.checkpoint.total / given.write_bytes_per_s,
        restart_s=given.restart_s + read_s(given, step),
        repair_s=given.repair_s,
        spare_nodes=given.spare_nodes,
    )


def interval_steps(given: GoodputTable, upkeep: Upkeep, step: SizedStep) -> int:
    """Return the number of whole steps between two checkpoints, at least one."""
    interval_s = interval_of(given.interval, upkeep) if isinstance(given.interval, str) else given.interval
    return max(1, round(interval_s / step.step_s))


def read_s(given: GoodputTable, step: SizedStep) -> float:
    """Return the seconds to read a checkpoint from the file system."""
    return step.checkpoint.total / (given.read_bytes_per_s or given.write_bytes_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class FewerNodes:
    """Goodput of a job that continues at a smaller size when no spare node is left: that size, the shares of total time
    on all nodes and on fewer nodes, and the tokens of useful steps per second.
    """

    step: SizedStep
    all_share: float
    fewer_share: float
    tokens_per_s: float


def with_fewer(given: GoodputTable, failures: Failures, step: SizedStep, smaller: SizedStep) -> FewerNodes:
    """Return the goodput of a job that continues with fewer nodes, in closed form.

    The number of broken nodes is a birth-death chain: births are interruptions that break a node, at the rate of the
    running size; deaths are independent repairs. With at most as many broken nodes as spares all nodes run, with more
    the smaller size runs, down to its last node; then the job waits. At each size time is shared as in the model
    without waiting; returning to all nodes costs one restart, at a checkpoint, and loses no work.
    """
    spares, to_lose = given.spare_nodes, step.nodes - smaller.nodes
    upkeep = {each.devices: upkeep_of(given, failures, each) for each in (step, smaller)}
    broken = np.arange(spares + to_lose + 2)
    births = np.where(broken[:-1] <= spares, upkeep[step.devices].broken_per_s, upkeep[smaller.devices].broken_per_s)
    with np.errstate(divide="ignore"):  # without repairs no node is ever missed
        weight = np.cumsum(np.log(np.concatenate([[1.0], births * given.repair_s / broken[1:]])))  # in logarithms
    chance = np.exp(weight - weight.max())
    chance /= chance.sum()
    all_share, fewer_share = float(chance[: spares + 1].sum()), float(chance[spares + 1 : -1].sum())
    rates = {}
    for each in (step, smaller):
        own = replace(upkeep[each.devices], repair_s=0.0)  # nothing waits
        useful = shares(own, interval_steps(given, own, each) * each.step_s).useful
        rates[each.devices] = useful * each.tokens / each.step_s
    returns_per_s = chance[spares + 1] * (spares + 1) / given.repair_s if given.repair_s else 0.0
    all_share -= float(returns_per_s) * upkeep[step.devices].restart_s
    return FewerNodes(
        step=smaller,
        all_share=all_share,
        fewer_share=fewer_share,
        tokens_per_s=all_share * rates[step.devices] + fewer_share * rates[smaller.devices],
    )
