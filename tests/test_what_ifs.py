"""What-ifs: answers from one simulated step, against steps that are simulated with those numbers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from simfrontier.arrays import Floats
from simfrontier.errors import InputError
from simfrontier.scenario import Scenario, load_scenario, with_numbers
from simfrontier.simulation import REPLAY_LARGEST_ERROR, REPLAY_MEAN_ERROR
from simfrontier.study import WhatIfs, simulated
from simfrontier.study.what_ifs import WHAT_IFS
from tests.whatif import IN_PART, Asked, compared, drawn, varied as varied_axes

TOY = Path("scenarios/toy.toml")
NIC = "machine.overrides.link_classes.nic.bytes_per_s"
HOOK = "machine.overrides.host.hook_s"


@pytest.fixture(scope="module")
def toy() -> Scenario:
    return load_scenario(TOY)


# ── answers ──


@pytest.mark.parametrize("plan", ["zero3", "zero-topo", "my-own"])
def test_without_contention_answers_are_exact(toy: Scenario, plan: str) -> None:
    axes = drawn(toy, 8, np.random.default_rng(3))
    what_ifs = WhatIfs.of(toy, plan, 16, "analytic")
    answers = what_ifs.step_s(axes)
    for number in range(8):
        other = with_numbers(toy, {key: float(values[number]) for key, values in axes.items()})
        assert answers.step_s[number] == pytest.approx(simulated(other, what_ifs.built, "analytic").step_s, rel=1e-9)


def test_pipelines_without_contention_are_exact() -> None:
    scenario = load_scenario("scenarios/compressed-3d.toml")
    axes = drawn(scenario, 5, np.random.default_rng(3))
    what_ifs = WhatIfs.of(scenario, "ZHybrid", 8, "analytic")
    answers = what_ifs.step_s(axes)
    for number in range(5):
        other = with_numbers(what_ifs.scenario, {key: float(values[number]) for key, values in axes.items()})
        assert answers.step_s[number] == pytest.approx(simulated(other, what_ifs.built, "analytic").step_s, rel=1e-9)


def test_answers_are_close_to_simulated_steps() -> None:
    questions = (
        Asked(scenario="toy", plan="zero-topo", devices=16),
        Asked(scenario="frontier-20b", plan="zero3", devices=16),
        Asked(scenario="compressed-3d", plan="plain", devices=8),
    )
    each = [compared(asked, num=60, count=14, seed=5) for asked in questions]
    errors = np.abs(np.concatenate([one.errors[~one.is_unlike] for one in each]))
    assert len(errors) >= 30
    assert errors.mean() <= REPLAY_MEAN_ERROR
    assert errors.max() <= REPLAY_LARGEST_ERROR


def test_the_scenario_as_it_is_is_answered_exactly(toy: Scenario) -> None:
    what_ifs = WhatIfs.of(toy, "zero3", 16)
    base = toy.machine.link_classes["nic"].bytes_per_s
    answers = what_ifs.step_s({NIC: np.array([base, base / 2])})
    assert answers.step_s[0] == pytest.approx(what_ifs.step.step_s, rel=1e-12)
    assert answers.step_s[1] > answers.step_s[0]


# ── what is refused ──


def refused(toy: Scenario, axes: dict[str, Floats]) -> str:
    with pytest.raises(InputError) as error:
        WhatIfs.of(toy, "zero3", 16).step_s(axes)
    text = str(error.value)
    assert "\n" not in text
    return text


def test_keys_that_cannot_vary_are_named(toy: Scenario) -> None:
    said = "not a number that what-ifs can vary; allowed: machine.overrides.KEY, library.overrides.KEY, or a simulation"
    assert said in refused(toy, {"training.micro_batch": np.array([1.0, 2.0])})
    text = refused(toy, {"machine.overrides.link_classes.nick.bytes_per_s": np.array([1e9])})
    assert 'did you mean "link_classes.nic.bytes_per_s"' in text
    assert "simulate it" in refused(toy, {"machine.overrides.device.num_compute_units": np.array([50.0, 100.0])})


def test_values_that_the_scenario_cannot_have_are_refused(toy: Scenario) -> None:
    assert "nic.bytes_per_s" in refused(toy, {NIC: np.array([1e9, -1e9])})
    assert "not finite" in refused(toy, {NIC: np.array([1e9, np.nan])})


def test_axes_have_equally_many_values(toy: Scenario) -> None:
    assert "equally many" in refused(toy, {NIC: np.array([1e9, 2e9]), HOOK: np.array([1e-6])})
    assert "what-ifs in one question" in refused(toy, {NIC: np.full(WHAT_IFS.most + 1, 1e9)})
    assert "got no values" in refused(toy, {})
    assert "got no values" in refused(toy, {NIC: np.array([])})


def test_steps_of_single_messages_are_refused(toy: Scenario) -> None:
    with pytest.raises(
        InputError, match=r"^fidelity: got chunk, of which what-ifs of zero3 at 4 devices are not known"
    ):
        WhatIfs.of(toy, "zero3", 4, "chunk")


def test_libraries_of_two_levels_are_refused() -> None:
    scenario = load_scenario("scenarios/frontier-20b.toml", {"library.name": "hierarchical-mpi-rccl"})
    with pytest.raises(InputError, match=r"library\.name: hierarchical-mpi-rccl is a library of two levels, of which"):
        WhatIfs.of(scenario, "zero3", 16)


@pytest.mark.parametrize("key", ["library.overrides.units_per_channel", "library.overrides.num_channels"])
def test_a_key_that_changes_contention_alone_is_refused(key: str) -> None:
    """Channels that hold more compute units slow what runs beside them, and no op by itself."""
    asked = WhatIfs.of(load_scenario(Path("scenarios/frontier-20b.toml")), "zeropp", 64)
    with pytest.raises(InputError, match=f"{key}: changes "):
        asked.step_s({key: np.linspace(1.0, 32.0, 30).round()})


def test_of_keys_that_only_contention_feels_those_are_named_that_are_felt() -> None:
    asked = WhatIfs.of(load_scenario(Path("scenarios/frontier-20b.toml")), "zeropp", 64)
    unfelt, felt = "library.overrides.residual.small_bytes", "library.overrides.units_per_channel"
    with pytest.raises(InputError, match=f"^{re.escape(felt)}: changes the step"):
        asked.step_s({unfelt: np.linspace(1e6, 2e6, 30), felt: np.linspace(0.1, 4.0, 30)})


def test_numbers_that_choose_another_algorithm_together_alone_are_not_refused() -> None:
    """Each of them changes no time from its least to its greatest value; all together a call goes by a tree."""
    question = IN_PART["tuning, zero1"]
    scenario = question.loaded()
    axes = varied_axes(question, scenario, 200, np.random.default_rng(1))
    answers = WhatIfs.of(scenario, question.plan, question.devices).step_s(axes)
    assert answers.is_unlike.any() and not answers.is_unlike.all()


@pytest.mark.parametrize(("scenario", "plan"), [("frontier-20b", "zeropp"), ("zeropp-v100", "zero3"), ("toy", "ddp")])
def test_every_number_is_answered_or_refused_with_its_key(scenario: str, plan: str) -> None:
    """Of the scenario's machine and library, one by one; answers are as priced."""
    loaded = load_scenario(f"scenarios/{scenario}.toml")
    asked = WhatIfs.of(loaded, plan, 32 if scenario != "toy" else 16, "analytic")
    files = (("machine.overrides", loaded.machine.provenance()), ("library.overrides", loaded.library.provenance()))
    answered = []
    for table, numbers in files:
        for number in numbers:
            key = f"{table}.{number.key}"
            try:
                base = float(number.value)
                values = np.array([0.8 * base, base])
                answers = asked.step_s({key: values})
            except InputError as error:
                assert "\n" not in str(error) and number.key.rpartition(".")[2] in str(error), str(error)
            else:
                other = simulated(with_numbers(asked.scenario, {key: float(values[0])}), asked.built, "analytic")
                assert answers.step_s[0] == pytest.approx(other.step_s, rel=1e-9), key
                answered.append(key)
    assert len(answered) > 15
