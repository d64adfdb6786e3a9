"""Reading times of collectives from files of any known form: one reader for each form, chosen by what a file holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Never

from simfrontier.collectives import Unusable
from simfrontier.errors import InputError
from simfrontier.measured.csv_calls import COLUMNS, read_calls
from simfrontier.measured.csvfile import read_text
from simfrontier.measured.deepspeed_log import read_deepspeed_log
from simfrontier.measured.deepspeed_summary import read_deepspeed_summary
from simfrontier.measured.flight_recorder import read_flight_recorder
from simfrontier.measured.folders import files_in
from simfrontier.measured.inspector import read_inspector
from simfrontier.measured.of_tables import read_calibration, read_nccl_tests, read_trace
from simfrontier.measured.osu import read_osu
from simfrontier.measured.rccl_tests_file import read_rccl_tests
from simfrontier.measured.reading import Reading
from simfrontier.measured.recognise import Written, form_of
from simfrontier.measured.setup import Setup

ALLOWED: Final = (
    f"a CSV table ({', '.join(COLUMNS)}), output of nccl-tests, rccl-tests or OSU micro-benchmarks, logs of NCCL's "
    "Inspector or DeepSpeed's communication, dumps of PyTorch's flight recorder, a calibration (TOML), a trace of a "
    "real run (JSON)"
)


def readings(paths: Iterable[Path], setup: Setup) -> tuple[Reading, ...]:
    """The rows of several files and folders; `setup` says what the files do not say themselves.

    Files of the ranks of a job are one reading. Logs of other tests alone are left out beside others. Raises
    InputError: one line that names the file, the place, what was got and what is allowed.
    """
    done: list[Reading] = []
    unusable: list[Unusable] = []
    for form, files in _jobs(files_in(paths)):
        try:
            done.append(_OF_RANKS[form](files, setup) if form in _OF_RANKS else _OF_ONE[form](files[0], setup))
        except Unusable as error:
            unusable.append(error)
    if unusable and not done:
        raise unusable[0]
    if unusable:
        done[0] = replace(done[0], said=(*done[0].said, *(error.said for error in unusable)))
    return tuple(done)


def _jobs(files: Sequence[Path]) -> Iterable[tuple[Written, list[Path]]]:
    """The files that are read together, with their form, in the order of the first of each."""
    jobs: dict[tuple[Written, Path | None], list[Path]] = {}
    for file in files:
        form = form_of(file)
        jobs.setdefault((form, None if form in _OF_RANKS else file), []).append(file)
    return [(form, several) for (form, _), several in jobs.items()]


def _read_table(path: Path, setup: Setup) -> Reading:
    """A table of calls, whose rows say all."""
    return Reading(files=(path,), rows=read_calls(path))


def _refuse(path: Path, setup: Setup) -> Never:
    """Raise InputError for a file of no known form."""
    is_empty = not read_text(path, "table of measurements").strip()
    what = "the file is empty" if is_empty else "no measurements known here"
    raise InputError(f"{path}: {what}, allowed: {ALLOWED}")


_OF_ONE: Final[Mapping[Written, Callable[[Path, Setup], Reading]]] = {
    "osu": read_osu,
    "nccl-tests": read_nccl_tests,
    "rccl-tests-file": read_rccl_tests,
    "deepspeed-log": read_deepspeed_log,
    "deepspeed-summary": read_deepspeed_summary,
    "trace": read_trace,
    "calibration": read_calibration,
    "table": _read_table,
    "": _refuse,
}
# A file for each rank of a job, read together.
_OF_RANKS: Final[Mapping[Written, Callable[[Sequence[Path], Setup], Reading]]] = {
    "inspector": read_inspector,
    "flight-recorder": read_flight_recorder,
}
