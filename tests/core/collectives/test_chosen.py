"""Algorithms of collectives: those that there are, and which of them a library and a scenario let a call take."""

from __future__ import annotations

from simfrontier.core.collectives import (
    GroupShape,
    algorithm,
    all_algorithms,
    candidate_algorithms,
    load_library,
    with_algorithms,
)
from simfrontier.core.collectives.algorithms import in_libraries
from simfrontier.core.collectives.chosen import allowed_algorithms
from simfrontier.core.program.names import ALGORITHMS


def test_every_name_is_a_file_of_that_name() -> None:
    assert [each.name for each in all_algorithms()] == list(ALGORITHMS)
    assert all(algorithm(each.name) is each for each in all_algorithms())


def test_libraries_list_only_what_an_algorithm_knows() -> None:
    for each in all_algorithms():
        assert set(each.in_libraries) <= set(each.collectives), each.name
    assert in_libraries("all_reduce") == ("ring", "tree", "halving")
    assert in_libraries("all_to_all") == ("direct",)


RCCL, LEVELS = load_library("rccl"), load_library("hierarchical-mpi-rccl")
WHOLE = GroupShape(size=75_264, num_nodes=9_408, num_packages=37_632)


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
