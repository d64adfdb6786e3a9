"""The jobs of an emulated run, read from a file, and done one after the other on the same joined ranks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from simfrontier.base.io import Strict, read_json, typed
from simfrontier_extras.emulation.changed import CHANGED, RateChange, save_changes
from simfrontier_extras.emulation.real.changes import TimedChanges
from simfrontier_extras.emulation.real.fabric import slowed
from simfrontier_real.options import Collectives
from simfrontier_real.ranks.session import Session
from simfrontier_real.replay.replay_session import ReplaySettings, replay


class ReplayJob(Strict):
    """Schedules to replay with compute replaced by the waits of the traces in `waits`, into the folder `out`: so many
    timed iterations after `warmup` others (a job before it may have warmed up the same connections); `rates` are
    factors on the rates of cables while the job runs, `changes` those within each of its steps, in order."""

    out: str
    schedules: tuple[str, ...]
    waits: str
    collectives: Collectives
    iterations: int
    warmup: int
    rates: Mapping[str, float]
    changes: tuple[RateChange, ...] = ()


class JobFile(Strict):
    """The wiring's file and the jobs; all places count from the folder of the file."""

    wiring: str
    jobs: tuple[ReplayJob, ...]


def load_jobs(path: Path) -> JobFile:
    """Read a file of jobs. Raises InputError: file, place, fault."""
    return typed(read_json(path, "file of jobs"), JobFile, str(path))


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
