"""Reading times of collectives from any file that has them: what it is, is decided by what stands in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

from simfrontier.errors import InputError
from simfrontier.measured.csv_calls import COLUMNS, read_calls
from simfrontier.measured.csvfile import read_text
from simfrontier.measured.of_tables import read_calibration, read_nccl_tests, read_trace
from simfrontier.measured.osu import read_osu
from simfrontier.measured.rows import CallRow
from simfrontier.measured.setup import Setup

Written = Literal["trace", "osu", "nccl-tests", "calibration", "table", ""]
_OSU: Final = re.compile(r"^#\s*OSU\s+\S+\s.*Test", re.MULTILINE)
_NCCL_TESTS: Final = re.compile(r"^#\s*(Using devices|Rank\s+\d+\s)", re.MULTILINE)
_CALIBRATION: Final = re.compile(r"^(title\s*=|\[\[calls\]\])", re.MULTILINE)
ALLOWED: Final = (
    f"a CSV table ({', '.join(COLUMNS)}), output of nccl-tests, rccl-tests or OSU micro-benchmarks, "
    "a calibration (TOML), a trace of a real run (JSON)"
)


def read_any(path: Path, setup: Setup) -> tuple[CallRow, ...]:
    """The measured times in a file of any form that is known; `setup` says what the file does not say itself.

    Raises InputError: one line that names the file, the place, what was got and what is allowed.
    """
    # Logs of jobs may hold any byte: only what is known to be another form has to be UTF-8.
    text = read_text(path, "table of measurements", errors="replace")
    if not text.strip():
        raise InputError(f"{path}: the file is empty, allowed: {ALLOWED}")
    match form_of(path, text):
        case "trace":
            return read_trace(path, setup)
        case "osu":
            return read_osu(path, setup)
        case "nccl-tests":
            return read_nccl_tests(path, setup)
        case "calibration":
            return read_calibration(path, setup)
        case "table":
            return read_calls(path)
    read_text(path, "table of measurements")
    raise InputError(f"{path}: no measurements known here, allowed: {ALLOWED}")


def form_of(path: Path, text: str) -> Written:
    """What a file with that text is; "" where it is nothing known. Of its name only the suffix is looked at."""
    if text.lstrip().startswith("{"):
        return "trace"
    if _OSU.search(text):
        return "osu"
    if _NCCL_TESTS.search(text):
        return "nccl-tests"
    if path.suffix == ".toml" or _CALIBRATION.search(text):
        return "calibration"
    first = next(iter(text.lstrip().splitlines()), "")
    return "table" if path.suffix == ".csv" or "," in first else ""
