"""Algorithms that a scenario chooses: what is taken then, and what is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simfrontier.collectives import GroupShape, candidate_algorithms, load_library, with_algorithms
from simfrontier.collectives.chosen import allowed_algorithms
from simfrontier.errors import InputError
from simfrontier.scenario import Scenario, load_scenario
from tests.invoke import TOY, refusal

RCCL, LEVELS = load_library("rccl"), load_library("hierarchical-mpi-rccl")
KEY = "library.algorithms."
WHOLE = GroupShape(size=75_264, num_nodes=9_408, num_packages=37_632)


def chosen(**settings: str | list[str]) -> Scenario:
    return load_scenario(TOY, {KEY + kind: ways for kind, ways in settings.items()})


def test_by_default_all_is_left_to_the_library() -> None:
    assert chosen().library.choices == RCCL.choices
    assert chosen(all_reduce="library").library.choices == RCCL.choices


def test_one_kind_of_call_is_chosen_alone() -> None:
    assert chosen(all_reduce="tree").library.choices == {**RCCL.choices, "all_reduce": ("tree",)}


def test_the_library_s_rule_of_trees_holds_for_both_and_not_for_one() -> None:
    """RCCL's rule takes trees for 1 MiB on the whole machine; a ring alone leaves it no choice."""
    taken = {
        ways: candidate_algorithms(
            with_algorithms(RCCL, {"all_reduce": ways}), "all_reduce", False, "library", 2.0**20, WHOLE
        )
        for ways in (("ring", "tree"), ("ring",), ("tree",))
    }
    assert taken == {("ring", "tree"): ("tree",), ("ring",): ("ring",), ("tree",): ("tree",)}


def test_of_several_the_fastest_is_taken_among_a_library_s_levels_and_its_rings() -> None:
    library = with_algorithms(LEVELS, {"all_gather": ("ring", "two_level")})
    assert candidate_algorithms(library, "all_gather", False, "library", 1.0, WHOLE) == ("ring", "two_level")


def test_a_plan_s_own_algorithm_wins() -> None:
    library = with_algorithms(RCCL, {"all_reduce": ("ring",)})
    assert allowed_algorithms(library, "all_reduce", False, "tree") == ("tree",)


def test_what_is_added_where_it_arrives_goes_directly_all_the_same() -> None:
    library = with_algorithms(RCCL, {"reduce_scatter": ("ring",)})
    assert allowed_algorithms(library, "reduce_scatter", True, "library") == ("direct",)


@pytest.mark.parametrize(
    ("library", "kind", "name", "said"),
    [
        ("rccl", "all_gather", "two_level", 'got "two_level", but library rccl has no levels; allowed: library, ring'),
        (
            "rccl",
            "all_reduce",
            "halving",
            'got "halving", but recursive halving is modelled for calls alone, not for plans; allowed: library, ring, '
            "tree",
        ),
        ("cray-mpich", "all_reduce", "tree", 'got "tree", but library cray-mpich has no tree; allowed: library, ring'),
        (
            "recursive-halving-mpi4py",
            "all_gather",
            "ring",
            'got "ring", but library recursive-halving-mpi4py has no rings; allowed: library',
        ),
        (
            "hierarchical-nccl-nccl",
            "all_reduce",
            "two_level",
            'got "two_level", but library hierarchical-nccl-nccl has no levels of reduce_scatter; allowed: library, '
            "ring, tree",
        ),
    ],
)
def test_an_algorithm_that_a_library_lacks_is_refused(library: str, kind: str, name: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        load_scenario(TOY, {"library.name": library, KEY + kind: name})
    assert str(caught.value) == f"{TOY}: library.algorithms.{kind}: {said}"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("all_gather=tree", 'all_gather: got "tree", allowed: "library", "ring", "halving" or "two_level"'),
        (
            "all_reduce=rign",
            'all_reduce: got "rign", allowed: "library", "ring", "tree", "halving" or "two_level"; '
            'did you mean "ring"?',
        ),
        ("all_reduce=[]", 'all_reduce: got [], allowed: "library", "ring", "tree", "halving" or "two_level"'),
        (
            'all_reduce=["ring", 3]',
            'all_reduce: got ["ring", 3], allowed: "library", "ring", "tree", "halving" or "two_level"',
        ),
        (
            'all_reduce=["ring", "library"]',
            'all_reduce: "library" leaves all to the library; allowed: "library" alone',
        ),
        ("al_reduce=ring", 'al_reduce: unknown key; did you mean "all_reduce"?'),
    ],
)
def test_a_wrong_choice_is_one_line(setting: str, said: str) -> None:
    assert refusal("run", TOY, "--set", KEY + setting) == f"{TOY}: {KEY}{said}"


def test_a_tree_in_the_place_of_rings_shortens_all_reduces_over_many_nodes(tmp_path: Path) -> None:
    """HSDP's all-reduce of gradients on 1,024 GCDs: rings over 128 nodes against 14 hops."""
    from simfrontier.study import run_study

    steps = {}
    for way in ("ring", "tree"):
        path = Path("scenarios/frontier-20b.toml")
        settings = {KEY + "all_reduce": way, "uncertainty.samples": 0, "model.num_layers": 4}
        scenario = load_scenario(path, settings, plans=("hsdp",), devices=(1024,))
        (row,) = [outcome.row for outcome in run_study(scenario).outcomes]
        steps[way] = float(row["exposed_comm_s"])
    assert 0.0 < steps["tree"] < steps["ring"], json.dumps(steps)
