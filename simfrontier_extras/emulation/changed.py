"""Changes of cables' rates within a step, as planned and as they were made; the file of those that were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from simfrontier.base.io import Strict, read_json, typed
from simfrontier.base.wholefile import write_json

CHANGED: Final = "changes.json"  # beside the real traces


class RateChange(Strict):
    """`at_s` seconds after a step began, cables get these parts of the rates of the wiring."""

    at_s: float
    rates: Mapping[str, float]


class MadeChange(Strict):
    """A change that was planned for `planned_s` seconds after the step began, and had been made at `made_s`; `step`
    counts all, from 0, those to warm up too."""

    step: int
    planned_s: float
    made_s: float
    rates: Mapping[str, float]


class _File(Strict):
    changes: tuple[MadeChange, ...]


def save_changes(changes: Sequence[MadeChange], path: Path) -> None:
    """Write the changes as JSON. Raises InputError where they cannot be written."""
    write_json({"changes": [change.model_dump() for change in changes]}, path)


def load_changes(path: Path) -> tuple[MadeChange, ...]:
    """Read the changes of a file. Raises InputError: file, place, fault."""
    return typed(read_json(path, "file of changes"), _File, str(path)).changes
