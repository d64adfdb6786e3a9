"""What a file of measured times is, by its name and its first line."""

from __future__ import annotations

from pathlib import Path

from simfrontier.limits import TABLE_FILE
from simfrontier.measured.csv_calls import COLUMNS

LEAST_COLUMNS = 3  # that a line has in common with those of a table of calls, to be taken for its head


def is_table(file: Path) -> bool:
    """Whether a file is a CSV table of calls, by its name or its first line."""
    return file.suffix == ".csv" or has_columns(file)


def has_columns(file: Path) -> bool:
    """Whether the first line of a file names columns of a table of calls."""
    cells = [cell.strip() for cell in text_of(file).lstrip().partition("\n")[0].split(",")]
    return len(set(cells) & set(COLUMNS)) >= LEAST_COLUMNS


def text_of(file: Path) -> str:
    """The text of a file; "" where it cannot be read, which its reader then reports."""
    try:
        return TABLE_FILE.read(file).decode("utf-8-sig", errors="replace")
    except (OSError, ValueError):
        return ""
