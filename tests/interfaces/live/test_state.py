"""Where the controls of the live page stand: links, scenario files, and what lies a move away."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from simfrontier.base.errors import InputError
from simfrontier.inputs.scenario import COMPARING, Scenario, load_scenario
from simfrontier.interfaces.live.job import GRID
from simfrontier.interfaces.live.state import (
    DEVICES,
    HOP,
    SHARE,
    SLOW,
    LiveState,
    controls_of,
    laid_out,
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
    same = laid_out(base, controls, LiveState(places={})).scenario
    run = base.file.run.model_copy(update={"devices": [max(base.file.run.devices)]})
    assert same.file == base.file.model_copy(update={"run": run, **dict.fromkeys(COMPARING)})
    alone = load_scenario(path, plans=tuple(base.plans)[:1])
    assert list(laid_out(alone, controls_of(alone), LiveState(places={})).scenario.plans) == list(base.plans)[:1]


@given(states())
def test_the_scenario_file_of_a_state_means_the_same_scenario(state: LiveState) -> None:
    controls = tuple(CONTROLS.values())
    try:
        read = tomllib.loads(scenario_file(BASE, controls, state))
    except InputError:  # no plan can be laid out so, or the grid cannot
        assume(False)
    assert read == laid_out(BASE, controls, state).scenario.document


@pytest.mark.parametrize(
    ("settings", "left_out"),
    [
        ({"perturbation.slow": [{"device": 2, "factor": 0.5}]}, {SLOW}),  # a list of its own
        ({"at.16.training.micro_batch": 4}, {"training.micro_batch"}),  # by size
        ({"run.devices": [4]}, {DEVICES, SHARE, HOP}),  # one size, on one node
        ({"training.batch": 64}, {"training.grad_accum"}),  # which follows from it
        ({"model.name": "tiny-mlp"}, {"model.name", "tp", "pp", "vp", "cp", "ep", "data"}),  # no grids
    ],
    ids=["slow", "by-size", "one-node", "batch", "mlp"],
)
def test_what_would_change_nothing_or_not_what_it_says_has_no_control(
    settings: dict[str, Any], left_out: set[str]
) -> None:
    every = {control.key for control in controls_of(load_scenario(TOY))}
    assert left_out < every
    assert {control.key for control in controls_of(load_scenario(TOY, settings))} == every - left_out


# ── model, batch and grid ──


def at(base: Scenario, **moved: Any) -> LiveState:
    """The state with these values of controls; __ stands for the dots of a key."""
    controls = {control.key: control for control in controls_of(base)}
    named = {key.replace("__", "."): value for key, value in moved.items()}
    return LiveState(places={key: controls[key].values.index(value) for key, value in named.items()})


def test_a_moved_grid_is_one_more_plan_with_the_batch_of_the_others() -> None:
    """8 ranks of tensor times 2 stages leave 24 replicas of 384 GCDs, over which 384 sequences divide."""
    base = load_scenario(ROOT / "scenarios" / "frontier-20b.toml", plans=("zero3", "hsdp"))
    scenario = laid_out(base, controls_of(base), at(base, tp=8, pp=2)).scenario
    assert list(scenario.plans) == ["zero3", "hsdp", GRID]
    cases = [scenario.case(plan, 384) for plan in scenario.plans]
    assert [(case.samples, case.batch_ranks) for case in cases] == [(384, 384), (384, 384), (384, 24)]
    assert (cases[-1].stages, cases[-1].mesh["tensor"]) == (2, 8)
    data = laid_out(base, controls_of(base), at(base, tp=8, data="zero3")).scenario.plans[GRID].on_data
    assert data.family == "zero3"


def test_another_model_has_its_own_shape_and_the_precision_of_the_scenario() -> None:
    own = {"model": {"name": "mine", "num_layers": 2, "hidden": 64, "heads": 4, "vocabulary": 128, "sequence": 32}}
    base = load_scenario(TOY, {**own, "model.precision": "bf16"})
    scenario = laid_out(base, controls_of(base), at(base, model__name="llama-3-8b")).scenario
    assert scenario.shape == load_scenario(TOY, {"model.name": "llama-3-8b"}).shape
    assert scenario.file.model.precision == "bf16"


def test_a_plan_that_cannot_have_the_batch_is_left_out_with_the_reason() -> None:
    """8 sequences over 16 devices: a grid of 2 has them, one for each device has not."""
    base = load_scenario(TOY, plans=("zero3", "ddp"))
    with pytest.raises(InputError, match=r"training\.batch = 8 does not divide over 16"):
        laid_out(base, controls_of(base), at(base, training__batch=8))
    mixed = load_scenario(TOY, plans=("zero3", "tp 2"))
    found = laid_out(mixed, controls_of(mixed), at(mixed, training__batch=8))
    assert list(found.scenario.plans) == ["tp2"] and list(found.left_out) == ["zero3"]
    assert "nearest batches that do: 16" in found.left_out["zero3"]


@pytest.mark.parametrize(
    ("moved", "why"), [({"tp": 16}, "grid: .*tensor"), ({"pp": 2, "vp": 12}, "grid: "), ({"ep": 2}, "has no experts")]
)
def test_an_impossible_grid_says_why_in_one_line(moved: dict[str, int], why: str) -> None:
    base = load_scenario(TOY, plans=("zero3",))
    with pytest.raises(InputError, match=why) as error:
        laid_out(base, controls_of(base), at(base, **moved))
    assert "\n" not in str(error.value)
