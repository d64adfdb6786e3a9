"""What is large is said before it begins, and refused above a limit; forecasts are told from sizes alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from simfrontier import forecast as forecasts
from simfrontier.collectives import load_library
from simfrontier.cost import price
from simfrontier.forecast import (
    Forecast,
    forecast_check,
    forecast_explain,
    forecast_export,
    forecast_run,
    forecast_tune,
    sized,
)
from simfrontier.machine import load_machine
from simfrontier.network import groups_of_job, num_unlike
from simfrontier.scenario import Scenario, load_scenario
from simfrontier.study import schedule_of
from tests.invoke import ROOT, TOY, invoke, refusal
from tests.limited import limited_refusal
from tests.scenario_files import SCENARIOS
from tests.simulation.pipelines import Pipeline
from tests.some import some

B20 = ROOT / "scenarios" / "frontier-20b.toml"
T1 = ROOT / "scenarios" / "frontier-1t-3d.toml"
WHOLE = ROOT / "scenarios" / "whole-machine-175b.toml"
COMPRESSED = ROOT / "scenarios" / "compressed-3d.toml"


def loaded(path: Path, devices: int, **settings: Any) -> Scenario:
    given = {key.replace("__", "."): value for key, value in settings.items()}
    return load_scenario(path, given, (), (devices,))


# ── the model ──


@pytest.mark.parametrize(
    ("path", "devices", "settings"),
    [
        (TOY, 8, {}),
        (TOY, 8, {"model__num_layers": 8, "training__grad_accum": 8}),
        (B20, 64, {}),
        (B20, 64, {"model__num_layers": 10, "training__grad_accum": 8}),
        (COMPRESSED, 8, {}),
    ],
)
def test_ops_are_forecast_within_a_factor_of_three(path: Path, devices: int, settings: dict[str, Any]) -> None:
    scenario = loaded(path, devices, **settings)
    for plan in some(scenario.plans):
        schedule = schedule_of(scenario, plan, devices)
        counted = sum(len(call.ops) for role in schedule.roles for call in role.calls)
        given = sized(scenario, plan, devices)
        assert counted / 3 < given.num_ops < counted * 3, (plan, counted)
        assert (given.num_roles, given.num_ranks) == (len(schedule.roles), devices)


def explained(path: Path, plan: str, against: str | None = None, what_if: bool = True) -> Forecast:
    return forecast_explain(load_scenario(path), plan, against, None, what_if)


def chunked(plan: str, **settings: Any) -> Forecast:
    return forecast_run(load_scenario(B20, settings, (plan,), (128,)), "chunk", vary=False)


def staged(folder: Path, stages: int) -> Forecast:
    path = folder / "deep.toml"
    head = f'name = "d"\ntitle = "d"\nmachine.name = "frontier"\nmodel = {{ name = "tiny", num_layers = {stages} }}\n'
    path.write_text(f"{head}run.devices = [512]\nplans.megatron.pipeline = {stages}\n", encoding="utf-8")
    return forecast_run(load_scenario(path), None, vary=False)


def piped(devices: int) -> Forecast:
    return forecast_run(load_scenario(T1, {}, ("1f1b",), (devices,)), None, vary=False)


def test_forecasts_are_within_a_factor_of_three_of_what_was_measured(tmp_path: Path) -> None:
    """CPU seconds and GB of whole processes, measured once (those of the forecast's docstring); nothing runs here."""
    b20, layers = load_scenario(B20), {"model.num_layers": 8}
    for measured_s, measured_gb, given in (
        (106.2, 0.33, chunked("zero3")),
        (28.9, 0.27, chunked("zero-topo")),
        (20.9, 0.31, chunked("zero3", **layers)),
        (7.2, 0.24, chunked("zero-topo", **layers)),
        (1.5, 0.09, staged(tmp_path, 64)),
        (16.0, 0.45, staged(tmp_path, 512)),
        (7.3, 0.27, forecast_tune(load_scenario(TOY), 8, None)),
        (11.6, 0.30, forecast_tune(b20, 64, None)),
        (21.2, 0.38, forecast_tune(b20, 384, None)),
        (0.9, 0.09, explained(TOY, "zero3")),
        (1.1, 0.09, explained(B20, "zero-topo", what_if=False)),
        (6.5, 0.13, explained(B20, "zero-topo", "zero3")),
        (49.8, 0.83, explained(T1, "1f1b")),
        (4.8, 0.30, piped(3_072)),
        (30.0, 1.29, piped(18_816)),
        (7.2, 0.73, piped(24_576)),
        (10.2, 1.68, piped(65_536)),
        (284.9, 5.52, piped(75_264)),
    ):
        assert measured_s / 3 < given.seconds < measured_s * 3, given
        assert measured_gb / 3 < given.num_bytes / 1e9 < measured_gb * 3, given


def test_forecasts_grow_with_every_size() -> None:
    def run(devices: int = 64, exact: bool = False, fidelity: Any = None, vary: bool = False, **settings: Any) -> Any:
        return forecast_run(loaded(B20, devices, **settings), fidelity, exact, vary)

    usual = run()
    for larger in (
        run(model__num_layers=200),
        run(training__grad_accum=16),
        run(devices=75_264),
        run(exact=True),
        run(fidelity="chunk"),
    ):
        assert larger.seconds > usual.seconds and larger.num_bytes > usual.num_bytes
    assert run(vary=True).seconds > usual.seconds
    two = load_scenario(B20, {}, (), (64, 128))
    assert forecast_run(two, None, vary=False).num_cases == 2 * usual.num_cases
    assert forecast_check(two).num_bytes > forecast_check(loaded(B20, 64)).num_bytes
    assert run(exact=True, devices=128).seconds > run(exact=True).seconds
    assert run(fidelity="chunk", devices=128).seconds > 3 * run(fidelity="chunk").seconds
    one = load_scenario(B20, {}, ("zero3",), (64,))
    alone, also = (forecast_explain(one, "zero3", None, None, what_if) for what_if in (False, True))
    assert also.seconds > 5 * alone.seconds
    others = forecast_explain(loaded(B20, 64), "zero3", None, None, True)  # each of the other plans once
    assert others.num_cases == also.num_cases + len(loaded(B20, 64).plans) - 1


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


@pytest.mark.parametrize("nodes", [128, 192, 320])
def test_classes_of_ranks_grow_with_pipelines_that_are_unlike(nodes: int) -> None:
    """Two stages of so many nodes of Frontier: of the eight ranks of a node, as many classes as there are kinds of
    pipelines at most, which are 1, 3 and 5; ranks are 2,048 to 5,120."""
    machine, built = load_machine("frontier"), Pipeline(stages=2, data=nodes, tensor=8).schedule()
    groups = groups_of_job(machine, 2 * nodes)[built.mesh.groups(("stage",)) // 8]
    unlike = num_unlike(groups)
    assert unlike == {128: 1, 192: 3, 320: 5}[nodes]
    found = price(built, machine, load_library("rccl")).folding.num_rank_classes
    assert 2 * unlike <= found <= 2 * 8 * unlike


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
    text = limited_refusal(*words, *out)
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
    assert limited_refusal("check", path).endswith(
        "plans and run.devices: 1,000,000 plans at a size; allowed: up to 50,000"
    )


def test_a_search_of_very_many_values_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    values = "".join(f"v{i} = {list(range(100))}\n" for i in range(200))
    text = T1.read_text(encoding="utf-8").partition("[plans.")[0]
    path.write_text(
        f'{text}[plans.found]\nfamily = "megatron"\n[plans.found.search.values]\n{values}', encoding="utf-8"
    )
    assert "1,000,000,000 plans at a size" in refusal("check", path)


def test_a_large_job_is_told_in_one_line_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("run", TOY, "--plans", "zero3", "--devices", "8", "--no-page", "--out", tmp_path / "out")
    assert invoke(*words).err == ""
    monkeypatch.setattr(forecasts, "TOLD_S", 0.0)
    ran = invoke(*words)
    assert ran.code == 0 and ran.err.count("\n") == 1
    assert ran.err.startswith(f"simfrontier: {TOY}: will take about 1 seconds of CPU time and 0.1 GB of memory (")


def test_the_user_may_agree_to_what_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecasts, "MOST_BYTES", 0.0)
    monkeypatch.setattr(forecasts, "TOLD_BYTES", 0.0)
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


def test_a_million_devices_are_told_of() -> None:
    overrides = {"machine.overrides.num_nodes": 131_072, "machine.overrides.dragonfly.num_groups": 1_024}
    scenario = load_scenario(B20, overrides, ("zero3",), (1_000_000,))
    forecast = forecast_run(scenario, None, vary=False)
    assert forecast.is_large and not forecast.is_too_large
    three = load_scenario(T1, overrides, ("1f1b",), (1_000_064 - 1_000_064 % 128,))
    assert forecast_run(three, None).is_too_large
