"""Searches of a scenario's plans in the order of AxoNN's model: what they refuse, and that they are explained."""

from __future__ import annotations

import copy

from tests.answers.explain.toys import GRIDS, ran

from simfrontier.answers.explain import explain
from simfrontier.inputs.scenario import parse_setting, scenario_of


def test_what_the_search_has_found_is_kept_when_it_is_explained() -> None:
    document = copy.deepcopy(GRIDS)
    document["plans"]["by-model"] = {"family": "axonn", "search": {"by": "axonn-a", "top": 4}}
    document["tune"] = {"bandwidth": "frontier"}
    explanation = explain(scenario_of(document, "grids.toml"), "by-model")
    kept = dict(map(parse_setting, explanation.kept))
    assert kept
    for change in explanation.changes[::4]:
        settings = dict(map(parse_setting, change.settings))
        scenario = scenario_of(document, "grids.toml", {**kept, **settings}, ("by-model",))
        assert (change.step_s, change.peak_bytes) == ran(scenario, "by-model", 8), change
