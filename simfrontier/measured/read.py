"""Reading times of collectives from any files that have them: what each is, is decided by what stands in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from simfrontier.collectives import Unusable
from simfrontier.errors import InputError
from simfrontier.io import log_text
from simfrontier.measured.calls_of_ranks import CallsOfRanks
from simfrontier.measured.csv_calls import COLUMNS, read_calls, refuse_too_few
from simfrontier.measured.csvfile import read_text
from simfrontier.measured.deepspeed_log import read_deepspeed_log
from simfrontier.measured.deepspeed_summary import read_deepspeed_summary
from simfrontier.measured.flight_recorder import read_flight_recorder
from simfrontier.measured.folders import files_in
from simfrontier.measured.inspector import read_inspector
from simfrontier.measured.of_tables import read_calibration, read_nccl_tests, read_trace
from simfrontier.measured.osu import read_osu
from simfrontier.measured.rccl_tests_file import read_rccl_tests
from simfrontier.measured.recognise import Written, form_of
from simfrontier.measured.rows import CallRow
from simfrontier.measured.setup import Setup
from simfrontier.records import dataclass

ALLOWED: Final = (
    f"a CSV table ({', '.join(COLUMNS)}), output of nccl-tests, rccl-tests or OSU micro-benchmarks, logs of NCCL's "
    "Inspector or DeepSpeed's communication, dumps of PyTorch's flight recorder, a calibration (TOML), a trace of a "
    "real run (JSON)"
)
OF_RANKS: Final[tuple[Written, ...]] = ("inspector", "flight-recorder")  # a file for each rank: read together


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The rows of a file, or of the files of all ranks of a job. `path`: the (first) file; `name`: what messages call
    it; `said`: what of it is no row."""

    path: Path
    name: str
    rows: tuple[CallRow, ...]
    said: tuple[str, ...] = ()


def read_any(path: Path, setup: Setup) -> tuple[CallRow, ...]:
    """The measured times in a file, or a folder of files, of any form that is known; `setup` says what the files do not
    say themselves.

    Raises InputError: one line that names the file, the place, what was got and what is allowed.
    """
    return tuple(row for reading in readings([path], setup) for row in reading.rows)


def readings(paths: Iterable[Path], setup: Setup) -> tuple[Reading, ...]:
    """The same of several files and folders; files of the ranks of a job are one reading. Logs of other tests alone are
    left out beside others. Raises InputError."""
    files = [(file, form_of(file)) for file in files_in(paths)]
    done: list[Reading] = []
    together: set[Written] = set()
    unusable: list[Unusable] = []
    for file, form in files:
        if form not in OF_RANKS:
            try:
                done.append(_one(file, form, setup))
            except Unusable as error:
                unusable.append(error)
        elif form not in together:
            together.add(form)
            done.append(_of_ranks(form, [each for each, its in files if its == form], setup))
    if not unusable:
        return tuple(done)
    if not done:
        raise unusable[0]
    first = replace(done[0], said=(*done[0].said, *(error.said for error in unusable)))
    return first, *done[1:]


def _of_ranks(form: Written, files: Sequence[Path], setup: Setup) -> Reading:
    calls = read_inspector(files) if form == "inspector" else read_flight_recorder(files, setup)
    name = str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1:,} more"
    reading = _of_calls(files[0], name, calls, setup)
    return replace(reading, said=(*reading.said, *_missing_ranks(len(files), reading.rows)))


def _missing_ranks(num_files: int, rows: Sequence[CallRow]) -> tuple[str, ...]:
    """What is to be said where there are fewer files than a group has ranks."""
    largest = max((row.devices for row in rows), default=0)
    if num_files >= largest:
        return ()
    count = "a file of 1 rank" if num_files == 1 else f"files of {num_files:,} ranks"
    return (
        f"Read: {count}, of groups of up to {largest:,}: where the rank that came last is missing, times hold waiting.",
    )


def _one(path: Path, form: Written, setup: Setup) -> Reading:
    """A file that is read alone."""
    match form:
        case "osu":
            return _reading(path, str(path), *read_osu(path, setup))
        case "nccl-tests":
            return _reading(path, str(path), *read_nccl_tests(path, setup))
        case "rccl-tests-file":
            return _of_calls(path, str(path), read_rccl_tests(path, setup), setup)
        case "deepspeed-log":
            return _of_calls(path, str(path), read_deepspeed_log(path, setup), setup)
        case "deepspeed-summary":
            return _of_calls(path, str(path), read_deepspeed_summary(path, setup), setup)
    return Reading(path=path, name=str(path), rows=_rows(path, form, setup))


def _of_calls(path: Path, name: str, calls: CallsOfRanks, setup: Setup) -> Reading:
    return _reading(path, name, calls.rows(name, setup), calls.said())


def _reading(path: Path, name: str, rows: tuple[CallRow, ...], said: tuple[str, ...]) -> Reading:
    """A file with what is left out of it. Raises InputError where too little is left."""
    try:
        refuse_too_few(rows, name)
    except InputError as error:
        raise InputError(" ".join([f"{error}.", *said]).removesuffix(".")) from None if said else error
    return Reading(path=path, name=name, rows=rows, said=said)


def _rows(path: Path, form: Written, setup: Setup) -> tuple[CallRow, ...]:
    # Logs of jobs may hold any byte: only what is known to be another form has to be UTF-8.
    if form in ("table", "calibration", "") and not log_text(path, "table of measurements").strip():
        raise InputError(f"{path}: the file is empty, allowed: {ALLOWED}")
    match form:
        case "trace":
            return read_trace(path, setup)
        case "calibration":
            return read_calibration(path, setup)
        case "table":
            return read_calls(path)
    read_text(path, "table of measurements")
    raise InputError(f"{path}: no measurements known here, allowed: {ALLOWED}")
