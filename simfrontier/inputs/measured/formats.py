"""Registry of the file formats of measured times, and reading of files in any of these formats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from simfrontier.base.errors import InputError
from simfrontier.base.io import reading
from simfrontier.inputs.measured import (
    deepspeed,
    flight_recorder,
    inspector,
    nccl_tests,
    osu,
    rccl_tests_file,
    stored,
    tables,
)
from simfrontier.inputs.measured.reading import FileStart, Format, Reading, Setup, Unusable

# In the order in which they are tried: the first that recognises a file reads it.
FORMATS: Final[tuple[Format, ...]] = (
    flight_recorder.FORMAT,
    inspector.FORMAT,
    nccl_tests.JSON,
    deepspeed.SUMMARY,
    rccl_tests_file.FORMAT,
    osu.FORMAT,
    nccl_tests.LOG,
    deepspeed.LOG,
    stored.CALIBRATION,
    tables.FORMAT,
    stored.TRACE,
)


def format_of(path: Path) -> Format | None:
    """Return the format of a file, recognised from its content; None if unknown. Raises InputError if the file cannot
    be read."""
    start = FileStart(path)
    return next((each for each in FORMATS if each.recognises(start)), None)


def is_table(path: Path) -> bool:
    """Return whether a file is a CSV table of collective times. Raises InputError if the file cannot be read."""
    return format_of(path) is tables.FORMAT


def readings(paths: Iterable[Path], setup: Setup) -> tuple[Reading, ...]:
    """Return the readings of files, and of all files in folders; `setup` supplies facts that the files do not contain.
    The files of the ranks of one job become one reading. Files without usable times are left out if other files have
    some. Raises InputError."""
    done: list[Reading] = []
    unusable: list[Unusable] = []
    for form, files in _jobs(files_in(paths)):
        try:
            done.append(form.read(files, setup))
        except Unusable as error:
            unusable.append(error)
    if unusable and not done:
        raise unusable[0]
    if unusable:
        done[0] = replace(done[0], said=(*done[0].said, *(error.said for error in unusable)))
    return tuple(done)


def files_in(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the files, without duplicates; each folder is replaced by its files that are not hidden. Raises
    InputError."""
    files: dict[Path, None] = {}
    for path in paths:
        files |= dict.fromkeys(_of_folder(path) if path.is_dir() else [path])
    return tuple(files)


def _of_folder(folder: Path) -> list[Path]:
    with reading(folder, "folder"):
        inside = sorted(path for path in folder.iterdir() if not path.name.startswith(".") and path.is_file())
    if not inside:
        raise InputError("no files in this folder, allowed: a file, or a folder with files", where=str(folder))
    return inside


def _jobs(files: Sequence[Path]) -> Iterable[tuple[Format, list[Path]]]:
    """Return the groups of files that are read together, each with its format, in the order of each group's first
    file."""
    jobs: dict[tuple[str, Path | None], tuple[Format, list[Path]]] = {}
    for file in files:
        form = format_of(file)
        if form is None:
            titles = ", ".join(each.title for each in FORMATS)
            raise InputError(f"no measurements known here, allowed: {titles}", where=str(file))
        jobs.setdefault((form.name, None if form.per_rank else file), (form, []))[1].append(file)
    return jobs.values()
