"""Measurement of the bytes per cable in a number of steps: counters are read before the first and after the last step,
while no rank sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from simfrontier.core.trace import LinkBytes, LinkTable
from simfrontier_extras.emulation.real.fabric import carried_bytes, is_inside, wiring
from simfrontier_real.ranks.world import World
from simfrontier_real.replay.replay_session import MeterMaker


@dataclass
class ByteMeter:
    """A rank's part in counting bytes; rank 0 reads the counters. Steps before `first` are not counted; outside an
    emulated fabric nothing is counted."""

    world: World
    first: int
    before: Mapping[str, int] = field(default_factory=dict)

    def begin(self, number: int) -> None:
        """Called before each step."""
        if number == self.first:
            self.before = self._read() or {}

    def end(self, num_steps: int, digest: str, title: str) -> LinkTable | None:
        """Return on rank 0 in a fabric the bytes of every cable per step, the mean over `num_steps` since the first
        counted step; None on other ranks or outside a fabric."""
        after = self._read()
        if after is None:
            return None
        links = tuple(
            LinkBytes(
                name=cable.name,
                link_class=cable.link_class,
                src=cable.src,
                dst=cable.dst,
                num_bytes=(after[cable.name] - self.before[cable.name]) / num_steps,
            )
            for cable in wiring().cables
        )
        return LinkTable(digest=digest, title=title, links=links)

    def _read(self) -> Mapping[str, int] | None:
        if not is_inside():
            return None
        self.world.barrier()  # everybody has done with the step before
        now = carried_bytes() if self.world.rank == 0 else None
        self.world.barrier()
        return now


ADDS = (MeterMaker(make=ByteMeter),)
