"""Changes of cables' rates within a step, as planned and as they were made; the file of those that were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

from annotated_types import Ge, Le

from simfrontier.io import read_json, typed
from simfrontier.wholefile import write_json

CHANGED: Final = "changes.json"  # beside the real traces
Seconds = Annotated[float, Ge(0), Le(1e9)]
Factor = Annotated[float, Ge(0), Le(1e6)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateChange:
    """`at_s` seconds after a step began, cables get these parts of the rates that they were laid with."""

    at_s: Seconds
    rates: Mapping[str, Factor]


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeChange:
    """A change that was planned for `planned_s` seconds after the step began, and had been made at `made_s`; `step`
    counts all, from 0, those to warm up too."""

    step: Annotated[int, Ge(0)]
    planned_s: Seconds
    made_s: Seconds
    rates: Mapping[str, Factor]


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    changes: tuple[MadeChange, ...]


def save_changes(changes: Sequence[MadeChange], path: Path) -> None:
    """Write them as JSON, whole or not at all. Raises InputError where it cannot be written."""
    write_json({"changes": [asdict(change) for change in changes]}, path)


def load_changes(path: Path) -> tuple[MadeChange, ...]:
    """Those of a file that `save_changes` wrote. Raises InputError: file, place, fault."""
    return typed(read_json(path, "file of changes"), _File, str(path)).changes
