"""Data sets of sweeps for the tests of their page: a study of the toy that is run, and rows that are made up."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from simfrontier.answers.study import COLUMNS
from simfrontier.answers.sweep import load_study, run_sweep
from simfrontier.base.workers import Local
from tests.invoke import TOY

KNOWN = tuple(dict.fromkeys(("point", "digest", "scenario", *COLUMNS, "error")))  # columns of every sweep
NIC = "machine.overrides.link_classes.nic.bytes_per_s"
SCENARIO = TOY.read_text(encoding="utf-8").partition("[plans.")[0] + "[plans.zero3]\n[plans.zero1]\n"
STUDY = f"""
name = "toy-links"
title = "Links of a <toy> & more"
scenarios = ["toy.toml"]
set = {{ run.devices = [8, 16], uncertainty.samples = 0 }}

[[axes]]
key = "{NIC}"
values = [5e8, 1e9, 4e9]

[[axes]]
key = "training.micro_batch"
values = [1, 2]

[[axes]]
key = "engine.overlap"
values = [false, true]
"""
TEXTS = {"digest", "scenario", "plan", "stack", "fidelity", "schedule_digest", "mesh", "grid", "note", "error"}
WHOLE = {"point", "devices", "nodes", "micro_batch", "grad_accum", "rank_classes", "peak_memory_bytes"}
Row = Mapping[str, Any]


def toy_sweep(folder: Path) -> Path:
    """A study of 12 points of the toy, with two of its plans on 8 and 16 devices: 48 rows. Returns the data set."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "toy.toml").write_text(SCENARIO, encoding="utf-8")
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    return run_sweep(load_study(folder / "study.toml"), folder / "out", Local(jobs=1)).folder


def made_up(point: int, settings: Mapping[str, Any], scenario: str = "toy", **cells: Any) -> Row:
    """A row with these cells; all others are made up, and the same every time."""
    draw = random.Random(f"{point} {cells.get('plan')}")
    step = 0.5 + draw.random()
    row: dict[str, Any] = {name: step * draw.random() for name in KNOWN if name not in TEXTS | WHOLE}
    row |= {
        "plan": "zero3",
        "stack": "none",
        "fidelity": "flow",
        "mesh": "node 2 × gcd 8",
        "grid": "dp 16",
        "note": None,
        "error": None,
        "fits": True,
    }
    row |= {"devices": 16, "nodes": 2, "micro_batch": 1, "grad_accum": 1, "rank_classes": 1}
    row |= {"step_time_s": step, "tokens_per_s": 1e6 / step, "peak_memory_bytes": int(1e10 * draw.random())}
    row |= {"schedule_digest": hashlib.sha256(b"%d" % point).hexdigest()}
    return {**row, **_of_point(point, settings, scenario), **cells}


def refused(point: int, settings: Mapping[str, Any], why: str, **cells: Any) -> Row:
    """A row without results."""
    return {**dict.fromkeys(KNOWN), **_of_point(point, settings, "toy"), "error": why, **cells}


def _of_point(point: int, settings: Mapping[str, Any], scenario: str) -> dict[str, Any]:
    digest = hashlib.sha256(repr((scenario, *settings.items())).encode()).hexdigest()
    axes = {f"axis:{key}": value for key, value in settings.items()}
    return {"point": point, "digest": digest, "scenario": scenario, **axes}


def sampled(count: int, rows_of_point: int = 1) -> list[Row]:
    """So many points at random places on three axes, each with a row of `zero3`, `zero1` and so on."""
    draw, plans = random.Random(1), ("zero3", "zero1", "zeropp", "hsdp")[:rows_of_point]
    made: list[Row] = []
    for point in range(count):
        settings = {f"machine.overrides.host.number_{axis}_s": draw.random() for axis in "abc"}
        made += [made_up(point, settings, plan=plan) for plan in plans]
    return made


def write(folder: Path, rows: Sequence[Row], parts: int = 1, **manifest: Any) -> Path:
    """The rows as the data set in a folder, in so many row groups; returns the folder."""
    folder.mkdir(parents=True)
    pq.write_table(table(rows, rows), folder / "rows.parquet", row_group_size=max(1, -(-len(rows) // parts)))
    told = {"kind": "sweep", "study": "made-up", "title": "Made up", "scenarios": {"toy": {}}, "set": {}, **manifest}
    (folder / "manifest.json").write_text(json.dumps(told), encoding="utf-8")
    (folder / "study.toml").write_text('scenarios = ["toy.toml"]\n', encoding="utf-8")
    return folder


def goal(kind: str = "search", values: Sequence[float | None] = (3.0, 2.0, 4.0), **other: Any) -> dict[str, Any]:
    """A goal.json, worked by hand, of the three points of `sampled(3)`: least times of a step."""
    so_far = [
        min((value for value in values[: at + 1] if value is not None), default=None) for at in range(len(values))
    ]
    known = [value for value in values if value is not None]
    mean = sum(known) / len(known) if known else None
    sd = None if mean is None else (sum((value - mean) ** 2 for value in known) / len(known)) ** 0.5
    best = min(known, default=None)
    return {
        "words": "step_time_s of zero3", "column": "step_time_s", "is_ratio": False, "is_most": False, "kind": kind,
        "points_sha256": "", "best_point": None if best is None else values.index(best), "best": best, "mean": mean,
        "sd": sd, "num_known": len(known), "values": list(values), "so_far": so_far, "indices": None, "why_not": "",
        **other,
    }  # fmt: skip


def indices(firsts: Mapping[str, float]) -> dict[str, Any]:
    """Indices of these shares, their intervals a tenth to either side, in all 0.05 more."""
    unknowns = [
        {
            "key": key, "first": first, "first_interval": [first - 0.1, first + 0.1], "total": first + 0.05,
            "total_interval": [first - 0.05, first + 0.15], "sd_left": 2.0 * (1.0 - first) ** 0.5,
        }
        for key, first in firsts.items()
    ]  # fmt: skip
    return {"mean": 3.0, "sd": 2.0, "num_rounds": 16, "num_planned": 32, "unknowns": unknowns}


def table(rows: Sequence[Row], some: Sequence[Row]) -> pa.Table:
    """Some of the rows as a table with the types of all."""
    names = list(dict.fromkeys(("point", "digest", "scenario", *rows[0], *KNOWN))) if rows else KNOWN
    return pa.table({name: pa.array([row[name] for row in some], _type(name, rows)) for name in names})


def _type(name: str, rows: Sequence[Row]) -> pa.DataType:
    if name.startswith("axis:"):
        return pa.array([row[name] for row in rows]).type
    if name in TEXTS:
        return pa.string()
    if name == "fits":
        return pa.bool_()
    return pa.int64() if name in WHOLE else pa.float64()
