"""The algorithms of collectives: each is found by its name, and what none of them does is refused in one place."""

from __future__ import annotations

import pytest

from simfrontier.collectives import algorithm, algorithms, load_library
from simfrontier.collectives.algorithms import in_libraries, in_plans
from simfrontier.errors import InputError
from simfrontier.schedule.algorithms import ALGORITHMS
from simfrontier.schedule.ir import CollectiveKind

RCCL = load_library("rccl")


def test_every_name_is_a_file_of_that_name() -> None:
    assert [each.name for each in algorithms()] == list(ALGORITHMS)
    assert all(algorithm(each.name) is each for each in algorithms())


def test_an_unknown_name_is_one_line() -> None:
    with pytest.raises(InputError, match="^algorithm 'rings': "):
        algorithm("rings")


def test_libraries_list_only_what_an_algorithm_knows() -> None:
    for each in algorithms():
        assert set(each.in_libraries) <= set(each.collectives), each.name
    assert in_libraries("all_reduce") == ("ring", "tree", "halving")
    assert in_libraries("all_to_all") == ("direct",)


@pytest.mark.parametrize(
    ("kind", "via", "said"),
    [
        ("all_gather", "tree", "all_gather by tree: .* allowed: library, ring, direct$"),
        ("all_reduce", "halving", "all_reduce by halving: .* allowed: library, ring, direct, tree$"),
        ("all_gather", "two_level", "all_gather by two_level: .* allowed: library, ring, direct$"),
    ],
)
def test_what_no_plan_goes_by_is_refused(kind: CollectiveKind, via: str, said: str) -> None:
    assert via not in in_plans() or kind not in algorithm(via).collectives
    with pytest.raises(InputError, match=said):
        RCCL.algorithms(kind, False, via)
