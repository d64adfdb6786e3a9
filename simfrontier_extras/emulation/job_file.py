"""Files exchanged by the simulating and the running process of an emulation: the jobs to run, and the rate changes that
were applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from simfrontier.base.io import Strict, read_json, typed
from simfrontier.base.wholefile import write_json

CHANGED: Final = "changes.json"  # beside the real traces


class RateChange(Strict):
    """A change of cable rates `at_s` seconds after the begin of a step, as factors on the rates of the wiring."""

    at_s: float
    rates: Mapping[str, float]


class ReplayJob(Strict):
    """Schedules to replay, with compute replaced by waits from the traces in `waits`, with results in the folder `out`:
    a number of timed iterations after `warmup` untimed ones (a previous job may have warmed up the same connections
    already). `rates`: factors on the rates of cables during the job; `changes`: rate changes within each of its steps,
    in order."""

    out: str
    schedules: tuple[str, ...]
    waits: str
    collectives: Literal["native", "lowered"]
    iterations: int
    warmup: int
    rates: Mapping[str, float]
    changes: tuple[RateChange, ...] = ()


class JobFile(Strict):
    """The file of the wiring, and the jobs; all paths are relative to the folder of the job file."""

    wiring: str
    jobs: tuple[ReplayJob, ...]


def load_jobs(path: Path) -> JobFile:
    """Read a file of jobs. Raises InputError with the file, the position in it and the fault."""
    return typed(read_json(path, "file of jobs"), JobFile, str(path))


class MadeChange(Strict):
    """A rate change that was planned for `planned_s` seconds after the begin of a step, and was complete at `made_s`;
    `step`: number of the step from 0, warm-up steps included."""

    step: int
    planned_s: float
    made_s: float
    rates: Mapping[str, float]


class _Changes(Strict):
    changes: tuple[MadeChange, ...]


def save_changes(changes: Sequence[MadeChange], path: Path) -> None:
    """Write the applied rate changes as JSON. Raises InputError if they cannot be written."""
    write_json({"changes": [change.model_dump() for change in changes]}, path)


def load_changes(path: Path) -> tuple[MadeChange, ...]:
    """Read the applied rate changes from a file. Raises InputError with the file, the position in it and the fault."""
    return typed(read_json(path, "file of changes"), _Changes, str(path)).changes
