"""A plan's step at a size, and what the upkeep of a job of that size takes."""

from __future__ import annotations

from dataclasses import dataclass

from simfrontier.answers.goodput.failures import Failures
from simfrontier.answers.goodput.model import Upkeep, interval_of
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
