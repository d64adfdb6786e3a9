"""What a file of measured times is, by what stands in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

from simfrontier.io import plain_log
from simfrontier.limits import FILE
from simfrontier.measured.deepspeed_log import CALL, HEADER
from simfrontier.measured.flight_recorder import PICKLES

Written = Literal[
    "trace",
    "osu",
    "nccl-tests",
    "rccl-tests-file",
    "inspector",
    "deepspeed-log",
    "deepspeed-summary",
    "flight-recorder",
    "calibration",
    "table",
    "",
]
HEAD_BYTES: Final = 1 << 16  # in which the keys of a JSON file are looked for, and the first line of a table
_OSU: Final = re.compile(r"^#\s*OSU\s+\S+\s.*Test", re.MULTILINE)
_NCCL_TESTS: Final = re.compile(r"^#\s*(Using devices|Rank\s+\d+\s)", re.MULTILINE)
_CALIBRATION: Final = re.compile(r"^(title\s*=|\[\[calls\]\])", re.MULTILINE)
_DEEPSPEED: Final = re.compile(rf"{CALL}\S+ \| time \(ms\): |{HEADER.pattern}|{CALL}\S+ \| \[Caller Func")
_OF_RCCL_TESTS: Final = {"collective", "inplace", "busbw"}  # columns of the CSV that rccl-tests write
_OBJECTS: Final = re.compile(r"\s*(\[\s*)?\{")  # a job's log may begin with a bracket, too
# Of JSON files: what their first keys are, in the order in which they are looked for.
_JSON: Final[tuple[tuple[Written, re.Pattern[str]], ...]] = (
    ("inspector", re.compile(r'"inspector_output_format_version"\s*:')),
    ("trace", re.compile(r'"schemaVersion"\s*:')),  # of PyTorch's profiler, which the reader of traces refuses
    ("flight-recorder", re.compile(r'"(collective_seq_id|pg_config|pg_status)"\s*:')),
    ("nccl-tests", re.compile(r'\A\s*\{\s*"version"\s*:\s*\d{1,9}\s*,\s*"start_time"|"average_bus_bandwidth"\s*:')),
    ("rccl-tests-file", re.compile(r'"inPlace"\s*:')),
    ("deepspeed-summary", re.compile(r'"tput_avg_gbps"\s*:')),
)


def form_of(path: Path) -> Written:
    """What a file is; "" where it is nothing known, or cannot be read, which its reader then reports. Of its name only
    the suffix is looked at."""
    head = _head_of(path)
    if head.startswith(PICKLES):
        return "flight-recorder"
    start = _decoded(head)
    if _OBJECTS.match(start):
        named = next((form for form, key in _JSON if key.search(start)), None)
        return named or ("trace" if start.lstrip().startswith("{") else "")
    text = plain_log(_text_of(path))
    if _OSU.search(text):
        return "osu"
    if _NCCL_TESTS.search(text):
        return "nccl-tests"
    if _DEEPSPEED.search(text):
        return "deepspeed-log"
    if path.suffix == ".toml" or _CALIBRATION.search(text):
        return "calibration"
    columns = _cells(text)
    if {column.lower() for column in columns} >= _OF_RCCL_TESTS:
        return "rccl-tests-file"
    return "table" if path.suffix == ".csv" or len(columns) > 1 else ""


def columns_of(file: Path) -> set[str]:
    """The cells of a file's first line that is not empty, as of a CSV table; none where it cannot be read."""
    return _cells(_decoded(_head_of(file)))


def is_table(file: Path) -> bool:
    """Whether a file is a CSV table of calls."""
    return form_of(file) == "table"


def _cells(text: str) -> set[str]:
    return {cell.strip().strip('"') for cell in text.lstrip().partition("\n")[0].split(",")}


def _text_of(file: Path) -> str:
    """The text of a file; "" where it cannot be read, which its reader then reports."""
    try:
        return _decoded(FILE.read(file))
    except (OSError, ValueError):
        return ""


def _decoded(data: bytes) -> str:
    return data.decode("utf-8-sig", errors="replace")


def _head_of(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(HEAD_BYTES)
    except OSError:
        return b""
