"""The shipped tables of Perlmutter and Frontier, written as each program would write them, are the same tables again:
through the readers, through `calibrate` and through `validate`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pytest

from simfrontier.answers.accuracy.call_tables import table_of
from simfrontier.core.collectives import merged
from simfrontier.inputs.measured import CallRow, Reading, Setup, readings
from tests.inputs.measured import writers
from tests.inputs.measured.tables import shipped

FLOAT64 = 2.0**-51  # of seconds as milliseconds and back
FLOAT32 = 2.0**-24  # half a unit of the last binary place: `duration_ms` is a float of 32 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How a format is written, by which part its times may be off, and which options say what it does not."""

    write: writers.Write
    off: float = 0.0
    options: tuple[str, ...] = ("library",)


NODES = ("library", "nodes")
GROUP = ("library", "devices", "nodes")
FORMS = {
    "nccl-text": Form(write=writers.nccl_text),
    "nccl-json": Form(write=writers.nccl_json),
    "rccl-json": Form(write=writers.rccl_json, options=NODES),
    "rccl-csv": Form(write=writers.rccl_csv, options=NODES),
    "osu": Form(write=writers.osu, options=GROUP),
    "inspector": Form(write=writers.inspector),
    "flight-pickle": Form(write=writers.flight_pickles, off=FLOAT32, options=NODES),
    "flight-json": Form(write=writers.flight_jsons, off=FLOAT32, options=NODES),
    "deepspeed-dict": Form(write=writers.deepspeed_dict, off=FLOAT64, options=NODES),
}
ROUNDED = {
    "deepspeed-lines": Form(write=writers.deepspeed_lines, options=GROUP),
    "deepspeed-table": Form(write=writers.deepspeed_table, options=GROUP),
}
PER_NODE = {"perlmutter": 4, "frontier": 8}
TABLES = ("nccl_perlmutter", "rccl_frontier")


def jobs(name: str) -> Iterator[list[CallRow]]:
    """The rows of a shipped table by source and number of devices: what one job has measured."""

    def job(row: CallRow) -> tuple[str, int]:
        return row.source, row.devices

    for _, rows in groupby(sorted(shipped(name, CallRow), key=job), key=job):
        yield list(rows)


def setup_of(form: Form, row: CallRow) -> Setup:
    nodes = row.devices // PER_NODE[row.machine]
    known = {"library": row.library, "devices": row.devices, "nodes": nodes}
    return Setup(machine=row.machine, **{name: known[name] for name in form.options})  # type: ignore[arg-type]


def read_back(form: Form, rows: Sequence[CallRow], folder: Path) -> tuple[Reading, ...]:
    folder.mkdir()
    return readings(form.write(rows, PER_NODE[rows[0].machine], folder), setup_of(form, rows[0]))


def facts(row: CallRow) -> tuple[str, str, str, int, int]:
    return row.machine, row.collective, row.library, row.devices, row.num_bytes


def pairs(read: Sequence[Reading], rows: Sequence[CallRow]) -> list[tuple[CallRow, CallRow]]:
    """Each row beside the one that it was; there are no others."""
    back = sorted((row for reading in read for row in reading.rows), key=facts)
    assert [facts(row) for row in back] == [facts(row) for row in sorted(rows, key=facts)]
    return list(zip(back, sorted(rows, key=facts), strict=True))


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", FORMS)
def test_a_shipped_table_is_the_same_through_every_reader(name: str, table: str, tmp_path: Path) -> None:
    form, count = FORMS[name], 0
    for number, rows in enumerate(jobs(table)):
        read = read_back(form, rows, tmp_path / str(number))
        for back, row in pairs(read, rows):
            assert back.seconds == (pytest.approx(row.seconds, rel=form.off, abs=0.0) if form.off else row.seconds)
            count += 1
        if form.off == 0.0:  # nodes and packages, too
            again = [row for reading in read for row in reading.rows]
            assert set(merged(map(table_of, again))) == set(merged(map(table_of, rows)))
    assert count == len(shipped(table, CallRow)) > 80


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", ROUNDED)
def test_a_shipped_table_is_the_same_within_what_deepspeed_prints(name: str, table: str, tmp_path: Path) -> None:
    """A message of 2^k bytes is exact as it is printed. Its time comes out of the rate, of which half of 0.01 Gbit/s is
    lost, and, where the size is not of bytes, half of 0.01 of the unit; it is never worse than half of 0.01 ms."""
    worst, worst_printed, count = 0.0, 0.0, 0
    for number, rows in enumerate(jobs(table)):
        for back, row in pairs(read_back(ROUNDED[name], rows, tmp_path / str(number)), rows):
            rate, _ = writers.rates(row)
            value, unit = writers.converted(writers.logged_bytes(row)).split()
            off = 0.005 / (rate - 0.005) + (0.0 if unit == "B" else 0.005 / float(value))
            assert abs(back.seconds - row.seconds) <= min(off * row.seconds, 0.005e-3) * (1 + 1e-9)
            worst, count = max(worst, abs(back.seconds / row.seconds - 1)), count + 1
            worst_printed = max(worst_printed, abs(round(row.seconds * 1e3, 2) / (row.seconds * 1e3) - 1))
    assert count == len(shipped(table, CallRow))
    assert 0.0 < worst < 0.003 < worst_printed  # what the printed milliseconds alone would have given
