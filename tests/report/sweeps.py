"""Data sets of sweeps for the tests of their page: real rows of the toy, and rows that are made up, in any number."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from simfrontier.scenario import load_scenario
from simfrontier.study import COLUMNS, MORE_COLUMNS, run_study
from tests.invoke import TOY

NIC = "machine.overrides.link_classes.nic.bytes_per_s"
AXES: dict[str, Sequence[Any]] = {
    NIC: (5e8, 1e9, 4e9),
    "training.micro_batch": (1, 2, 4),
    "engine.overlap": (False, True),
}
PLANS, SIZES = ("zero3", "zero1"), (8, 16)
RESULTS = tuple(dict.fromkeys((*COLUMNS, *MORE_COLUMNS)))
TEXTS = {"scenario", "plan", "fidelity", "schedule_digest", "mesh", "note", "digest"}
WHOLE = {"point", "devices", "nodes", "micro_batch", "grad_accum", "rank_classes"}
Row = Mapping[str, Any]


@cache
def toy_rows() -> tuple[Row, ...]:
    """72 rows: 18 points of the toy, two plans, two sizes."""
    made = []
    for point, values in enumerate(itertools.product(*AXES.values())):
        settings = dict(zip(AXES, values, strict=True))
        scenario = load_scenario(str(TOY), {"uncertainty.samples": 0, **settings}, devices=SIZES, plans=PLANS)
        for outcome in run_study(scenario).outcomes:
            row = {key: None if cell == "" else cell for key, cell in outcome.row.items()}
            made.append({**row, **of_point(point, settings)})
    return tuple(made)


def of_point(point: int, settings: Mapping[str, Any], scenario: str = "toy") -> dict[str, Any]:
    """The columns that say which point a row belongs to."""
    digest = hashlib.sha256(repr((scenario, *settings.items())).encode()).hexdigest()
    axes = {f"axis:{key}": value for key, value in settings.items()}
    return {"point": point, "digest": digest, "scenario": scenario, **axes}


def made_up(point: int, settings: Mapping[str, Any], scenario: str = "toy", **cells: Any) -> Row:
    """A row with these cells; all others are made up, and the same every time."""
    draw = random.Random(point)
    step = 0.5 + draw.random()
    row: dict[str, Any] = {name: step * draw.random() for name in RESULTS if name not in TEXTS | WHOLE}
    row |= {"plan": "zero3", "fidelity": "flow", "mesh": "node 2 × gcd 8", "note": None, "fits": True}
    row |= {"schedule_digest": hashlib.sha256(b"%d" % point).hexdigest()}
    row |= {"devices": 16, "nodes": 2, "micro_batch": 1, "grad_accum": 1, "rank_classes": 1}
    row |= {"step_time_s": step, "tokens_per_s": 1e6 / step, "peak_memory_bytes": int(1e10 * draw.random())}
    return {**row, **of_point(point, settings, scenario), **cells}


def refused(point: int, settings: Mapping[str, Any], why: str) -> Row:
    """The row of a point that could not be run."""
    return {**dict.fromkeys(RESULTS), **of_point(point, settings), "note": why}


def sampled(count: int, axes: int = 3, rows_of_point: int = 1, seed: int = 1) -> list[Row]:
    """So many points at random places, with rows of plans `zero3`, `zero1` and so on."""
    draw = random.Random(seed)
    plans = ("zero3", "zero1", "zeropp", "hsdp")[:rows_of_point]
    made = []
    for point in range(count):
        settings = {f"machine.overrides.host.number_{axis}_s": draw.random() for axis in range(axes)}
        made += [made_up(point, settings, plan=plan) for plan in plans]
    return made


def write(folder: Path, rows: Sequence[Row], parts: int = 1) -> Path:
    """The rows as the data set in a folder, in so many files; returns the folder."""
    where = folder / "rows.parquet"
    where.mkdir(parents=True)
    names = [name for name in rows[0] if name.startswith("axis:")] if rows else []
    names = list(dict.fromkeys(("point", "digest", "scenario", *names, *RESULTS)))
    size = -(-len(rows) // parts) if rows else 1
    for number in range(parts):
        some = rows[number * size : (number + 1) * size]
        columns = {name: pa.array([row[name] for row in some], _type(name, rows)) for name in names}
        pq.write_table(pa.table(columns), where / f"part-{number:05}.parquet")
    return folder


def _type(name: str, rows: Sequence[Row]) -> pa.DataType:
    if name.startswith("axis:"):
        return pa.array([row[name] for row in rows]).type
    if name in TEXTS:
        return pa.string()
    if name == "fits":
        return pa.bool_()
    return pa.int64() if name in WHOLE else pa.float64()
