"""Algorithms of collectives: those that there are, and which of them a library and a scenario let a call take."""

from __future__ import annotations

from simfrontier.core.collectives import GroupShape, candidate_algorithms, load_library, with_algorithms
from simfrontier.core.collectives.chosen import allowed_algorithms

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


def test_what_is_added_where_it_arrives_goes_directly_all_the_same() -> None:
    library = with_algorithms(RCCL, {"reduce_scatter": ("ring",)})
    assert allowed_algorithms(library, "reduce_scatter", True, "library") == ("direct",)
