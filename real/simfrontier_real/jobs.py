"""The jobs of an emulated run, read from a file, and done one after the other on the same joined ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from simfrontier.errors import nearest
from simfrontier.limits import ITERATIONS, JSON_FILE
from simfrontier.trace.fields import Fault, list_of, mapping_of, number_of, read_json, text_of
from simfrontier_real.fabric.client import slowed
from simfrontier_real.replay_session import Replaying, replay
from simfrontier_real.session import Session

Collectives = Literal["lowered", "native"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Schedules to replay with compute replaced by the waits of the traces in `waits`, into the folder `out`: so many
    timed iterations after `warmup` others (a job before it may have warmed up the same connections); `rates` are
    factors on the rates of cables while the job runs."""

    out: Path
    schedules: tuple[Path, ...]
    waits: Path
    collectives: Collectives
    iterations: int
    warmup: int
    rates: Mapping[str, float]


def load_jobs(path: Path) -> tuple[Path, tuple[Job, ...]]:
    """(the wiring's file, the jobs); places in it count from its folder and stay below it. Raises InputError: file,
    place, fault."""
    return read_json(path, "file of jobs", partial(_document, path.parent), JSON_FILE)


def _document(folder: Path, value: object) -> tuple[Path, tuple[Job, ...]]:
    form = mapping_of(value, "the file", ("wiring", "jobs"))
    listed = enumerate(list_of(form, "jobs", "the file"))
    return _place(folder, form, "wiring", "the file"), tuple(_job(folder, job, f"jobs[{n}]") for n, job in listed)


def _job(folder: Path, value: object, place: str) -> Job:
    form = mapping_of(value, place, tuple(each.name for each in fields(Job)))
    said = text_of(form, "collectives", place)
    collectives = next((known for known in get_args(Collectives) if known == said), None)
    if collectives is None:
        raise Fault(f"{place}.collectives: got {said[:60]!r}; {nearest(said, get_args(Collectives))}")
    named = {f"schedules[{n}]": schedule for n, schedule in enumerate(list_of(form, "schedules", place))}
    rates = form["rates"]
    factors = mapping_of(rates, f"{place}.rates", tuple(rates) if isinstance(rates, dict) else ())
    return Job(
        out=_place(folder, form, "out", place),
        schedules=tuple(_place(folder, named, key, place) for key in named),
        waits=_place(folder, form, "waits", place),
        collectives=collectives,
        iterations=_whole(form, "iterations", place, 1),
        warmup=_whole(form, "warmup", place, 0),
        rates={cable: number_of(factors, cable, f"{place}.rates", 1e-6, 1.0) for cable in factors},
    )


def _whole(form: Mapping[str, object], key: str, place: str, least: int) -> int:
    value = form[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise Fault(f"{place}.{key}: got {str(value)[:60]!r}; allowed: a whole number, {least} or more")
    if fault := ITERATIONS.fault(value):
        raise Fault(f"{place}.{key}: {fault}")
    return value


def _place(folder: Path, form: Mapping[str, object], key: str, place: str) -> Path:
    """A file or folder below the file's own: also after every link on the way."""
    name = text_of(form, key, place)
    if not name or not name.isprintable():
        raise Fault(f"{place}.{key}: got {name[:60]!r}; allowed: the name of a file or folder")
    path = folder / name
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a name that is too long, links in a circle
        inside = False
    if not inside:
        raise Fault(f"{place}.{key}: got {name[:60]!r}; allowed: a place below the folder of the file of jobs")
    return path


def run_jobs(session: Session, jobs: tuple[Job, ...]) -> None:
    """Do all jobs; between them every cable is as fast as the wiring says."""
    for job in jobs:
        plan = Replaying(out=job.out, iterations=job.iterations, warmup=job.warmup, compute="wait", waits=job.waits)
        loaded = session.agreed(job.schedules, job.collectives)
        session.world.barrier()  # nobody still sends for the job before
        with slowed(job.rates if session.world.rank == 0 else {}):
            session.world.barrier()
            replay(session, loaded, plan)
