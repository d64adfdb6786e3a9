"""Forecasts from sizes alone: large jobs are announced before they begin, and refused above a limit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from simfrontier import forecast as forecasts
from simfrontier.forecast import (
    Forecast,
    forecast_check,
    forecast_explain,
    forecast_export,
    forecast_run,
    forecast_tune,
    sized,
)
from simfrontier.scenario import load_scenario
from simfrontier.study import schedule_of
from tests.invoke import ROOT, TOY, invoke, refusal
from tests.scenario_files import SCENARIOS
from tests.some import some

B20 = ROOT / "scenarios" / "frontier-20b.toml"
T1 = ROOT / "scenarios" / "frontier-1t-3d.toml"
WHOLE = ROOT / "scenarios" / "whole-machine-175b.toml"
TROUBLE = ROOT / "scenarios" / "frontier-20b-trouble.toml"
COMPRESSED = ROOT / "scenarios" / "compressed-3d.toml"


# ── sizes ──


@pytest.mark.parametrize(
    ("path", "devices", "settings"),
    [
        (TOY, 8, {}),
        (TOY, 8, {"model.num_layers": 8, "training.grad_accum": 8}),
        (B20, 64, {}),
        (B20, 64, {"model.num_layers": 10, "training.grad_accum": 8}),
        (COMPRESSED, 8, {}),
    ],
)
def test_ops_are_forecast_within_a_factor_of_three(path: Path, devices: int, settings: dict[str, Any]) -> None:
    scenario = load_scenario(path, settings, (), (devices,))
    for plan in some(scenario.plans):
        schedule = schedule_of(scenario, plan, devices)
        counted = sum(len(call.ops) for role in schedule.roles for call in role.calls)
        given = sized(scenario, plan, devices)
        assert counted / 3 < given.num_ops < counted * 3, (plan, counted)
        assert (given.num_roles, given.num_ranks) == (len(schedule.roles), devices)


def run_of(path: Path, plan: str, devices: int, fidelity: Any = None, exact: bool = False, **settings: Any) -> Forecast:
    scenario = load_scenario(path, {"model." + key: value for key, value in settings.items()}, (plan,), (devices,))
    return forecast_run(scenario, fidelity, exact, vary=False)


def test_forecasts_are_within_a_factor_of_five_of_what_was_measured() -> None:
    """CPU seconds and GB of whole processes, with numpy's threads held to one; nothing runs here."""
    b20, t1 = load_scenario(B20), load_scenario(T1)
    for measured_s, measured_gb, given in (
        (3.6, 0.28, run_of(B20, "zero3", 384, num_layers=1_000)),
        (98.4, 1.67, run_of(B20, "zero3", 3_072, exact=True)),
        (119.5, 0.45, run_of(B20, "zero3", 128, "chunk")),
        (37.7, 0.34, run_of(B20, "zero-topo", 128, "chunk")),
        (6.3, 0.31, run_of(T1, "1f1b", 3_072)),
        (30.1, 1.34, run_of(T1, "1f1b", 18_816)),
        (10.6, 1.70, run_of(T1, "1f1b", 65_536)),
        (306.5, 5.51, run_of(T1, "1f1b", 75_264)),
        (26.1, 0.34, forecast_run(b20, None)),
        (95.0, 0.28, forecast_run(load_scenario(TROUBLE), None)),
        (17.6, 0.34, forecast_tune(b20, 384, None)),
        (80.2, 1.33, forecast_tune(t1, None, None)),
        (5.3, 0.12, forecast_explain(b20, "zero-topo", "zero3", None, True)),
        (43.9, 0.76, forecast_explain(t1, "1f1b", None, None, True)),
        (5.5, 0.09, forecast_check(b20)),
    ):
        assert measured_s / 5 < given.seconds < measured_s * 5, given
        assert measured_gb / 5 < given.num_bytes / 1e9 < measured_gb * 5, given


def test_forecasts_grow_with_every_size() -> None:
    usual = run_of(B20, "zero3", 64)
    for larger in (
        run_of(B20, "zero3", 64, num_layers=200),
        run_of(B20, "zero3", 75_264),
        run_of(B20, "zero3", 64, exact=True),
        run_of(B20, "zero3", 64, "chunk"),
        forecast_run(load_scenario(B20, {"training.grad_accum": 16}, ("zero3",), (64,)), None, vary=False),
        forecast_run(load_scenario(B20, {}, ("zero3",), (64, 128)), None, vary=False),
    ):
        assert larger.seconds > usual.seconds and larger.num_bytes > usual.num_bytes


def test_plans_at_a_size_are_counted_as_often_as_they_are_simulated() -> None:
    one, all_six = load_scenario(B20, {}, ("zero3",), (64,)), load_scenario(B20, {}, (), (64,))
    assert forecast_run(one, None, vary=False).num_cases == 1
    assert forecast_run(all_six, None, vary=True).num_cases > len(all_six.plans)
    assert forecast_explain(one, "zero3", None, None, False).num_cases == 1
    changed = forecast_explain(one, "zero3", None, None, True).num_cases
    assert forecast_explain(all_six, "zero3", None, None, True).num_cases == changed + len(all_six.plans) - 1


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_no_scenario_of_the_project_is_refused(path: Path) -> None:
    scenario = load_scenario(path)
    results = [forecast_run(scenario, None), forecast_export(scenario, None), forecast_check(scenario)]
    results.append(forecast_tune(scenario, None, None))
    assert not any(each.is_too_large for each in results), results


def test_pipelines_are_unlike_where_they_pass_other_groups_of_nodes() -> None:
    """Stages of 3, 147, 192 and 588 nodes in groups of 128; in AxoNN's order a pipeline lies in one group."""
    for devices, expected in ((384, 1), (18_816, 19), (24_576, 3), (75_264, 74)):
        assert sized(load_scenario(T1, {}, ("1f1b",), (devices,)), "1f1b", devices).num_unlike == expected
    assert sized(load_scenario(WHOLE, {}, ("3d-zero1",), (75_264,)), "3d-zero1", 75_264).num_unlike == 1


# ── the command line ──


@pytest.mark.parametrize(
    "words",
    [
        ("show", TOY, "--set", "model.num_layers=1000", "--set", "training.grad_accum=1000"),
        ("check", TOY, "--set", "model.num_layers=1000", "--set", "training.grad_accum=1000"),
        ("explain", TOY, "--set", "model.num_layers=1000", "--set", "training.grad_accum=1000"),
        ("tune", TOY, "--set", "model.num_layers=1000", "--set", "training.grad_accum=1000"),
        ("run", B20, "--plans", "zero3", "--devices", "75264", "--exact"),
        ("export", B20, "--plans", "zero3", "--devices", "75264", "--exact"),
    ],
)
def test_what_is_too_large_is_refused_before_it_begins(words: tuple[str | Path, ...], tmp_path: Path) -> None:
    """In 1 GiB of memory: nothing is built for the forecast."""
    out = () if words[0] in ("show", "check") else ("--out", tmp_path / "out")
    text = refusal(*words, *out)
    assert "would take about " in text
    assert text.endswith("; allowed: up to 30 minutes and 8 GB, or any size with --yes-large")
    assert not (tmp_path / "out").exists()


def test_ten_thousand_plans_are_refused(tmp_path: Path) -> None:
    head = TOY.read_text(encoding="utf-8").partition("[plans.zero3]")[0]
    path = tmp_path / "many.toml"
    path.write_text(head + "".join(f'[plans.p{i}]\nfamily = "zero3"\n' for i in range(10_000)), encoding="utf-8")
    assert "(40,000 plans at a size, up to 130 ops)" in refusal("run", path, "--out", tmp_path / "out")


def test_plans_at_sizes_are_counted_before_they_are_laid_out(tmp_path: Path) -> None:
    head, _, _ = TOY.read_text(encoding="utf-8").partition("[plans.zero3]")
    head = re.sub(r"^devices = .*", f"devices = {list(range(8, 808, 8))}", head, flags=re.M)
    path = tmp_path / "many.toml"
    path.write_text(head + "".join(f'[plans.p{i}]\nfamily = "zero3"\n' for i in range(10_000)), encoding="utf-8")
    assert refusal("check", path).endswith("plans and run.devices: 1,000,000 plans at a size; allowed: up to 50,000")


def test_a_large_job_is_announced_in_one_line_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("run", TOY, "--plans", "zero3", "--devices", "8", "--no-page", "--out", tmp_path / "out")
    assert invoke(*words).err == ""
    monkeypatch.setattr(forecasts, "ANNOUNCED_S", 0.0)
    ran = invoke(*words)
    assert ran.code == 0 and ran.err.count("\n") == 1
    assert ran.err.startswith(f"simfrontier: {TOY}: will take about a second of CPU time and 0.1 GB of memory (")


def test_the_user_may_agree_to_what_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecasts, "MOST_BYTES", 0.0)
    monkeypatch.setattr(forecasts, "ANNOUNCED_BYTES", 0.0)
    for words in (
        ("run", TOY, "--plans", "zero3", "--devices", "8", "--no-page", "--out", tmp_path / "run"),
        ("export", TOY, "--plans", "zero3", "--devices", "8", "--out", tmp_path / "export"),
        ("show", TOY),
        ("show", TOY, "--volumes"),
        ("check", TOY, "--plans", "zero3", "--devices", "8"),
        ("explain", TOY, "--devices", "8", "--no-what-if"),
        ("tune", TOY, "--devices", "2", "--no-page", "--simulate", "1", "--jobs", "1", "--out", tmp_path / "tune"),
    ):
        assert "would take about " in refusal(*words)
        ran = invoke(*words, "--yes-large")
        assert ran.code == 0 and ran.err.startswith(f"simfrontier: {TOY}: will take about "), ran


def test_a_schedule_file_is_weighed_before_it_is_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.json"
    invoke("show", TOY, "--save", path)
    monkeypatch.setattr(forecasts, "MOST_BYTES", 0.0)
    assert "would take about " in refusal("replay", path, "--scenario", TOY)
    assert invoke("replay", path, "--scenario", TOY, "--yes-large").code == 0


def test_a_million_devices_are_announced() -> None:
    overrides = {"machine.overrides.num_nodes": 131_072, "machine.overrides.dragonfly.num_groups": 1_024}
    scenario = load_scenario(B20, overrides, ("zero3",), (1_000_000,))
    forecast = forecast_run(scenario, None, vary=False)
    assert forecast.is_large and not forecast.is_too_large
    three = load_scenario(T1, overrides, ("1f1b",), (1_000_064 - 1_000_064 % 128,))
    assert forecast_run(three, None).is_too_large
