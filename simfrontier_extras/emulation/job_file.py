"""Files between both halves of an emulated run: the jobs of the real half, and the changes of rates that it made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from simfrontier.base.io import Strict, read_json, typed
from simfrontier.base.wholefile import write_json

CHANGED: Final = "changes.json"  # beside the real traces


class RateChange(Strict):
    """`at_s` seconds after a step began, cables get these parts of the rates of the wiring."""

    at_s: float
    rates: Mapping[str, float]


class ReplayJob(Strict):
    """Schedules to replay with compute replaced by the waits of the traces in `waits`, into the folder `out`: so many
    timed iterations after `warmup` others (a job before it may have warmed up the same connections); `rates` are
    factors on the rates of cables while the job runs, `changes` those within each of its steps, in order."""

    out: str
    schedules: tuple[str, ...]
    waits: str
    collectives: Literal["native", "lowered"]
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


class MadeChange(Strict):
    """A change that was planned for `planned_s` seconds after the step began, and had been made at `made_s`; `step`
    counts all, from 0, those to warm up too."""

    step: int
    planned_s: float
    made_s: float
    rates: Mapping[str, float]


class _Changes(Strict):
    changes: tuple[MadeChange, ...]


def save_changes(changes: Sequence[MadeChange], path: Path) -> None:
    """Write the changes as JSON. Raises InputError where they cannot be written."""
    write_json({"changes": [change.model_dump() for change in changes]}, path)


def load_changes(path: Path) -> tuple[MadeChange, ...]:
    """Read the changes of a file. Raises InputError: file, place, fault."""
    return typed(read_json(path, "file of changes"), _Changes, str(path)).changes
