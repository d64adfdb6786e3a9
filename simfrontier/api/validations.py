"""Validation of a user's files, with what looks odd about them in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from simfrontier.accuracy import Validation, unknown_programs, validate_files as validated_files, wrong_units
from simfrontier.measured import Setup
from simfrontier.report import said


def validate_files(paths: Sequence[Path], setup: Setup, harness: str | None) -> Validation:
    """As `accuracy.validate_files`; its notes also say where times look like those of another unit, or may hold the own
    time of a program that is not named."""
    done = validated_files(paths, setup, harness)
    unknown = unknown_programs(done) if harness is None else None
    return replace(done, notes=(*done.notes, *said("validate", "notes", wrong_units(done), unknown)))
