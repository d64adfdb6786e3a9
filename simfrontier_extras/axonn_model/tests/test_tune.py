"""`simfrontier tune`: what it lists, as text and JSON, its exit codes and its one-line refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.invoke import ROOT, Ran, invoke

MAIN = ROOT / "scenarios" / "frontier-20b.toml"
GPT_80B = ("model.name=gpt-80b", "machine.name=perlmutter", "training.batch=2048", "tune.min_tensor=64")


def tune(*settings: str, scenario: Path = MAIN, fidelity: str = "axonn-a", devices: int = 1024, more: str = "") -> Ran:
    given = [word for setting in settings for word in ("--set", setting)]
    return invoke("tune", scenario, "--fidelity", fidelity, "--devices", str(devices), *given, *more.split())


def rows(*settings: str, **options: Any) -> list[dict[str, Any]]:
    ran = tune(*settings, **{"more": "--json", **options})
    assert (ran.code, ran.err) == (0, "")
    listed: list[dict[str, Any]] = json.loads(ran.out)
    return listed


def test_json_lists_every_grid_with_sizes_and_time_best_first() -> None:
    listed = rows(*GPT_80B)
    assert len(listed) == 230
    assert [row["rank"] for row in listed] == list(range(1, 231))
    assert all(row["x"] * row["y"] * row["z"] * row["data"] == 1024 for row in listed)
    assert all(row["x"] * row["y"] * row["z"] >= 64 and 2048 % (row["z"] * row["data"]) == 0 for row in listed)
    times = [row["comm_time_s"] for row in listed]
    assert times == sorted(times)
    assert [[row[key] for key in ("x", "y", "z", "data")] for row in listed[:2]] == [[1, 1, 1024, 1], [1, 1, 512, 2]]
    # Z = 1024: 42 layers, 3 * 1023/1024 * 12 * 12288² weights * 2 bytes over 80 GiB/s
    assert times[0] == pytest.approx(42 * 3 * 1023 / 1024 * 12 * 12288**2 * 2 / 1024**3 / 80, rel=1e-9)
    for row in listed:
        parts = sum(row[f"{name}_time_s"] for name in ("data", "z", "y", "x"))
        assert row["comm_time_s"] == pytest.approx(parts, rel=1e-12)
        assert row["runs"] == (row["obstacle"] == "")


def test_where_no_grid_can_run_the_answer_is_no() -> None:
    # all 10 grids with X·Y·Z = 8: X·Y > 1 divides neither 3 hidden features nor 3 heads, Z = 8 not 3·3 weights
    own = ("model.name=odd", "model.num_layers=1", "model.hidden=3", "model.heads=3", "model.vocabulary=5")
    ran = tune(*own, "model.sequence=8", "training.batch=8", "tune.min_tensor=8", devices=8)
    assert ran.code == 1
    assert "All 10 grids; 0 of 10 can run." in ran.out


def test_keys_of_the_table_reach_the_model() -> None:
    base = rows(*GPT_80B, devices=1024)
    assert rows(*GPT_80B, "tune.quirk=false") != base
    assert rows(*GPT_80B, "tune.bandwidth=frontier") != base
    accumulated = {(r["x"], r["y"], r["z"], r["data"]): r for r in rows(*GPT_80B, "tune.accumulation=2")}
    for row in base:
        other = accumulated[row["x"], row["y"], row["z"], row["data"]]
        assert other["z_time_s"] == pytest.approx(2 * row["z_time_s"], rel=1e-12)
        assert other["x_time_s"] == row["x_time_s"]


# ── refusals ──


@pytest.mark.parametrize(
    ("settings", "devices", "message"),
    [
        (
            ("tune.min_tensor=128",),
            64,
            "no grid of 64 devices is allowed: X·Y·Z of at least min_tensor = 128 excludes all 84; "
            "allowed: min_tensor up to 64",
        ),
        (
            (),
            384,
            "no grid of 384 devices is allowed: sizes are powers of two, so their product is none of that; "
            "nearest number of devices: 256",
        ),
    ],
)
def test_no_grid_ends_with_1_and_one_line(settings: tuple[str, ...], devices: int, message: str) -> None:
    ran = tune(*settings, devices=devices)
    assert (ran.code, ran.out, ran.err) == (1, "", f"simfrontier: {MAIN}: {message}\n")
