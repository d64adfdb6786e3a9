"""Forecasts from sizes alone: large jobs are announced before they begin, and refused above a limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simfrontier.answers import forecast as forecasts
from simfrontier.answers.forecast import (
    Forecast,
    forecast_check,
    forecast_explain,
    forecast_export,
    forecast_run,
    forecast_tune,
    sized,
)
from simfrontier.answers.study import schedule_of
from simfrontier.inputs.scenario import load_scenario
from tests.invoke import ROOT, TOY, invoke, refusal
from tests.scenario_files import SCENARIOS
from tests.some import some

B20 = ROOT / "scenarios" / "frontier-20b.toml"
T1 = ROOT / "scenarios" / "frontier-1t-3d.toml"
TROUBLE = ROOT / "scenarios" / "frontier-20b-trouble.toml"
COMPRESSED = ROOT / "scenarios" / "compressed-3d.toml"


@pytest.mark.parametrize(
    ("path", "devices", "settings"),
    [
        (TOY, 8, {"model.num_layers": 8, "training.grad_accum": 8}),
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


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_no_scenario_of_the_project_is_refused(path: Path) -> None:
    scenario = load_scenario(path)
    results = [forecast_run(scenario, None), forecast_export(scenario, None), forecast_check(scenario)]
    results.append(forecast_tune(scenario, None, None))
    assert not any(each.is_too_large for each in results), results


def test_the_user_may_agree_to_what_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecasts, "MOST_BYTES", 0.0)
    monkeypatch.setattr(forecasts, "ANNOUNCED_BYTES", 0.0)
    for words in (
        ("run", TOY, "--plans", "zero3", "--devices", "8", "--no-page", "--out", tmp_path / "run"),
        ("show", TOY),
        ("tune", TOY, "--devices", "2", "--no-page", "--simulate", "1", "--jobs", "1", "--out", tmp_path / "tune"),
    ):
        assert "would take about " in refusal(*words)
        ran = invoke(*words, "--yes-large")
        assert ran.code == 0 and ran.err.startswith(f"simfrontier: {TOY}: will take about "), ran
