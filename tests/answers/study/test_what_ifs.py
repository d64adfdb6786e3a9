"""What-ifs: answers from one simulated step, compared with steps that are simulated with those numbers."""

from __future__ import annotations

import numpy as np
import pytest

from simfrontier.answers.study import WhatIfs, simulated
from simfrontier.base.errors import InputError
from simfrontier.core.engine import REPLAY_LARGEST_ERROR, REPLAY_MEAN_ERROR
from simfrontier.inputs.scenario import load_scenario, with_numbers
from tests.whatif import QUESTIONS, Asked, compared, drawn


@pytest.mark.parametrize(
    ("name", "plan", "devices"),
    [("toy", "zero3", 16), ("toy", "zero-topo", 16), ("toy", "my-own", 16), ("compressed-3d", "ZHybrid", 8)],
)
def test_without_contention_answers_are_exact(name: str, plan: str, devices: int) -> None:
    scenario = load_scenario(f"scenarios/{name}.toml")
    axes = drawn(scenario, 8, np.random.default_rng(3))
    what_ifs = WhatIfs.of(scenario, plan, devices, "analytic")
    answers = what_ifs.step_s(axes)
    for number in range(8):
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


@pytest.mark.long
def test_errors_are_as_stated() -> None:
    """Of all questions, those at which the library takes the same algorithms; docs/model.md has the table."""
    each = [compared(asked, num=1000, count=22, seed=1) for asked in QUESTIONS.values()]
    errors = np.abs(np.concatenate([one.errors[~one.is_unlike] for one in each]))
    assert len(errors) > 500
    assert errors.mean() <= REPLAY_MEAN_ERROR
    assert errors.max() <= REPLAY_LARGEST_ERROR


@pytest.mark.parametrize(
    ("scenario", "plan"),
    [
        ("toy", "ddp"),
        pytest.param("frontier-20b", "zeropp", marks=pytest.mark.long),
        pytest.param("zeropp-v100", "zero3", marks=pytest.mark.long),
    ],
)
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
