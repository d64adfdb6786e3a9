"""Searches of a scenario's plans in the order of AxoNN's model: what they refuse, and that they are explained."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from simfrontier.answers.explain import explain
from simfrontier.inputs.scenario import parse_setting, scenario_of
from tests.answers.explain.toys import GRIDS, ran
from tests.invoke import TOY, refusal, said_of


@pytest.mark.parametrize(
    ("settings", "plan", "wrong"),
    [
        (
            ['search.by="axonn-c"'],
            "axonn",
            '.by: got "axonn-c", allowed: "axonn-a" or "axonn-b"; did you mean "axonn-b"?',
        ),
        (['search.by="axonn-a"'], "megatron", ".by: axonn-a is of the grids of family axonn; allowed: values"),
        (
            ['search={by="axonn-a", values={x=[2]}}'],
            "axonn",
            ".values.x: cannot be searched for here; leave it out",
        ),
        (["search.top=3"], "axonn", ': got nothing to search; allowed: by = "axonn-a", or values'),
    ],
)
def test_a_search_that_cannot_be(tmp_path: Path, settings: list[str], plan: str, wrong: str) -> None:
    got = said_of([f"plans.{plan}.{text}" for text in settings], tmp_path, plan)
    assert got.startswith(f"plans.{plan}.search{wrong}")


def test_what_is_searched_for_is_not_given(tmp_path: Path) -> None:
    got = said_of(['plans.axonn.search={by="axonn-a"}', "plans.axonn.x=2"], tmp_path, "axonn")
    assert got == "plans.axonn.x: got 2, but it is searched for; leave one of the two out"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            ("--fidelity", "axonn-a", "--lossy"),
            "--lossy: got True with --fidelity axonn-a; allowed: only in the search",
        ),
        (
            ("--fidelity", "axonn-b", "--no-page"),
            "--page: got True with --fidelity axonn-b; allowed: only in the search",
        ),
    ],
)
def test_options_of_a_search_mean_nothing_in_a_list(more: tuple[str, ...], message: str) -> None:
    assert refusal("tune", TOY, *more) == message


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
