"""Free parameters: those that a file marks as fitted, changed in the model as if the file said the other value."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from simfrontier.accuracy.fitting.parameters import STEPPED, allowed, free_parameters, with_numbers, with_partners
from simfrontier.accuracy.predictors.harness import shipped_harnesses
from simfrontier.collectives import libraries, load_library
from tests.accuracy.fitting.rings import rings
from tests.some import some

WITH_PARAMETERS = [name for name in libraries() if free_parameters(load_library(name), ())]


def test_most_libraries_have_free_parameters() -> None:
    assert set(libraries()) - set(WITH_PARAMETERS) == {"mvapich2-gdr"}  # all are assumed: nothing measured to fit to


@pytest.mark.parametrize("name", WITH_PARAMETERS)
def test_a_changed_parameter_is_what_a_file_with_that_number_says(name: str) -> None:
    library = load_library(name)
    for key, value in some(free_parameters(library, ()).items()):
        other = 0.99 * value if allowed(key)[1] == 1.0 else 1.01 * value
        (changed, _) = with_numbers(library, (), {key: other})
        expected = load_library(name, with_partners(name, {key: other}))
        assert changed != library, key
        assert replace(changed, sources=()) == replace(expected, sources=()), key


@pytest.mark.parametrize(
    ("name", "key", "partner"),
    [
        ("cray-mpich", "ring.hop_in_node_s", "ring.hop_between_nodes_s"),
        ("cray-mpich", "ring_ll.hop_in_node_s", "ring_ll.hop_between_nodes_s"),
        ("recursive-halving-mpi4py", "direct.hop_in_node_s", "direct.hop_between_nodes_s"),
    ],
)
def test_two_numbers_fitted_as_one_move_together(name: str, key: str, partner: str) -> None:
    """Else the second would keep what a fit to all points gave it, in a fit that leaves some out."""
    library = load_library(name)
    known = {number.key: number.value for number in library.provenance()}
    assert known[key] == known[partner]
    assert with_partners(name, {key: 1e-5}) == {key: 1e-5, partner: 1e-5}
    (changed, _) = with_numbers(library, (), {key: 1e-5})
    hops = {"ring": changed.ring, "ring_ll": changed.ring_ll, "direct": changed.direct}
    one = hops[key.split(".")[0]]
    assert one is not None and one.hop_in_node_s == one.hop_between_nodes_s == 1e-5


def test_the_parameters_are_what_is_marked_as_fitted_and_no_residuals() -> None:
    assert free_parameters(rings(), ()) == {
        "ring.hop_between_nodes_s": 150e-6,
        "ring_ll.hop_between_nodes_s": 20e-6,
        "shares.nic": 0.9,
        "tree.hop_between_nodes_s": 100e-6,
    }
    assert not any(
        key.startswith("residual.") for name in libraries() for key in free_parameters(load_library(name), ())
    )


def test_numbers_of_harnesses_go_to_their_harness() -> None:
    harnesses = shipped_harnesses()
    fitted = [key for key in free_parameters(rings(), harnesses) if key.startswith("harness.")]
    assert fitted
    for key in fitted:
        _, name, number = key.split(".")
        _, changed = with_numbers(rings(), harnesses, {key: 0.125})
        assert {one.name for one in changed} == {one.name for one in harnesses}
        for one in changed:
            assert (getattr(one, number) == 0.125) == (one.name == name)


@pytest.mark.parametrize(
    ("key", "ends"),
    [
        ("shares.nic", (0.0, 1.0)),
        ("ring_ll.rate_share", (0.0, 1.0)),
        ("ring_shares.xgmi1", (0.0, 1.0)),
        ("tree.fill_share", (0.0, 1.0)),
        ("tree.bandwidth_ratio", (0.0, 1.0)),
        ("ring.sharpness", (1.0, math.inf)),
        ("ring.base_s", (0.0, math.inf)),
        (STEPPED, (0.0, math.inf)),
    ],
)
def test_what_a_parameter_may_be(key: str, ends: tuple[float, float]) -> None:
    assert allowed(key) == ends


def test_shares_of_rings_and_what_fills_a_tree_may_be_fitted() -> None:
    changed, _ = with_numbers(load_library("rccl"), (), {"ring_shares.xgmi1": 0.5, "tree.fill_share": 0.25})
    assert changed.tree is not None
    assert (changed.ring_shares["xgmi1"], changed.tree.fill_share) == (0.5, 0.25)
    assert changed.ring_shares["xgmi2"] == load_library("rccl").ring_shares["xgmi2"]
