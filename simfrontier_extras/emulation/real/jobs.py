"""The jobs of an emulated run, executed one after another on the same connected ranks, while rates of cables change."""

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
    """Run all jobs; between jobs every cable has the rate of the wiring."""
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
    """A rank's part in changing cable rates during a step, at times relative to the common start of the step, and in
    restoring them when all ranks have ended the step; rank 0 applies the changes. `made`: the applied changes, in
    order."""

    world: World
    changes: tuple[RateChange, ...]
    made: list[MadeChange] = field(default_factory=list)
    _over: Event = field(default_factory=Event)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=1))
    _running: Future[None] | None = None

    def start(self, number: int) -> None:
        """Called by all ranks at the begin of a step, right after a barrier."""
        if self.changes and self.world.rank == 0:
            self._over.clear()
            self._running = self._pool.submit(self._run, number, time.monotonic())

    def end(self, _: int) -> None:
        """Called by all ranks after a step; no rank sends any more when the cables get their rates back. Raises
        SimfrontierError if a rate change failed."""
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
