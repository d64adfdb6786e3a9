"""What was measured: rows of calls, copies and rates, readers of their files, and tables with their public source."""

from simfrontier.measured.csv_calls import read_calls
from simfrontier.measured.index import Pathology, Table, load_table, load_tables
from simfrontier.measured.read import read_any
from simfrontier.measured.rows import CallKind, CallRow, CopyRow, RateRow
from simfrontier.measured.setup import Setup

__all__ = [
    "CallKind",
    "CallRow",
    "CopyRow",
    "Pathology",
    "RateRow",
    "Setup",
    "Table",
    "load_table",
    "load_tables",
    "read_any",
    "read_calls",
]
