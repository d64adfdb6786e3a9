"""A search on a toy machine that takes a second or two, for the tests of the command and of the page."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from simfrontier.answers.search import TuningOutcome, tune
from simfrontier.inputs.scenario import Scenario, scenario_of

TOY_TUNE = """
name = "toy-tune"
title = "A <tiny> GPT [toy]"

[machine]
name = "toy-cluster"

[model]
name = "tiny"

[training]
batch = 16

[run]
devices = [8]

[uncertainty]
samples = 20

[plans.zero3]
micro_batch = 2
[plans.odd]
family = "zero1"
grad_accum = 3
"""
PINS: dict[str, Any] = {"tensor": 2, "pipeline": [1, 2], "micro_batch": 1, "states": ["ddp", "zero1"]}
PINNED = ("--pin", "tensor=2", "--pin", "pipeline=1,2", "--pin", "micro_batch=1", "--pin", "states=ddp,zero1")


def written(folder: Path, text: str = TOY_TUNE) -> Path:
    """The scenario as a file."""
    path = folder / "toy-tune.toml"
    path.write_text(text, encoding="utf-8")
    return path


def toy_scenario(**settings: Any) -> Scenario:
    import tomllib

    return scenario_of(tomllib.loads(TOY_TUNE), "toy-tune.toml", settings, laid_out=False)


@cache
def toy_tuning() -> TuningOutcome:
    """The outcome of the toy's search."""
    return tune(toy_scenario(), pins=PINS, simulate=5)
