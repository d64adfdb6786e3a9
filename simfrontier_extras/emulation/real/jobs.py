"""The jobs of an emulated run, done one after the other on the same joined ranks, while rates of cables change."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from simfrontier_extras.emulation.job_file import CHANGED, MadeChange, RateChange, ReplayJob, save_changes
from simfrontier_extras.emulation.real.fabric import set_rates, slowed
from simfrontier_real.ranks.session import Session
from simfrontier_real.ranks.world import World
from simfrontier_real.replay.replay_session import ReplaySettings, replay


def run_jobs(session: Session, jobs: tuple[ReplayJob, ...], folder: Path) -> None:
    """Do all jobs; between them every cable has the rate of the wiring."""
    for job in jobs:
        plan = ReplaySettings(
            out=folder / job.out,
            iterations=job.iterations,
            warmup=job.warmup,
            compute="wait",
            waits=folder / job.waits,
        )
        loaded = session.agreed([folder / each for each in job.schedules], job.collectives)
        session.world.barrier()  # no rank still sends for the job before
        with slowed(job.rates if session.world.rank == 0 else {}):
            session.world.barrier()
            changes = TimedChanges(session.world, job.changes)
            replay(session, loaded, plan, changes.start, changes.end)
        if changes.made:
            save_changes(changes.made, folder / job.out / CHANGED)


@dataclass
class TimedChanges:
    """One rank's part in changing the rates of cables while a step runs, at moments after its common start, and back
    when all ranks have done; rank 0 changes them. `made`: the changes that were made, in order."""

    world: World
    changes: tuple[RateChange, ...]
    made: list[MadeChange] = field(default_factory=list)
    _over: Event = field(default_factory=Event)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=1))
    _running: Future[None] | None = None

    def start(self, number: int) -> None:
        """Called by all ranks when a step begins, right after they have waited for each other."""
        if self.changes and self.world.rank == 0:
            self._over.clear()
            self._running = self._pool.submit(self._run, number, time.monotonic())

    def end(self, _: int) -> None:
        """Called by all ranks after a step: no rank still sends when cables get their rates back. Raises
        SimfrontierError where a change could not be made."""
        if not self.changes:
            return
        self.world.barrier()
        if self._running is not None:
            self._over.set()
            self._running.result()
            set_rates(dict.fromkeys((name for change in self.changes for name in change.rates), 1.0))

    def _run(self, number: int, began_s: float) -> None:
        for change in self.changes:
            if self._over.wait(max(0.0, began_s + change.at_s - time.monotonic())):
                return
            set_rates(change.rates)
            made_s = time.monotonic() - began_s
            self.made.append(MadeChange(step=number, planned_s=change.at_s, made_s=made_s, rates=change.rates))
