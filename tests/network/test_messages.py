"""Loads counted from transfers are those that rings, trees and direct messages say of themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simfrontier.collectives import algorithm, load_library
from simfrontier.collectives.algorithms.base import loads_of_transfers
from simfrontier.machine import load_machine
from simfrontier.network import Fabric, Pattern

FRONTIER = load_machine("frontier")
PLAIN = replace(load_library("rccl"), ring_order="ranks", ring_shares={})


def by_link(fabric: Fabric, pattern: Pattern) -> np.ndarray:
    """[num groups, num links]"""
    out = np.zeros((pattern.num, len(fabric.capacity)))
    np.add.at(out, (pattern.act, pattern.link), pattern.weight)
    return out


@pytest.mark.parametrize("name", ["ring", "direct"])
@pytest.mark.parametrize(("num_ranks", "groups"), [(8, 1), (8, 4), (16, 1), (64, 8)])
def test_counted_loads_are_those_of_the_algorithm(name: str, num_ranks: int, groups: int) -> None:
    fabric = Fabric.build(FRONTIER, -(-num_ranks // 8), num_devices=num_ranks)
    ranks = np.arange(num_ranks).reshape(-1, groups).T
    by, shares = algorithm(name), algorithm(name).shares_on(PLAIN, FRONTIER)
    counted, own = loads_of_transfers(by, fabric, ranks, shares), by.loads(fabric, ranks, PLAIN)
    np.testing.assert_allclose(by_link(fabric, counted), by_link(fabric, own), rtol=1e-12)
    np.testing.assert_allclose(counted.peak, own.peak, rtol=1e-12)
    np.testing.assert_array_equal(counted.edges * own.divisor, own.edges * counted.divisor)
