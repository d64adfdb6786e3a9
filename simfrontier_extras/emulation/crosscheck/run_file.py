"""The file of an emulated run, beside its real traces: collectives measured alone, and effects of a slowed link."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from simfrontier.base.io import Strict, read_json, typed
from simfrontier.base.wholefile import write_json
from simfrontier_extras.emulation.crosscheck.slowed import SlowLinkEffect
from simfrontier_extras.emulation.crosscheck.sweep import SweepPoint

EMULATED: Final = "emulated.json"


class EmulatedRun(Strict):
    """`sweep`: collectives measured alone; `slowed`: effects of a slowed link."""

    sweep: tuple[SweepPoint, ...] = ()
    slowed: tuple[SlowLinkEffect, ...] = ()


def save_run(run: EmulatedRun, path: Path) -> None:
    """Write the file. Raises InputError where it cannot be written."""
    write_json(run.model_dump(), path)


def load_run(path: Path) -> EmulatedRun:
    """Read the file. Raises InputError: file, place, fault."""
    return typed(read_json(path, "file of an emulated run"), EmulatedRun, str(path))
