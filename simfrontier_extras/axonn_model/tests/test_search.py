"""A search of a plan in the order of AxoNN's model is explained with what it has found."""

from __future__ import annotations

from typing import Any, Final

from simfrontier.answers.explain import explain
from simfrontier.inputs.scenario import parse_setting, scenario_of
from tests.answers.explain.test_explanation import ran

DOCUMENT: Final[dict[str, Any]] = {
    "name": "grids",
    "title": "Grids",
    "machine": {"name": "toy-cluster"},
    "model": {"name": "tiny"},
    "training": {"batch": 16},
    "run": {"devices": [8]},
    "uncertainty": {"samples": 0},
    "plans": {"by-model": {"family": "axonn", "search": {"by": "axonn-a", "top": 4}}},
    "tune": {"bandwidth": "frontier"},
}


def test_what_the_search_has_found_is_kept_when_it_is_explained() -> None:
    explanation = explain(scenario_of(DOCUMENT, "grids.toml"), "by-model")
    kept = dict(map(parse_setting, explanation.kept))
    assert kept
    for change in explanation.changes[::4]:
        settings = dict(map(parse_setting, change.settings))
        scenario = scenario_of(DOCUMENT, "grids.toml", {**kept, **settings}, ("by-model",))
        assert (change.step_s, change.peak_bytes) == ran(scenario, "by-model", 8), change
