"""Elastic restart: a job that goes on with fewer nodes where no spare one is left, until one is back."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simfrontier.answers.goodput.failures import Failures
from simfrontier.answers.goodput.model import shares
from simfrontier.answers.goodput.sized import SizedStep, interval_steps, upkeep_of
from simfrontier.inputs.scenario import GoodputTable


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
