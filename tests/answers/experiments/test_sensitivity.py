"""One setting at a time, and other stacks: each variation is the run that it says."""

from __future__ import annotations

import math
import tomllib
from typing import Any

import pytest

from simfrontier.answers.experiments import Sensitivity, environment_of, run_sensitivity
from simfrontier.answers.study import run_study
from simfrontier.inputs.scenario import Scenario, scenario_of
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


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("training.micro_batch", 4),
        ("model.checkpointing", "none"),
        ("engine.overlap", False),
        ("machine.name", "perlmutter"),
        (NIC, 0.3),
        ("stack", "deepspeed"),
        ("mesh.devices_per_node", 2),
        ("at.8.training.micro_batch", 2),
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


def test_the_strongest_moves_the_ratio_of_the_last_plan_to_the_first_furthest() -> None:
    result = run(scenario(("machine.overrides.host.hook_s", [1.0001e-6]), (NIC, [0.01]), ("training.micro_batch", [2])))
    before = result.default.rates["ddp"] / result.default.rates["zero3"]
    after = {v.key: v.rates["ddp"] / v.rates["zero3"] for v in result.varied}
    most = max(after, key=lambda key: abs(math.log(after[key] / before)))
    value = next(v.value for v in result.varied if v.key == most)
    moved = f"moves ddp : zero3 most, from {before:.3f} to {after[most]:.3f}"
    assert result.strongest == f"what {most} is = {value} {moved}"
    assert most != "machine.overrides.host.hook_s"


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


TABLES: dict[str, Any] = {
    "name": "small",
    "title": "Small",
    "machine": {"name": "frontier"},
    "model": {"name": "gpt-neox-20b", "num_layers": 4},
    "run": {"devices": [16]},
    "plans": {
        "zero3": {},
        "megatron": {"tensor": 4},
        "lattice": {"weight": ["gcd"], "accumulator": [], "optimizer": []},
    },
}


def small_scenario(**more: Any) -> Scenario:
    return scenario_of({**TABLES, **more}, "small.toml")


def step_s(made: Scenario, plan: str) -> float:
    """The median step of a plan in a study of its own."""
    return float(next(each for each in run_study(made).outcomes if each.plan == plan).row["step_time_s"])


def test_a_factor_is_the_step_with_it_over_the_step_without() -> None:
    found = environment_of(small_scenario(), 16)
    assert found is not None
    assert {plan: title.partition(":")[0] for plan, title in found.stacks.items()} == {
        "zero3": "deepspeed",
        "megatron": "megatron-core",
        "lattice": "deepspeed",
    }
    assert (found.library, found.devices) == ("rccl", 16)
    by_value = {each.value: each for each in found.alternatives}
    for value, more in (("fsdp2", {"stack": "fsdp2"}), ("rccl-sockets", {"library": {"name": "rccl-sockets"}})):
        for plan, factor in by_value[value].factors.items():
            with_it, without = (step_s(small_scenario(**each), plan) for each in (more, {}))
            assert factor == pytest.approx(with_it / without, rel=1e-12)


def test_a_band_holds_what_is_assumed_and_all_alternatives() -> None:
    found = environment_of(small_scenario(), 16)
    assert found is not None
    for plan, (low, high) in found.bands.items():
        factors = [each.factors[plan] for each in found.alternatives if plan in each.factors]
        assert (low, high) == (min(1.0, *factors), max(1.0, *factors))
    assert found.bands["zero3"][1] > 2.0  # sockets: a tenth of the bandwidth between two nodes
