"""Mugs in scenario files: both run, and what it cannot be is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.inputs.scenario import load_scenario
from tests.invoke import invoke, refusal

FOLDER = Path(__file__).parents[1] / "scenarios"
SCENARIOS = ("mugs-vit-l", "mugs-vit-l-frontier")


@pytest.mark.parametrize("name", SCENARIOS)
def test_runs(name: str, tmp_path: Path) -> None:
    """Two sizes of each; the model is that of 357,320,960 trained parameters, whose forward and backward of an image
    are 1,676 GF with heads and queues."""
    done = invoke(
        *("run", FOLDER / f"{name}.toml", "--out", tmp_path, "--devices", "8,40", "--no-sensitivity"),
        *("--set", "uncertainty.samples=0", "--set", "model.num_layers=2"),
    )
    assert (done.code, done.err) == (0, "")
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "Queues: gathers for later steps" in page and "images seen in 4 crops of 224" in page
    assert load_scenario(FOLDER / f"{name}.toml").shape.num_parameters == 357_320_960


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("plans.blocking.family=zero3", "model mugs-vit-l: got family = 'zero3'; allowed: \"ddp\""),
        ("training.grad_accum=2", "model mugs-vit-l: got grad_accum = 2; allowed: 1"),
        ("model.checkpointing=full", 'model mugs-vit-l: got checkpointing = "full"; allowed: "none"'),
        ("model.hidden=512", "model.hidden: mugs-vit-l is a Mugs run, of which only num_layers may be set"),
        ("model.name=mugs-vit", "model 'mugs-vit': did you mean \"mugs-vit-"),
    ],
)
def test_refused(setting: str, message: str) -> None:
    line = refusal("run", FOLDER / "mugs-vit-l.toml", "--set", setting)
    assert message in line, line
