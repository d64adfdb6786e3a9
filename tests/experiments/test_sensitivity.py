"""Sensitivity: each variation is the run that it says, the strongest is the strongest, and what is solved for holds."""

from __future__ import annotations

import math
import tomllib
from typing import Any

import pytest

from simfrontier.errors import InputError
from simfrontier.experiments import Sensitivity, run_sensitivity
from simfrontier.scenario import Scenario, refuse_variations, scenario_of
from simfrontier.study import PlanOutcome, run_case, run_study
from simfrontier.workers import Workers
from tests.invoke import TOY

DOCUMENT: dict[str, Any] = tomllib.loads(TOY.read_text(encoding="utf-8"))
PLANS = ["zero3", "hsdp", "ddp"]
NIC = "library.overrides.shares.nic"


def scenario(*vary: tuple[str, list[Any]], required: list[dict[str, Any]] | None = None, **more: Any) -> Scenario:
    table = {
        "devices": 8,
        "plans": PLANS,
        "vary": [{"key": key, "label": f"what {key} is", "values": values} for key, values in vary],
        "required": required or [],
    }
    return scenario_of({**DOCUMENT, "sensitivity": table, **more}, "toy.toml")


def run(one: Scenario, fidelity: Any = "flow") -> Sensitivity:
    sensitivity = run_sensitivity(one, fidelity)
    assert sensitivity is not None
    return sensitivity


def rates(settings: dict[str, Any], fidelity: Any = None, document: dict[str, Any] = DOCUMENT) -> dict[str, float]:
    """Tokens per second and device of the compared plans in a study of their own."""
    done = run_study(scenario_of(document, "toy.toml", settings, tuple(PLANS), (8,)), fidelity)
    return {o.plan: float(o.row["tokens_per_s_per_device"]) for o in done.outcomes}


def test_a_scenario_without_the_table_has_none() -> None:
    assert run_sensitivity(scenario_of(DOCUMENT, "toy.toml"), "flow") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("training.micro_batch", 4),
        ("training.grad_accum", 2),
        ("model.checkpointing", "none"),
        ("model.sequence", 64),
        ("engine.overlap", False),
        ("engine.granularity", "layer"),
        ("engine.live_elements", 30_000),
        ("machine.overrides.host.hook_s", 1e-4),
        ("machine.name", "perlmutter"),
        (NIC, 0.3),
        ("library.name", "nccl"),
        ("stack", "deepspeed"),
        ("stack", "fsdp1"),
        ("mesh.devices_per_node", 2),
        ("model.precision", "fp32"),
        ("model.attention", "fused"),
        ("model.optimizer", "lamb"),
        ("training.batch", 32),
        ("at.8.training.micro_batch", 2),
        ("run.placement", "cyclic"),
        ("run.fidelity", "analytic"),
    ],
)
def test_a_variation_is_the_run_that_it_says(key: str, value: Any) -> None:
    """Whatever a scenario may say, in any of its tables."""
    result = run(scenario((key, [value])))
    assert result.default.rates == pytest.approx(rates({}), rel=1e-12)
    (varied,) = result.varied
    assert varied.rates == pytest.approx(rates({key: value}), rel=1e-12)
    assert varied.fits == dict.fromkeys(PLANS, True)
    assert (varied.key, varied.label) == (key, f"what {key} is")
    assert varied.rates != pytest.approx(result.default.rates, rel=1e-6)


@pytest.mark.parametrize(
    ("key", "value"),
    [("plans.zero3.micro_batch", 2), ("plans.hsdp.micro_batch", 2), ("plans.ddp.checkpointing", "none")],
)
def test_a_setting_of_one_plan_varies_that_plan(key: str, value: Any) -> None:
    """Where the scenario says how many micro-batches a step has: plans then share no batch."""
    more = {"training": {"grad_accum": 1}}
    result = run(scenario((key, [value]), **more))
    (varied,) = result.varied
    plan = key.split(".")[1]
    assert varied.rates == pytest.approx(rates({key: value}, document={**DOCUMENT, **more}), rel=1e-12)
    assert [each for each in PLANS if varied.rates[each] != result.default.rates[each]] == [plan]


def test_steps_that_differ_are_all_counted() -> None:
    """A device is slow from the second step on, and a run says the mean of its steps."""
    wrong = {"slow": [{"device": 0, "factor": 0.2, "from_step": 1}]}
    more: dict[str, Any] = {"perturbation": wrong, "run": {"devices": [8], "steps": 2}}
    result = run(scenario(("run.steps", [4]), ("training.micro_batch", [2]), **more))
    each = [result.default.rates, *(varied.rates for varied in result.varied)]
    for ours, settings in zip(each, ({}, {"run.steps": 4}, {"training.micro_batch": 2}), strict=True):
        assert ours == pytest.approx(rates(settings, document={**DOCUMENT, **more}), rel=1e-12)
    assert result.varied[0].rates["zero3"] < result.default.rates["zero3"]


def test_tables_of_a_size_that_is_not_run_hold_where_settings_are_varied_there() -> None:
    more = {"run": {"devices": [16]}, "at": {"8": {"training": {"micro_batch": 4}}}}
    result = run(scenario(("engine.overlap", [False]), **more))
    assert result.default.rates == pytest.approx(rates({"training.micro_batch": 4}), rel=1e-12)
    wanted = rates({"training.micro_batch": 4, "engine.overlap": False})
    assert result.varied[0].rates == pytest.approx(wanted, rel=1e-12)


def test_every_value_is_varied_alone_and_in_order() -> None:
    names: list[str] = []
    one = scenario(("training.micro_batch", [2, 4]), ("engine.overlap", [False]))
    sensitivity = run_sensitivity(one, "flow", names.append)
    assert sensitivity is not None
    assert [(v.key, v.value) for v in sensitivity.varied] == [
        ("training.micro_batch", "2"),
        ("training.micro_batch", "4"),
        ("engine.overlap", "false"),
    ]
    assert names == [f"{v.label} = {v.value}" for v in sensitivity.varied]
    assert sensitivity.varied[2].rates == pytest.approx(rates({"engine.overlap": False}), rel=1e-12)


def test_the_strongest_moves_the_ratio_of_the_last_plan_to_the_first_furthest() -> None:
    result = run(scenario(("machine.overrides.host.hook_s", [1.0001e-6]), (NIC, [0.01]), ("training.micro_batch", [2])))
    before = result.default.rates["ddp"] / result.default.rates["zero3"]
    after = {v.key: v.rates["ddp"] / v.rates["zero3"] for v in result.varied}
    most = max(after, key=lambda key: abs(math.log(after[key] / before)))
    value = next(v.value for v in result.varied if v.key == most)
    moved = f"moves ddp : zero3 most, from {before:.3f} to {after[most]:.3f}"
    assert result.strongest == f"what {most} is = {value} {moved}"
    assert most != "machine.overrides.host.hook_s"


def test_what_does_not_fit_has_no_rate_and_is_not_the_strongest() -> None:
    limit: dict[str, Any] = {"machine": {"name": "toy-cluster", "overrides": {"device.hbm_bytes": 2.6e6}}}
    result = run(scenario(("training.micro_batch", [64]), ("engine.overlap", [False]), **limit))
    assert not math.isnan(sum(result.default.rates.values()))
    large, overlap = result.varied
    assert not large.fits["ddp"] and math.isnan(large.rates["ddp"])
    assert overlap.fits == dict.fromkeys(PLANS, True)
    assert result.strongest.startswith("what engine.overlap is = false moves ddp : zero3 most")


def test_where_a_plan_does_not_fit_by_default_nothing_is_compared() -> None:
    limit: dict[str, Any] = {"machine": {"name": "toy-cluster", "overrides": {"device.hbm_bytes": 1e3}}}
    result = run(scenario(("engine.overlap", [False]), **limit))
    assert result.strongest == "no variation can be compared: a plan does not fit"


def test_two_processes_give_the_same_to_the_last_bit_and_tell_of_it_in_order(two_workers: Workers) -> None:
    required: list[dict[str, Any]] = [
        {"key": NIC, "label": "share"},
        {"key": NIC, "label": "share", "given": {"engine.overlap": False}},
    ]
    vary = [("training.micro_batch", [1, 2]), ("engine.overlap", [False]), (NIC, [0.3])]
    made = {"source": "made up", "ratios": {"zero3": 1.0, "hsdp": ratio(0.2), "ddp": 1e3}}
    one = scenario(*vary, required=required, published=made)
    told: list[list[str]] = [[], []]
    alone, together = (
        run_sensitivity(one, "flow", told[at].append, workers) for at, workers in enumerate((None, two_workers))
    )
    assert alone is not None and together == alone
    assert alone.required[0].found["hsdp"] is not None and alone.required[0].found["ddp"] is None
    assert told[0] == told[1] and len(told[0]) == 6


def test_what_several_variations_ask_for_is_simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Micro-batch 1 is the default; the plans that a key does not belong to stay as they are."""
    asked: list[str] = []

    def counted(made: Scenario, plan: str, *more: Any) -> PlanOutcome:
        asked.append(plan)
        return run_case(made, plan, *more)

    monkeypatch.setattr("simfrontier.experiments.row_runner.run_case", counted)
    run(scenario(("training.micro_batch", [1]), ("plans.hsdp.checkpointing", ["none"]), ("engine.overlap", [False])))
    assert sorted(asked) == sorted([*PLANS, "hsdp", *PLANS])


# ── what would have to be ──


def published(ratio: float) -> dict[str, Any]:
    return {"source": "made up", "ratios": {"zero3": 1.0, "hsdp": ratio}}


def ratio(nic: float, **settings: Any) -> float:
    result = rates({NIC: nic, "uncertainty.samples": 0, **settings}, "analytic")
    return result["hsdp"] / result["zero3"]


# Below, the ratio falls as the share grows up to 0.6, and rises a little from there on.
@pytest.mark.parametrize("true", [0.05, 0.2, 0.4, 0.6])
def test_a_required_value_gives_the_published_ratio(true: float) -> None:
    wanted = ratio(true)
    result = run(scenario(required=[{"key": NIC, "label": "share"}], published=published(wanted)))
    (required,) = result.required
    assert list(required.found) == ["hsdp"]  # ddp was not published
    value = required.found["hsdp"]
    assert value is not None and ratio(value) == pytest.approx(wanted, rel=1e-2)
    assert required.sentence == f"share: hsdp : zero3 = {wanted:g} would need {value:.2g}"


def test_a_required_value_is_found_under_other_settings() -> None:
    wanted = ratio(0.2, **{"engine.overlap": False})
    required = [{"key": NIC, "label": "share", "given": {"engine.overlap": False}}]
    (result,) = run(scenario(required=required, published=published(wanted))).required
    value = result.found["hsdp"]
    assert value is not None and ratio(value, **{"engine.overlap": False}) == pytest.approx(wanted, rel=1e-2)
    assert result.label == "share with engine.overlap = false"


@pytest.mark.parametrize("wanted", [1e-3, 1e3])
def test_where_no_value_gives_the_ratio_it_is_said(wanted: float) -> None:
    (result,) = run(scenario(required=[{"key": NIC, "label": "share"}], published=published(wanted))).required
    assert result.found == {"hsdp": None}
    assert result.sentence == f"share: no value gives the published hsdp : zero3 = {wanted:g}"


# ── what cannot be varied ──


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (
            scenario(("training.micro_batches", [2])),
            'toy.toml: sensitivity.vary[0]: training.micro_batches: unknown key; did you mean "micro_batch"?',
        ),
        (
            scenario(("engine.overlap", [False]), ("plans.zero4.label", ["x"])),
            'toy.toml: sensitivity.vary[1]: plans.zero4.family: got "zero4"; did you mean "zero3"?',
        ),
        (
            scenario(required=[{"key": "training.micro_batch", "label": "x"}]),
            'toy.toml: sensitivity.required[0].key: got "training.micro_batch"; allowed: a number of machine.overrides '
            "or library.overrides",
        ),
        (
            scenario(required=[{"key": NIC, "label": "x", "given": {"engine.overlap": "no"}}]),
            'toy.toml: sensitivity.required[0]: engine.overlap: got "no", allowed: true or false',
        ),
    ],
)
def test_what_cannot_be_varied_is_refused_by_its_place(one: Scenario, message: str) -> None:
    with pytest.raises(InputError) as caught:
        refuse_variations(one)
    assert str(caught.value) == message
