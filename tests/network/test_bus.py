"""Patterns on a host whose devices share one bus: loads, edges and max-min shares worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from simfrontier.collectives.algorithms.direct import direct_loads as direct
from simfrontier.collectives.algorithms.ring import ring_loads as ring
from simfrontier.machine import load_machine
from simfrontier.network import Fabric, Pattern, fold, solve
from tests.network.brute import wire_loads
from tests.perturbed import perturbed

BOX = load_machine("box")  # 8 devices, one bus of 2 GB/s
PAIRS, QUADS, WORLD = (np.arange(8).reshape(-1, size) for size in (2, 4, 8))


def fabric(num_ranks: int = 8) -> Fabric:
    return Fabric.build(BOX, 1, num_devices=num_ranks)


@pytest.mark.parametrize(("groups", "size"), [(PAIRS, 2), (QUADS, 4), (WORLD, 8)])
@pytest.mark.parametrize("make", [ring, direct])
def test_a_group_of_n_loads_the_bus_n_times(make: object, groups: np.ndarray, size: int) -> None:
    # per byte that each of n ranks sends, n bytes pass the bus: a ring's two channels send half over n edges each, and
    # direct messages are n (n-1) of 1/(n-1)
    pattern: Pattern = make(fabric(), groups, {})  # type: ignore[operator]
    assert wire_loads(pattern) == pytest.approx({(group, 0): float(size) for group in range(8 // size)})
    assert pattern.peak.tolist() == pytest.approx([float(size)] * (8 // size))


def test_no_message_stays_within_a_package_or_leaves_the_node() -> None:
    pattern = ring(fabric(), PAIRS, {})
    assert pattern.edges.tolist() == [[0, 4, 0]] * 4 and pattern.divisor == 2


def test_any_part_of_the_host_goes_around_in_order() -> None:
    halves = np.array([[0, 2, 4, 6], [1, 3, 5, 7]])
    assert wire_loads(ring(fabric(), halves, {})) == pytest.approx({(0, 0): 4.0, (1, 0): 4.0})


def test_groups_of_a_large_host_are_found_without_searching() -> None:
    """The best cycle of half of 24 devices would be one of 11! orders; on a bus all are equal."""
    machine = load_machine("box", {"devices_per_node": 24.0})
    pattern = ring(Fabric.build(machine, 1), np.arange(24).reshape(2, 12), {})
    assert wire_loads(pattern) == pytest.approx({(0, 0): 12.0, (1, 0): 12.0})


def test_three_pairs_share_the_bus_fairly() -> None:
    """A third of the 2 GB/s each, of which either rank of a pair sends half."""
    on = fabric(6)
    pairs = ring(on, np.arange(6).reshape(3, 2), {})
    folding = fold(on, {"pairs": pairs}, exact=True)
    usage = np.zeros((folding.num_link_classes, 3))
    for cls in range(3):
        column = folding.column("pairs", cls)
        usage[column.rows, cls] = column.wire
    speeds = solve(usage, folding.capacity, np.ones(3), np.full(3, np.inf))
    assert (speeds / pairs.peak).tolist() == pytest.approx([1e9 / 3] * 3)


def test_the_bus_can_be_degraded_by_name() -> None:
    worse = Fabric.build(BOX, 1, perturbed(links={(0, "bus"): 0.25}))
    assert worse.capacity[worse.link_named(0, "bus")] == 0.5e9
    assert worse.describe(0) == "node 0 bus"
