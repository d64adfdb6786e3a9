"""Free parameters: those that a file marks as fitted, changed in the model as if the file said the other value."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from simfrontier.collectives import libraries, load_library
from simfrontier.fitting.parameters import STEPPED, allowed, free_parameters, with_numbers
from simfrontier.validation.harness import shipped_harnesses
from tests.fitting.rings import rings


@pytest.mark.parametrize("name", libraries())
def test_a_changed_parameter_is_what_a_file_with_that_number_says(name: str) -> None:
    library = load_library(name)
    for key, value in free_parameters(library, ()).items():
        other = 0.99 * value if allowed(key)[1] == 1.0 else 1.01 * value
        (changed, _) = with_numbers(library, (), {key: other})
        expected = load_library(name, {key: other})
        assert changed != library, key
        assert replace(changed, sources=()) == replace(expected, sources=()), key


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
        ("tree.bandwidth_ratio", (0.0, 1.0)),
        ("ring.sharpness", (1.0, math.inf)),
        ("ring.base_s", (0.0, math.inf)),
        (STEPPED, (0.0, math.inf)),
    ],
)
def test_what_a_parameter_may_be(key: str, ends: tuple[float, float]) -> None:
    assert allowed(key) == ends
