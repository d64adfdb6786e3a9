"""The algorithms of collectives: each is found by its name, and what none of them does is refused in one place."""

from __future__ import annotations

import json

import pytest

from simfrontier.cli.verbs.algorithms import COLUMNS
from simfrontier.collectives import algorithm, all_algorithms, load_library
from simfrontier.collectives.algorithms import in_libraries, in_plans
from simfrontier.collectives.chosen import allowed_algorithms
from simfrontier.errors import InputError
from simfrontier.schedule.algorithms import ALGORITHMS
from simfrontier.schedule.ir import CollectiveKind
from tests.invoke import invoke

RCCL = load_library("rccl")


def test_every_name_is_a_file_of_that_name() -> None:
    assert [each.name for each in all_algorithms()] == list(ALGORITHMS)
    assert all(algorithm(each.name) is each for each in all_algorithms())


def test_an_unknown_name_is_one_line() -> None:
    with pytest.raises(InputError, match=r"^algorithm 'rings': "):
        algorithm("rings")


def test_libraries_list_only_what_an_algorithm_knows() -> None:
    for each in all_algorithms():
        assert set(each.in_libraries) <= set(each.collectives), each.name
    assert in_libraries("all_reduce") == ("ring", "tree", "halving")
    assert in_libraries("all_to_all") == ("direct",)


@pytest.mark.parametrize(
    ("kind", "via", "message"),
    [
        ("all_gather", "tree", "all_gather by tree: .* allowed: library, ring, direct$"),
        ("all_reduce", "halving", "all_reduce by halving: .* allowed: library, ring, direct, tree$"),
        ("all_gather", "two_level", "all_gather by two_level: .* allowed: library, ring, direct$"),
    ],
)
def test_what_no_plan_goes_by_is_refused(kind: CollectiveKind, via: str, message: str) -> None:
    assert via not in in_plans() or kind not in algorithm(via).collectives
    with pytest.raises(InputError, match=message):
        allowed_algorithms(RCCL, kind, False, via)


def test_the_matrix_is_printed_from_the_algorithms() -> None:
    rows = {(row["algorithm"], row["collective"]): row for row in json.loads(invoke("algorithms", "--json").out)}
    assert set(rows) == {(each.name, kind) for each in all_algorithms() for kind in each.collectives}
    ring, halving, levels = (rows[name, "all_gather"] for name in ("ring", "halving", "two_level"))
    assert [ring[column] for column in COLUMNS] == ["algorithms", True, True, True, True, True]
    assert [halving[column] for column in COLUMNS] == ["algorithms", False, False, False, True, True]
    assert [levels[column] for column in COLUMNS] == ["levels", False, True, False, True, True]
    assert "modelled for calls alone" in halving["limits"][0]
    assert [line for line in invoke("algorithms").out.splitlines() if line.startswith("tree ")] == [
        "tree        all_reduce      algorithms  yes         yes         yes         yes         yes"
    ]
