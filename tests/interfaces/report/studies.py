"""Small studies on toy machines for the tests of the report, made once."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from simfrontier.answers.experiments import Sensitivity, run_sensitivity
from simfrontier.answers.search import GridSearcher
from simfrontier.answers.study import Study, run_study
from simfrontier.inputs.scenario import scenario_of
from simfrontier.interfaces.report.results import findings_of
from simfrontier.interfaces.report.study_page import study_page
from simfrontier.interfaces.report.view import Searches, StudyView

SCENARIO: dict[str, Any] = {
    "name": "report-test",
    "title": "A <tiny> GPT & a toy",
    "machine": {"name": "toy-cluster"},
    "model": {"name": "tiny"},
    "run": {"devices": [2, 8]},
    "engine": {"persistence_elements": 128, "prefetch_elements": 20000, "live_elements": 100000},
    "plans": {"zero3": {}, "ddp": {}, "zeropp": {"weight_codec": "int8:64", "quantised_gradient_codec": "int4:64"}},
    "published": {"source": "a made-up table", "ratios": {"zero3": 1.0, "ddp": 4.0}, "efficiency": {"ddp": 0.9}},
    "sensitivity": {
        "devices": 8,
        "plans": ["zero3", "ddp"],
        "vary": [
            {"key": "training.micro_batch", "label": "micro-batch", "values": [2]},
            {"key": "engine.overlap", "label": "overlap", "values": [False]},
        ],
    },
}


def scenario_path() -> str:
    return str(Path("somewhere") / "report-test.toml")


@cache
def study(memory_bytes: float = 0.0, machine: str = "toy-cluster", devices: tuple[int, ...] = (2, 8)) -> Study:
    settings: dict[str, Any] = {"machine.name": machine}
    if memory_bytes:
        settings["machine.overrides.device.hbm_bytes"] = memory_bytes
    document = {key: value for key, value in SCENARIO.items() if key != "sensitivity"}
    if memory_bytes:
        document["stack"] = "none"  # which reserves nothing of so little
    return run_study(scenario_of(document, scenario_path(), settings, devices=devices))


@cache
def mlp() -> Study:
    """A small MLP in fp32."""
    settings = {"model.name": "tiny-mlp", "model.precision": "fp32"}
    document = {key: value for key, value in SCENARIO.items() if key != "sensitivity"}
    return run_study(scenario_of(document, scenario_path(), settings, devices=(8,)))


@cache
def full() -> tuple[Study, Sensitivity]:
    """A study with its sensitivity."""
    scenario = scenario_of(SCENARIO, scenario_path())
    done = run_study(scenario)
    varied = run_sensitivity(scenario, done.fidelity)
    assert varied is not None
    return done, varied


PIPED: dict[str, Any] = {
    **SCENARIO,
    "run": {"devices": [4, 8]},
    "training": {"batch": 16},
    "plans": {
        "zero3": {},
        "pipe": {"family": "megatron", "tensor": 2, "pipeline": 2, "micro_batch": 2, "data": {"family": "zero1"}},
        "axonn": {"search": {"values": {"x": [1, 2, 3], "y": [1, 2]}}},
    },
    "published": {"source": "a made-up table", "percent_of_peak": {"pipe": {"8": 2.5, "4": 5}}},
    "sensitivity": {
        "devices": 8,
        "plans": ["zero3", "pipe"],
        "vary": [{"key": "training.batch", "label": "sequences per step", "values": [8, 32]}],
    },
}


@cache
def piped() -> tuple[Study, Sensitivity | None, Searches]:
    """A study of a pipeline, a grid that is searched for, and a plan of neither, with one batch for all."""
    searcher = GridSearcher()
    scenario = searcher.complete(scenario_of(PIPED, scenario_path()))
    return run_study(scenario), run_sensitivity(scenario, "flow"), searcher.tried


def page(study: Study, sensitivity: Sensitivity | None = None) -> str:
    """The page of a study."""
    view = StudyView(study=study, sensitivity=sensitivity)
    return study_page(findings_of(view), view)
