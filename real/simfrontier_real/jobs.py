"""The jobs of an emulated run, read from a file, and done one after the other on the same joined ranks."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from simfrontier.errors import InputError, nearest
from simfrontier_real.fabric.client import slowed
from simfrontier_real.replay_session import Replaying, replay
from simfrontier_real.session import Session

Collectives = Literal["lowered", "native"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Schedules to replay with compute replaced by the waits of the traces in `waits`, into the folder `out`; `rates`
    are factors on the rates of cables while the job runs."""

    out: Path
    schedules: tuple[Path, ...]
    waits: Path
    collectives: Collectives
    iterations: int
    rates: Mapping[str, float]


def load_jobs(path: Path) -> tuple[Path, tuple[Job, ...]]:
    """(the wiring's file, the jobs); places in the file count from its folder. Raises InputError, one line."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        wiring, jobs = document["wiring"], document["jobs"]
        return path.parent / wiring, tuple(_job(path.parent, job) for job in jobs)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; allowed: jobs of simfrontier emulate") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        said = f"{type(error).__name__}: {error}"
        raise InputError(f"{path}: is no file of jobs ({said}); allowed: jobs of simfrontier emulate") from None


def _job(folder: Path, form: Mapping[str, Any]) -> Job:
    collectives = form["collectives"]
    if collectives not in get_args(Collectives):
        raise ValueError(f"collectives: got {collectives!r}; {nearest(str(collectives), get_args(Collectives))}")
    rates = {str(cable): float(factor) for cable, factor in form["rates"].items()}
    if not all(0.0 < factor <= 1.0 and math.isfinite(factor) for factor in rates.values()):
        raise ValueError(f"rates: got {rates}; allowed: factors greater than 0, at most 1")
    iterations = form["iterations"]
    if not isinstance(iterations, int) or iterations < 1:
        raise ValueError(f"iterations: got {iterations!r}; allowed: 1 or more")
    return Job(
        out=folder / form["out"],
        schedules=tuple(folder / schedule for schedule in form["schedules"]),
        waits=folder / form["waits"],
        collectives=collectives,
        iterations=iterations,
        rates=rates,
    )


def run_jobs(session: Session, jobs: tuple[Job, ...]) -> None:
    """Do all jobs; between them every cable is as fast as the wiring says."""
    for job in jobs:
        plan = Replaying(out=job.out, iterations=job.iterations, warmup=1, compute="wait", waits=job.waits)
        loaded = session.agreed(job.schedules, job.collectives)
        session.world.barrier()  # nobody still sends for the job before
        with slowed(job.rates if session.world.rank == 0 else {}):
            session.world.barrier()
            replay(session, loaded, plan)
