"""Meters of timed steps: what extras count while a schedule is replayed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from simfrontier.base.extras import added
from simfrontier.core.trace import LinkTable
from simfrontier_real.ranks.world import World


class StepMeter(Protocol):
    """One rank's part in counting the bytes of links; all ranks call both."""

    def begin(self, number: int) -> None:
        """Called before each step."""

    def end(self, num_steps: int, digest: str, title: str) -> LinkTable | None:
        """The bytes of every link in a timed step, the mean over so many, on rank 0; None where nothing is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterMaker:
    """`make` takes the world and the number of the first step that counts; extras add these by `real/meters.py`."""

    make: Callable[[World, int], StepMeter]


def meters_of(world: World, first: int) -> tuple[StepMeter, ...]:
    return tuple(maker.make(world, first) for maker in added("real.meters", MeterMaker))
