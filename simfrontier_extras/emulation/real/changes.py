"""Cables whose rates change while a step runs, at moments after its common start, and back when all ranks have done."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from simfrontier.errors import SimfrontierError
from simfrontier_extras.emulation.changed import MadeChange, RateChange
from simfrontier_extras.emulation.real.fabric import set_rates
from simfrontier_real.world import World


@dataclass
class TimedChanges:
    """One rank's part; rank 0 changes the rates. `made`: the changes that were made, in order."""

    world: World
    changes: tuple[RateChange, ...]
    made: list[MadeChange] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _faults: list[SimfrontierError] = field(default_factory=list)

    def start(self, number: int) -> None:
        """Called by all ranks when a step begins, right after they have waited for each other."""
        if self.changes and self.world.rank == 0:
            self._over.clear()
            self._thread = threading.Thread(target=self._run, args=(number, time.monotonic()), daemon=True)
            self._thread.start()

    def end(self, _: int) -> None:
        """Called by all ranks after a step: no rank still sends when cables get their rates back. Raises
        SimfrontierError where the fabric could not make a change."""
        if not self.changes:
            return
        self.world.barrier()
        if self._thread is not None:
            self._over.set()
            self._thread.join()
            set_rates(self._first())
            if self._faults:
                raise self._faults[0]

    def _first(self) -> Mapping[str, float]:
        return dict.fromkeys((name for change in self.changes for name in change.rates), 1.0)

    def _run(self, number: int, began_s: float) -> None:
        try:
            for change in self.changes:
                if self._over.wait(max(0.0, began_s + change.at_s - time.monotonic())):
                    return
                set_rates(change.rates)
                made_s = time.monotonic() - began_s
                self.made.append(MadeChange(step=number, planned_s=change.at_s, made_s=made_s, rates=change.rates))
        except SimfrontierError as error:
            self._faults.append(error)
