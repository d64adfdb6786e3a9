"""The jobs of an emulated run, read from a file, and done one after the other on the same joined ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Le

from simfrontier.errors import InputError, Key, wrong
from simfrontier.io import Parsed, read_json, typed
from simfrontier.limits import Limit
from simfrontier_extras.emulation.changed import CHANGED, RateChange, save_changes
from simfrontier_extras.emulation.real.changes import TimedChanges
from simfrontier_extras.emulation.real.client import slowed
from simfrontier_real.cli_options import Collectives
from simfrontier_real.replay_session import ReplaySettings, replay
from simfrontier_real.session import Session

ITERATIONS = Limit(most=1_000_000, what="runs", why="of a job of an emulation, which takes a minute for some")


def _named(text: str) -> Path:
    if not text or not text.isprintable():
        raise InputError(wrong(text, "the name of a file or folder"))
    return Path(text)


File = Annotated[Path, Parsed(_named)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayJob:
    """Schedules to replay with compute replaced by the waits of the traces in `waits`, into the folder `out`: so many
    timed iterations after `warmup` others (a job before it may have warmed up the same connections); `rates` are
    factors on the rates of cables while the job runs, `changes` those within each of its steps, in order."""

    out: File
    schedules: tuple[File, ...]
    waits: File
    collectives: Collectives
    iterations: Annotated[int, Ge(1)]
    warmup: Annotated[int, Ge(0)]
    rates: Mapping[str, Annotated[float, Ge(1e-6), Le(1)]]
    changes: tuple[RateChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    wiring: File
    jobs: tuple[ReplayJob, ...]


def load_jobs(path: Path) -> tuple[Path, tuple[ReplayJob, ...]]:
    """(the wiring's file, the jobs); places in it count from its folder and stay below it. Raises InputError: file,
    place, fault."""
    form, where = typed(read_json(path, "file of jobs"), _File, str(path)), str(path)
    jobs = []
    for number, job in enumerate(form.jobs):
        at: Key = ("jobs", number)
        out = _below(path, job.out, (*at, "out"))
        waits = _below(path, job.waits, (*at, "waits"))
        listed = enumerate(job.schedules)
        schedules = tuple(_below(path, each, (*at, "schedules", place)) for place, each in listed)
        for key in ("iterations", "warmup"):
            if fault := ITERATIONS.fault(getattr(job, key)):
                raise InputError(fault, where=where, key=(*at, key))
        jobs.append(replace(job, out=out, schedules=schedules, waits=waits))
    return _below(path, form.wiring, ("wiring",)), tuple(jobs)


def _below(path: Path, name: Path, key: Key) -> Path:
    """A file or folder below the file's own: also after every link on the way."""
    folder = path.parent
    try:
        inside = (folder / name).resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a name that is too long, links in a circle
        inside = False
    if not inside:
        text = wrong(str(name), "a place below the folder of the file of jobs")
        raise InputError(text, where=str(path), key=key)
    return folder / name


def run_jobs(session: Session, jobs: tuple[ReplayJob, ...]) -> None:
    """Do all jobs; between them every cable has the rate of the wiring."""
    for job in jobs:
        plan = ReplaySettings(
            out=job.out, iterations=job.iterations, warmup=job.warmup, compute="wait", waits=job.waits
        )
        loaded = session.agreed(job.schedules, job.collectives)
        session.world.barrier()  # no rank still sends for the job before
        with slowed(job.rates if session.world.rank == 0 else {}):
            session.world.barrier()
            changes = TimedChanges(session.world, job.changes)
            replay(session, loaded, plan, changes.start, changes.end)
        if changes.made:
            save_changes(changes.made, job.out / CHANGED)
