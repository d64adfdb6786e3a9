"""Elastic restart: a job that goes on with fewer nodes where no spare one is left, until one is back."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simfrontier.answers.goodput.failures import Failures
from simfrontier.answers.goodput.model import Upkeep, interval_of, shares
from simfrontier.core.program import SavedBytes
from simfrontier.inputs.scenario import GoodputTable


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedStep:
    """A plan's step at a size: its seconds, the tokens that it trains on, and what a checkpoint holds."""

    devices: int
    nodes: int
    packages: int
    step_s: float
    tokens: float
    checkpoint: SavedBytes
    fits: bool


def upkeep_of(given: GoodputTable, failures: Failures, step: SizedStep) -> Upkeep:
    """What upkeep takes of a job of that size."""
    return Upkeep(
        rate_per_s=failures.rate_per_s(step.packages, step.nodes),
        broken_per_s=failures.rate_per_s(step.packages, step.nodes, broken=True),
        checkpoint_s=given.held_share * step.checkpoint.total / given.write_bytes_per_s,
        restart_s=given.restart_s + read_s(given, step),
        repair_s=given.repair_s,
        spare_nodes=given.spare_nodes,
    )


def interval_steps(given: GoodputTable, upkeep: Upkeep, step: SizedStep) -> int:
    """Whole steps between two checkpoints, one at least."""
    interval_s = interval_of(given.interval, upkeep) if isinstance(given.interval, str) else given.interval
    return max(1, round(interval_s / step.step_s))


def read_s(given: GoodputTable, step: SizedStep) -> float:
    """Seconds in which the file system gives a checkpoint back."""
    return step.checkpoint.total / (given.read_bytes_per_s or given.write_bytes_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class FewerNodes:
    """The smaller size that a job goes on with, the shares of all time that it runs on all nodes and on fewer, and the
    tokens of useful steps per second."""

    step: SizedStep
    all_share: float
    fewer_share: float
    tokens_per_s: float


def with_fewer(given: GoodputTable, failures: Failures, step: SizedStep, smaller: SizedStep) -> FewerNodes:
    """What a job yields that goes on with fewer nodes, in closed form.

    Broken nodes come and go as in a chain of births (interruptions that break a node, at the rate of the size that
    runs) and deaths (each repair by itself). With up to as many as there are spares all nodes run, with more the
    smaller size does, down to its last node; then the job waits. At each size time goes as in the model without
    waiting; going back to all nodes costs a restart at a checkpoint, and loses no work.
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
