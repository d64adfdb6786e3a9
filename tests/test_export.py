"""`export` and `replay`: schedule files with their simulated traces, and any schedule file on a scenario's machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simfrontier.schedule import digest, load
from simfrontier.trace import read_perfetto
from tests.invoke import TOY, Change, changed_json, invoke, refusal

PLANS = ("zero3", "zero-topo")


DEEP = """
name = "deep"
title = "A stage for every layer"
[machine]
name = "frontier"
[model]
name = "tiny"
num_layers = {stages}
[training]
micro_batch = 1
grad_accum = 1
[run]
devices = [{stages}]
[plans.megatron]
pipeline = {stages}
"""


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


def test_export_takes_the_largest_size(tmp_path: Path) -> None:
    assert invoke("export", TOY, "--plans", "ddp", "--out", tmp_path).code == 0
    assert load(tmp_path / "schedule-ddp.json").mesh.num_ranks == 16


@pytest.mark.parametrize(
    ("verb", "stages"),
    [("export", 40), pytest.param("export", 264, marks=pytest.mark.long), ("show", 1_000)],
)
def test_a_pipeline_that_is_written_can_be_read(tmp_path: Path, verb: str, stages: int) -> None:
    """1,000 stages are the most: one of each layer that a scenario's model may have."""
    scenario = tmp_path / "deep.toml"
    scenario.write_text(DEEP.format(stages=stages), encoding="utf-8")
    path = tmp_path / "schedule-megatron.json"
    options = ("--fidelity", "analytic", "--out", tmp_path) if verb == "export" else ("--save", path)
    assert invoke(verb, scenario, *options).code == 0
    assert len(load(path).roles) == stages
    if verb == "export":
        assert invoke("check", path).code == 0


def test_exact_has_every_rank_by_itself(tmp_path: Path) -> None:
    options = ("--plans", "ddp", "--devices", "4", "--fidelity", "analytic", "--out", tmp_path)
    assert invoke("export", TOY, *options, "--exact").code == 0
    made = read_perfetto(tmp_path / "trace-ddp.json")
    assert made.members == ((0,), (1,), (2,), (3,)) and made.notes["fidelity"] == "analytic"


def test_the_same_call_writes_the_same_bytes(exported: Path, tmp_path: Path) -> None:
    assert invoke("export", TOY, "--plans", ",".join(PLANS), "--devices", "8", "--out", tmp_path).code == 0
    for path in exported.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--plans", "zero4"), f'{TOY}: plans: got "zero4"; did you mean "zero3"?'),
        (("--devices", "0"), "--devices: got '0'; allowed: numbers of devices separated by commas, e.g. 8,64,384"),
        (("--set", "plans.zero3.x=1"), f"{TOY}: plans.zero3.x"),
        (("--fidelity", "flo"), "--fidelity: got 'flo'; did you mean \"flow\"?"),
    ],
)
def test_export_refuses_in_one_line_and_writes_nothing(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    assert refusal("export", TOY, "--out", tmp_path / "out", *options).startswith(message)
    assert not (tmp_path / "out").exists()


def test_export_needs_a_folder_that_it_may_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    message = refusal("export", TOY, "--out", tmp_path / "file")
    assert message.startswith(f"--out {tmp_path}/file: cannot be written: Not a directory")


# ── replay ──


def test_a_replayed_file_takes_as_long_as_the_plan_that_it_came_from(exported: Path, tmp_path: Path) -> None:
    path, out = exported / "schedule-zero-topo.json", tmp_path / "trace.json"
    ran = invoke("replay", path, "--scenario", TOY, "--json", "--out", out)
    assert (ran.code, ran.err) == (0, "")
    row, made = json.loads(ran.out), read_perfetto(out)
    whole = read_perfetto(exported / "trace-zero-topo.json")
    assert (made.spans, made.digest, made.members) == (whole.spans, whole.digest, whole.members)
    assert row["step_time_s"] == pytest.approx(made.step_s, abs=1e-9)
    assert (row["devices"], row["machine"], row["schedule_digest"]) == (8, "toy-cluster", made.digest)
    spent = [row[f"exposed_{part}_s"] for part in ("inter_node", "intra_node", "package", "codec", "idle")]
    assert row["compute_time_s"] + sum(spent) == pytest.approx(row["step_time_s"], rel=1e-9)
    assert row["fits"] is True and row["findings"] == []


def test_replay_says_where_the_time_goes(exported: Path) -> None:
    ran = invoke("replay", exported / "schedule-zero3.json", "--scenario", TOY)
    assert (ran.code, ran.err) == (0, "")
    first, second, *parts = ran.out.splitlines()
    assert first.startswith(f"{exported}/schedule-zero3.json: passed (digest ")
    assert second.startswith("8 devices of ") and second.endswith(" per step")
    shares = [float(line.split()[-2]) for line in parts if line.endswith("%")]
    assert sum(shares) == pytest.approx(100, abs=0.3)


def test_what_does_not_fit_is_said(exported: Path) -> None:
    few = ("--set", "machine.overrides.device.hbm_bytes=1000")
    ran = invoke("replay", exported / "schedule-zero3.json", "--scenario", TOY, *few)
    assert ran.code == 0 and "of 1 kB: does not fit" in ran.out


def test_the_scenarios_settings_count(exported: Path) -> None:
    """The host takes a second for each of the step's hooks: so many seconds at least."""
    path = exported / "schedule-zero3.json"
    hooks = sum(span.kind == "hook" for span in read_perfetto(exported / "trace-zero3.json").spans[0])
    slow = ("--set", "machine.overrides.host.hook_s=1.0")
    ran = invoke("replay", path, "--scenario", TOY, "--json", *slow)
    assert hooks > 5 and json.loads(ran.out)["step_time_s"] > hooks
    ran = invoke("replay", path, "--scenario", TOY, "--json", "--fidelity", "analytic")
    assert json.loads(ran.out)["fidelity"] == "analytic"


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


def test_what_the_machine_cannot_run_is_one_line(exported: Path) -> None:
    path = exported / "schedule-zero3.json"
    pair = ("--set", "run.devices=[2]", "--set", "machine.name=toy-pair")
    message = refusal("replay", path, "--scenario", TOY, *pair)
    assert message == f"{path} on toy-pair: toy-pair has 2 devices; the mesh needs 8"


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


@pytest.mark.parametrize("name", ["no.json", ""])
def test_replay_of_what_is_no_schedule(tmp_path: Path, name: str) -> None:
    assert "cannot read this schedule" in refusal("replay", tmp_path / name, "--scenario", TOY)


def test_replay_of_a_trace_says_that_it_is_no_schedule(exported: Path) -> None:
    message = refusal("replay", exported / "trace-zero3.json", "--scenario", TOY)
    assert message.startswith(f"{exported}/trace-zero3.json: not a schedule: ")


def test_a_trace_goes_whole_or_not_at_all(exported: Path, tmp_path: Path) -> None:
    out = tmp_path / "no" / "trace.json"
    message = refusal("replay", exported / "schedule-zero3.json", "--scenario", TOY, "--out", out)
    assert message == f"{out}: cannot be written: No such file or directory; allowed: a file in a folder you may write"
