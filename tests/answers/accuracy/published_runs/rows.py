"""Rows of tables of training runs, for tests."""

from __future__ import annotations

from functools import cache

from simfrontier.answers.accuracy import RunsValidation, written_runs
from simfrontier.answers.accuracy.published_runs.table import COLUMNS, Run

USUAL = {
    "machine": "a100-80-800g",
    "system": "Megatron-LM",
    "model_shape": "GPT 7.5B L=36 h=4096 a=32 v=51200",
    "plan": "tp 4 pp 1 dp 2",
    "devices": "8",
    "batch": "32",
    "seq": "2048",
    "micro_batch": "4",
    "checkpointing": "full",
    "precision": "fp16",
    "value": "1",
    "unit": "s/iteration",
    "notes": "",
}


def run(**cells: str) -> Run:
    """A run with these cells, and usual ones where nothing is said."""
    whole = {**dict.fromkeys((*COLUMNS, "status", "machine_as_told", "source", "metric"), ""), **USUAL, **cells}
    return Run(number=0, where="a table line 2", value=float(whole["value"]), cells=whole)


@cache
def written() -> RunsValidation:
    """The shipped runs with the left-out predictions of their table."""
    return written_runs()
