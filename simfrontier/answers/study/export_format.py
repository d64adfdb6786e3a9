"""Formats in which simulated steps are written for other programs; extras add theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from simfrontier.core.engine import SimulatedStep
from simfrontier.inputs.scenario import Scenario


def _nothing() -> None:
    """What a format needs that asks for no library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFormat:
    """A format that `simfrontier export --format` knows, by an extra's module `export_formats`.

    `write` puts the step of a plan of that name into a folder, and returns a line that says what it wrote; `check`
    raises InputError where a library that the format needs is not installed, before anything is simulated.
    """

    name: str
    sentence: str
    write: Callable[[Scenario, str, SimulatedStep, Path], str]
    check: Callable[[], None] = _nothing
