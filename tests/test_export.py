"""`export` and `replay`: schedule files with their simulated traces, and any schedule file on a scenario's machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simfrontier.core.program import digest, load
from simfrontier.core.trace import read_perfetto
from tests.invoke import TOY, Change, changed_json, invoke

PLANS = ("zero3", "zero-topo")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two plans of the toy scenario at 8 devices."""
    out = tmp_path_factory.mktemp("sim")
    ran = invoke("export", TOY, "--plans", ",".join(PLANS), "--devices", "8", "--out", out)
    assert (ran.code, ran.err) == (0, "")
    return out


def test_export_writes_a_schedule_and_its_trace_for_every_plan(exported: Path) -> None:
    names = sorted(f"{kind}-{plan}.json" for plan in PLANS for kind in ("schedule", "trace"))
    assert sorted(path.name for path in exported.iterdir()) == names
    for plan in PLANS:
        schedule, made = load(exported / f"schedule-{plan}.json"), read_perfetto(exported / f"trace-{plan}.json")
        assert made.digest == digest(schedule)
        assert sorted(rank for several in made.members for rank in several) == list(range(8))
        assert made.notes["scenario"] == "toy" and made.title == f"toy {plan} 8"


def test_exact_has_every_rank_by_itself(tmp_path: Path) -> None:
    options = ("--plans", "ddp", "--devices", "4", "--fidelity", "analytic", "--out", tmp_path)
    assert invoke("export", TOY, *options, "--exact").code == 0
    made = read_perfetto(tmp_path / "trace-ddp.json")
    assert made.members == ((0,), (1,), (2,), (3,)) and made.notes["fidelity"] == "analytic"


def test_a_replayed_file_takes_as_long_as_the_plan_that_it_came_from(exported: Path, tmp_path: Path) -> None:
    path, out = exported / "schedule-zero-topo.json", tmp_path / "trace.json"
    ran = invoke("replay", path, "--scenario", TOY, "--json", "--out", out)
    assert (ran.code, ran.err) == (0, "")
    row, made = json.loads(ran.out), read_perfetto(out)
    whole = read_perfetto(exported / "trace-zero-topo.json")
    assert (made.spans, made.digest, made.members) == (whole.spans, whole.digest, whole.members)
    assert row["step_time_s"] == pytest.approx(made.step_s, abs=1e-9)
    assert (row["devices"], row["machine"], row["schedule_digest"]) == (8, "toy-cluster", made.digest)
    spent = [row[f"exposed_{part}_s"] for part in ("inter_node", "intra_node", "package", "codec", "host", "idle")]
    assert row["compute_time_s"] + sum(spent) == pytest.approx(row["step_time_s"], rel=1e-9)
    assert row["fits"] is True and row["findings"] == []


def changed(source: Path, folder: Path, change: Change) -> Path:
    return changed_json(source, folder / "changed.json", change)


def _without_reductions(form: dict[str, Any]) -> None:
    for block in form["blocks"]:
        block[:] = [i for i in block if form["ops"][i]["kind"] != "reduce_scatter"]


def test_a_schedule_with_findings_is_not_simulated(exported: Path, tmp_path: Path) -> None:
    path, out = changed(exported / "schedule-zero3.json", tmp_path, _without_reductions), tmp_path / "trace.json"
    ran = invoke("replay", path, "--scenario", TOY, "--out", out)
    assert (ran.code, ran.err) == (1, "")
    first, *findings = ran.out.splitlines()
    assert first == f"{path}: {len(findings)} findings, not simulated" and findings
    assert any("sums: " in line for line in findings)
    again = invoke("replay", path, "--scenario", TOY, "--json")
    assert again.code == 1 and json.loads(again.out)["findings"] == [line.strip() for line in findings]
    assert not out.exists()


def test_a_pipeline_is_replayed_as_it_was_simulated(tmp_path: Path) -> None:
    keys = ("pipeline=2", "tensor=2", "grad_accum=4")
    settings = [each for key in keys for each in ("--set", f"plans.megatron.{key}")]
    plan = ("--plans", "megatron", "--devices", "8", *settings)
    assert invoke("export", TOY, "--out", tmp_path, *plan).code == 0
    (row,) = json.loads(invoke("run", TOY, "--out", tmp_path / "run", "--no-page", "--json", *plan).out)
    done = invoke("replay", tmp_path / "schedule-megatron.json", "--scenario", TOY, "--json")
    again = json.loads(done.out)
    for key in ("step_time_nominal_s", "compute_time_s", "peak_memory_bytes", "rank_classes", "schedule_digest"):
        assert again[key] == row[key], key
