"""Studies: schedules that are built once and rebound, rows that compare, and errors that name file, plan and size."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simfrontier.errors import InputError, SimfrontierError
from simfrontier.plan.to_schedule import build
from simfrontier.scenario import Scenario, scenario_of
from simfrontier.schedule.checker import check
from simfrontier.schedule.lifetime import peak_bytes
from simfrontier.schedule.store import digest, to_json
from simfrontier.simulation import Fidelity
from simfrontier.study import BAND, COLUMNS, RESULTS, ScheduleCache, Study, run_case, run_study, schedule_of
from simfrontier.workers import Workers
from tests.invoke import TOY, refusal
from tests.some import some

DOCUMENT: dict[str, Any] = tomllib.loads(TOY.read_text(encoding="utf-8"))
PLANS = tuple(DOCUMENT["plans"])


def toy(settings: dict[str, Any] | None = None, *plans: str, devices: tuple[int, ...] = (2, 4)) -> Scenario:
    return scenario_of(DOCUMENT, "toy.toml", settings, plans, devices)


# ── building ──


@pytest.mark.parametrize("plan", PLANS)
def test_a_shop_gives_what_a_fresh_build_gives(plan: str) -> None:
    scenario, schedule_cache = toy(), ScheduleCache()
    for devices in (2, 4, 8, 16, 24, 8, 2):
        got = schedule_cache.get(scenario, plan, devices)
        fresh = schedule_of(scenario, plan, devices)
        assert to_json(got.schedule) == to_json(fresh)
        report = check(fresh)
        assert report.peak == peak_bytes(got.schedule, got.schedule.roles[0])


def test_a_shop_builds_once_for_sizes_with_the_same_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []

    def counted(*arguments: Any) -> Any:
        built.append(arguments[2].num_ranks)
        return build(*arguments)

    monkeypatch.setattr("simfrontier.study.schedule_cache.build", counted)
    scenario, schedule_cache = toy(), ScheduleCache()
    for devices in (2, 4, 8, 16, 12):
        schedule_cache.get(scenario, "zero3", devices)
    assert built == [2, 4, 8]
    assert schedule_cache.get(scenario, "zero3", 8) is schedule_cache.get(scenario, "zero3", 8)


@pytest.mark.parametrize(
    "settings",
    [
        {"training.micro_batch": 3},
        {"training.grad_accum": 2},
        {"model.sequence": 64},
        {"model.checkpointing": "none"},
        {"engine.overlap": False},
        {"engine.granularity": "layer"},
        {"model.num_layers": 3, "model.hidden": 64, "model.heads": 4, "model.vocabulary": 256, "model.sequence": 32},
        {"model.num_layers": 2, "model.hidden": 128, "model.heads": 4, "model.vocabulary": 256, "model.sequence": 32},
        {"model.num_layers": 2, "model.hidden": 64, "model.heads": 8, "model.vocabulary": 256, "model.sequence": 32},
        {"model.num_layers": 2, "model.hidden": 64, "model.heads": 4, "model.vocabulary": 512, "model.sequence": 32},
        {"model.precision": "bf16"},
        {"model.precision": "fp32"},
        {"model.name": "tiny-mlp"},
    ],
)
def test_a_shop_that_serves_several_scenarios_does_not_mix_them_up(settings: dict[str, Any]) -> None:
    schedule_cache, changed = ScheduleCache(), toy(settings)
    schedule_cache.get(toy(), "zero3", 8)
    assert digest(schedule_cache.get(changed, "zero3", 8).schedule) == digest(schedule_of(changed, "zero3", 8))


def test_what_cannot_be_built_names_file_plan_and_size() -> None:
    scenario = toy({"plans.hsdp.gradient_codec": "int8:64"})
    for attempt in (lambda: schedule_of(scenario, "hsdp", 8), lambda: ScheduleCache().get(scenario, "hsdp", 8)):
        with pytest.raises(InputError) as caught:
            attempt()
        assert str(caught.value).startswith("toy.toml: plans.hsdp: at 8 devices: step_reduction: an all-reduce over ")


def test_what_is_not_sound_names_file_plan_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsound(*arguments: Any) -> Any:
        schedule = build(*arguments)
        adam = next(call for call in schedule.roles[0].calls if any(op.kind == "adam" for op in call.ops))
        object.__setattr__(adam, "ops", tuple(op for op in adam.ops if op.kind != "adam"))
        return schedule

    monkeypatch.setattr("simfrontier.study.schedule_cache.build", unsound)
    with pytest.raises(SimfrontierError) as caught:
        ScheduleCache().get(toy(), "zero3", 4)
    assert str(caught.value).startswith("toy.toml: plans.zero3: at 4 devices: the schedule is not sound: ")
    assert caught.value.exit_code == 1


def test_what_the_machine_cannot_run_names_file_plan_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise InputError("groups over gcd lie unevenly on the nodes")

    monkeypatch.setattr("simfrontier.study.step.simulate_step", refused)
    with pytest.raises(InputError) as caught:
        run_case(toy(), "zero3", 4, "flow", exact=False, drawn=False, schedule_cache=ScheduleCache())
    assert str(caught.value) == "toy.toml: plans.zero3: at 4 devices: groups over gcd lie unevenly on the nodes"


# ── rows ──


def test_rows_stand_in_the_order_of_plans_and_sizes_and_of_the_columns() -> None:
    study = run_study(toy(None, "ddp", "zero3", devices=(4, 2)))
    assert [(o.plan, o.devices) for o in study.outcomes] == [("ddp", 4), ("ddp", 2), ("zero3", 4), ("zero3", 2)]
    assert all(tuple(o.row) == COLUMNS for o in study.outcomes)
    assert [o.devices for o in study.of("zero3")] == [4, 2]


def test_efficiency_is_against_the_smallest_size_in_whatever_order() -> None:
    study = run_study(toy(None, "ddp", "zero3", devices=(8, 2, 4)))
    rate = {(o.plan, o.devices): float(o.row["tflops_per_device"]) for o in study.outcomes}
    for o in some(study.outcomes):
        assert o.row["scaling_efficiency"] == pytest.approx(rate[o.plan, o.devices] / rate[o.plan, 2], rel=1e-12)
        assert o.row["speedup"] == pytest.approx(rate[o.plan, o.devices] / rate["ddp", o.devices], rel=1e-12)


def test_rates_follow_from_the_step_time() -> None:
    scenario = toy({"training.micro_batch": 3, "training.grad_accum": 2}, "zero3")
    for o in some(run_study(scenario).outcomes):
        seconds, samples = float(o.row["step_time_s"]), 3 * 2 * o.devices
        assert o.row["tokens_per_s"] == pytest.approx(samples * 32 / seconds, rel=1e-12)
        # GPT-NeoX counts 96 b s l h^2 (1 + s / 6h + V / 16lh) with checkpointing: the layers' four passes and the head
        neox = 96 * samples * 32 * 2 * 64**2 * (1 + 32 / (6 * 64) + 256 / (16 * 2 * 64))
        assert o.row["neox_tflops_per_device"] == pytest.approx(neox / seconds / o.devices / 1e12, rel=1e-12)
        assert o.row["hfu"] == pytest.approx(neox / seconds / o.devices / 2e12, rel=1e-12)
        # the model's own: 72 b s l h^2 (1 + s / 6h) of the layers' three passes, 6 b s V h of the head
        flops = 72 * samples * 32 * 2 * 64**2 * (1 + 32 / (6 * 64)) + 6 * samples * 32 * 256 * 64
        assert o.row["tflops_per_device"] == pytest.approx(flops / seconds / o.devices / 1e12, rel=1e-12)
        assert o.row["mfu"] == pytest.approx(flops / seconds / o.devices / 2e12, rel=1e-12)


@pytest.mark.parametrize(("precision", "peak"), [("fp16", 2e12), ("bf16", 2e12), ("fp32", 1e12), ("fp64", 0.5e12)])
def test_mfu_is_against_the_peak_of_the_models_precision(precision: str, peak: float) -> None:
    for o in some(run_study(toy({"model.precision": precision}, "zero3")).outcomes):
        assert o.row["mfu"] == pytest.approx(float(o.row["tflops_per_device"]) * 1e12 / peak, rel=1e-12)


def test_an_mlp_counts_samples_and_its_own_products() -> None:
    for o in some(run_study(toy({"model.name": "tiny-mlp", "training.micro_batch": 3}, "zero3")).outcomes):
        seconds, samples = float(o.row["step_time_s"]), 3 * o.devices
        assert o.row["tokens_per_s"] == pytest.approx(samples / seconds, rel=1e-12)
        # 2 n k: in 32 x 64 twice, a layer's 8 h^2 three times (four with checkpointing), out 16 x 64 three times
        useful = 2 * samples * (2 * 32 * 64 + 2 * 3 * 8 * 64**2 + 3 * 16 * 64)
        again = 2 * samples * 2 * 8 * 64**2
        assert o.row["tflops_per_device"] == pytest.approx(useful / seconds / o.devices / 1e12, rel=1e-12)
        assert o.row["hfu"] == pytest.approx((useful + again) / seconds / o.devices / 2e12, rel=1e-12)
        assert o.row["neox_tflops_per_device"] == ""
        assert o.row["mfu"] == pytest.approx(useful / seconds / o.devices / 2e12, rel=1e-12)


def test_only_the_largest_size_is_drawn() -> None:
    for o in some(run_study(toy(None, "zero3", devices=(8, 2))).outcomes):
        assert (o.trace is not None) == (o.memory is not None) == (o.links is not None) == (o.devices == 8)


def test_what_does_not_fit_has_empty_times_but_bytes_and_a_digest() -> None:
    study = run_study(toy({"machine.overrides.device.hbm_bytes": 1e3}, "ddp"))
    for o in some(study.outcomes):
        assert o.row["fits"] is False
        empty = [each.name for each in RESULTS if each.mean]
        assert {o.row[key] for key in (*empty, "scaling_efficiency", "speedup")} == {""}
        assert float(o.row["bytes_package"]) > 0 and o.row["schedule_digest"]
        assert str(o.row["note"]).startswith("needs 2.2")
        largest = max(o.at_peak, key=lambda name: o.at_peak[name])
        assert f" of 1 kB ({largest} " in str(o.row["note"])


def test_progress_tells_every_case() -> None:
    names: list[str] = []
    run_study(toy(None, "ddp", "zero3"), progress=names.append)
    assert names == ["ddp on 2", "ddp on 4", "zero3 on 2", "zero3 on 4"]


def test_processes_change_nothing_and_tell_of_every_case_in_order(two_workers: Workers) -> None:
    names: list[str] = []
    scenario = toy(None, "ddp", "zero3", devices=(2, 4))
    several = run_study(scenario, progress=names.append, workers=two_workers)
    assert names == ["ddp on 2", "ddp on 4", "zero3 on 2", "zero3 on 4"]
    assert [o.row for o in several.outcomes] == [o.row for o in run_study(scenario).outcomes]


def test_a_refusal_comes_back_from_a_process(two_workers: Workers) -> None:
    scenario = toy({"plans.hsdp.gradient_codec": "int8:64"}, "zero3", "hsdp", devices=(8,))
    with pytest.raises(InputError) as caught:
        run_study(scenario, workers=two_workers)
    assert str(caught.value).startswith("toy.toml: plans.hsdp: at 8 devices: step_reduction: ")


# ── error bars ──


def bands(study: Study) -> Iterator[tuple[object, ...]]:
    for o in study.outcomes:
        yield tuple(o.row[column] for column in BAND)


def test_a_column_without_a_suffix_is_the_median_within_its_band() -> None:
    for o in some(run_study(toy(None, "zero3", "hsdp", devices=(4, 8))).outcomes):
        row = {column: float(cell) for column, cell in o.row.items() if not isinstance(cell, str)}
        assert o.samples_s is not None
        assert row["step_time_s"] == np.median(o.samples_s)
        assert row["step_time_p05_s"] <= row["step_time_s"] <= row["step_time_p95_s"]
        assert row["step_time_nominal_s"] != row["step_time_s"]
        slower = row["step_time_s"] / row["step_time_nominal_s"]
        for rate in ("tflops_per_device", "mfu", "tokens_per_s"):
            assert row[rate] == pytest.approx(row[f"{rate}_nominal"] / slower, rel=1e-12)
        assert row["tokens_per_s_per_device"] == pytest.approx(row["tokens_per_s"] / o.devices, rel=1e-12)


def test_parts_of_the_median_step_sum_to_it() -> None:
    for o in some(run_study(toy(None, "zero3", "hsdp", devices=(4, 8))).outcomes):
        row = {column: float(cell) for column, cell in o.row.items() if not isinstance(cell, str)}
        parts = [row[f"exposed_{part}_s"] for part in ("inter_node", "intra_node", "package", "codec", "idle")]
        assert sum(parts) + row["exposed_variation_s"] == pytest.approx(row["exposed_comm_s"], rel=1e-9)
        assert row["compute_time_s"] + row["exposed_comm_s"] == pytest.approx(row["step_time_s"], rel=1e-12)


@pytest.mark.parametrize(
    ("fidelity", "exact"), [("analytic", False), ("flow", False), ("flow", True), ("chunk", False)]
)
def test_bands_are_quantiles_of_the_samples(fidelity: Fidelity, exact: bool) -> None:
    for o in some(run_study(toy(None, "zero3", "zero-topo", devices=(4, 8)), fidelity, exact).outcomes):
        assert o.samples_s is not None and len(o.samples_s) == 200
        assert o.row["step_time_p05_s"] == np.quantile(o.samples_s, 0.05)
        assert o.row["step_time_p50_s"] == np.median(o.samples_s)
        assert o.row["step_time_p95_s"] == np.quantile(o.samples_s, 0.95)
        assert 0.0 < o.samples_s.min() < o.samples_s.max()


def test_bands_are_the_same_every_time_in_any_process_and_beside_any_plan(two_workers: Workers) -> None:
    alone = run_study(toy(None, "zero3"))
    again = run_study(toy(None, "zero3"))
    beside = run_study(toy(None, "ddp", "zero3"), workers=two_workers)
    assert list(bands(alone)) == list(bands(again)) == list(bands(beside))[2:]


def test_another_seed_gives_other_bands_and_the_same_nominal_step() -> None:
    one, other = run_study(toy(None, "zero3")), run_study(toy({"uncertainty.seed": 2}, "zero3"))
    for a, b in some(zip(one.outcomes, other.outcomes, strict=True)):
        assert a.row["step_time_p05_s"] != b.row["step_time_p05_s"]
        assert a.row["step_time_nominal_s"] == b.row["step_time_nominal_s"]


def test_without_samples_bands_are_empty_and_the_step_is_the_nominal_one() -> None:
    study, sampled = run_study(toy({"uncertainty.samples": 0}, "zero3")), run_study(toy(None, "zero3"))
    assert set(bands(study)) == {("", "", "")}
    assert [o.samples_s for o in study.outcomes] == [None, None]
    for plain, other in zip(study.outcomes, sampled.outcomes, strict=True):
        for column in ("step_time", "tflops_per_device", "mfu", "tokens_per_s"):
            unit = "_s" if column == "step_time" else ""
            nominal = f"{column}_nominal{unit}"
            assert plain.row[column + unit] == plain.row[nominal] == other.row[nominal]


def test_where_nothing_is_known_to_be_uncertain_bands_are_empty() -> None:
    scenario = toy(None, "zero3")
    certain = run_study(replace(scenario, library=replace(scenario.library, residual=None)))
    assert set(bands(certain)) == {("", "", "")}
    assert certain.frame()["step_time_p05_s"].isna().all()


def test_what_does_not_fit_has_no_samples() -> None:
    study = run_study(toy({"machine.overrides.device.hbm_bytes": 1e3}, "ddp"))
    assert [o.samples_s for o in study.outcomes] == [None, None] and set(bands(study)) == {("", "", "")}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("samples=5", "uncertainty.samples: got 5, allowed: 0 (no error bars) or 20 and more"),
        ("samples=-1", "uncertainty.samples: got -1, allowed: at least 0"),
        ("samples=1e3", "uncertainty.samples: got 1000.0, allowed: a whole number"),
        ("seed=-1", "uncertainty.seed: got -1, allowed: at least 0"),
        ("sample=200", 'uncertainty.sample: unknown key; did you mean "samples"?'),
    ],
)
def test_samples_and_seeds_that_cannot_be_are_one_line(setting: str, message: str) -> None:
    assert refusal("run", TOY, "--set", f"uncertainty.{setting}") == f"{TOY}: {message}"


# ── placement ──


def test_cyclic_placement_is_block_placement_on_one_node_and_for_whole_machine_groups() -> None:
    block, cyclic = (
        run_study(toy({"run.placement": how}, "ddp", "zero3", devices=(4,))) for how in ("block", "cyclic")
    )
    assert [o.row for o in block.outcomes] == [o.row for o in cyclic.outcomes]


@pytest.mark.parametrize("exact", [False, True])
def test_cyclic_placement_folds_to_the_same_times(exact: bool) -> None:
    scenario = toy({"run.placement": "cyclic"}, "zero-topo", "hsdp", devices=(8,))
    folded, other = run_study(scenario), run_study(scenario, exact=exact)
    for a, b in some(zip(folded.outcomes, other.outcomes, strict=True)):
        assert float(a.row["step_time_s"]) == pytest.approx(float(b.row["step_time_s"]), rel=1e-9)
