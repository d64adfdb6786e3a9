"""Where the controls of the live page stand: links, scenario files, and what lies a move away."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from simfrontier.inputs.scenario import COMPARING, load_scenario
from simfrontier.interfaces.live.state import (
    DEVICES,
    HOP,
    SHARE,
    SLOW,
    LiveState,
    controls_of,
    scenario_at,
    scenario_file,
    shown,
)
from tests.invoke import ROOT, TOY
from tests.scenario_files import SCENARIOS

BASE = load_scenario(ROOT / "scenarios" / "frontier-20b.toml")
CONTROLS = {control.key: control for control in controls_of(BASE)}
PLANS = tuple(BASE.plans)


@st.composite
def states(draw: st.DrawFn) -> LiveState:
    """Any places of some of the controls, and a plan or none."""
    keys = draw(st.sets(st.sampled_from(sorted(CONTROLS))))
    places = {key: draw(st.integers(0, len(CONTROLS[key].values) - 1)) for key in keys}
    moved = {key: place for key, place in places.items() if place != CONTROLS[key].at}
    return LiveState(places=moved, plan=draw(st.sampled_from(("", *PLANS))))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_scenario_has_controls_that_stand_where_the_scenario_does(path: Path) -> None:
    """With nothing moved the scenario is the same, at its largest size and without comparisons; every value of a
    control has words of its own; and with the first plan alone all of its controls can be moved."""
    base = load_scenario(path)
    controls = controls_of(base)
    for control in controls:
        assert len(control.values) > 1
        assert len(control.words) == len(control.values) == len(set(map(shown, control.values)))
        assert len(set(control.words)) == len(control.words), control
    same = scenario_at(base, controls, LiveState(places={}))
    run = base.file.run.model_copy(update={"devices": [max(base.file.run.devices)]})
    assert same.file == base.file.model_copy(update={"run": run, **dict.fromkeys(COMPARING)})
    alone = load_scenario(path, plans=tuple(base.plans)[:1])
    assert list(scenario_at(alone, controls_of(alone), LiveState(places={})).plans) == list(base.plans)[:1]


@given(states())
def test_the_scenario_file_of_a_state_means_the_same_scenario(state: LiveState) -> None:
    controls = tuple(CONTROLS.values())
    read = tomllib.loads(scenario_file(BASE, controls, state))
    assert read == scenario_at(BASE, controls, state).document


@pytest.mark.parametrize(
    ("settings", "left_out"),
    [
        ({"perturbation.slow": [{"device": 2, "factor": 0.5}]}, {SLOW}),  # a list of its own
        ({"at.16.training.micro_batch": 4}, {"training.micro_batch"}),  # by size
        ({"run.devices": [4]}, {DEVICES, SHARE, HOP}),  # one size, on one node
        ({"training.batch": 64}, {"training.micro_batch", "training.grad_accum"}),  # which follow from it
    ],
    ids=["slow", "by-size", "one-node", "batch"],
)
def test_what_would_change_nothing_or_not_what_it_says_has_no_control(
    settings: dict[str, Any], left_out: set[str]
) -> None:
    every = {control.key for control in controls_of(load_scenario(TOY))}
    assert left_out < every
    assert {control.key for control in controls_of(load_scenario(TOY, settings))} == every - left_out
