"""Messages between pairs of ranks: loads by hand, and those of direct messages where all ranks are in pairs."""

from __future__ import annotations

import numpy as np
import pytest

from simfrontier.core.collectives.algorithms.direct import direct_loads as direct
from simfrontier.core.machine import load_machine
from simfrontier.core.network import Fabric, Pattern, paired


def pricing(num_nodes: int) -> Fabric:
    return Fabric.build(load_machine("toy-cluster"), num_nodes)


def loads(fabric: Fabric, pattern: Pattern) -> dict[tuple[int, str], float]:
    """(activity, wire) -> weight."""
    wires = slice(0, pattern.num_wire_loads)
    each = zip(pattern.act[wires], pattern.link[wires], pattern.weight[wires], strict=True)
    return {(int(act), fabric.describe(int(link))): float(weight) for act, link, weight in each}


def test_one_message_inside_a_node_loads_its_way_only() -> None:
    fabric = pricing(1)
    pattern = paired(fabric, np.array([[0, 1]]), 8, 0, {})
    assert loads(fabric, pattern) == {(0, "node 0 xgmi 0>1"): 1.0}
    assert pattern.edges.tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]  # ranks 2 and 3 are idle, each by itself
    assert pattern.group_of.tolist() == [0, 0, 1, 2]
    assert pattern.peak.tolist() == [1.0, 1.0, 1.0]


def test_the_smaller_message_loads_less() -> None:
    """Six bytes ahead and four back: of the volume, six, two thirds go back; five messages of two bytes in parts of
    three."""
    fabric = pricing(1)
    pattern = paired(fabric, np.array([[0, 1]]), 6, 4, {})
    assert loads(fabric, pattern) == {(0, "node 0 xgmi 0>1"): 1.0, (0, "node 0 xgmi 1>0"): pytest.approx(2 / 3)}
    assert (pattern.edges[0].tolist(), pattern.divisor) == ([5, 0, 0], 3)


def test_between_nodes_messages_go_from_nic_to_nic() -> None:
    """Device 0 sends by the NIC of its package, which hangs on device 1; device 5 is position 1 of node 1."""
    fabric = pricing(2)
    pattern = paired(fabric, np.array([[0, 5]]), 1, 0, {"nic": 0.5})
    names = {name for _, name in loads(fabric, pattern)}
    assert {"node 0 xgmi 0>1", "node 0 nic0>net", "node 1 net>nic0"} <= names
    assert loads(fabric, pattern)[0, "node 0 nic0>net"] == 2.0  # half of the link is reached
    assert not any(">0" in name for name in names)
    assert pattern.edges[0].tolist() == [0, 0, 1]


@pytest.mark.parametrize("num_nodes", [2, 8, 16])
def test_pairs_of_all_ranks_are_direct_messages(num_nodes: int) -> None:
    """Both ways at once, with dragonfly pools: what `direct` says of groups of two."""
    fabric = pricing(num_nodes)
    pairs = np.arange(fabric.num_ranks).reshape(2, -1).T
    ours, theirs = paired(fabric, pairs, 3, 3, {"nic": 0.8}), direct(fabric, pairs, {"nic": 0.8})
    assert loads(fabric, ours) == pytest.approx(loads(fabric, theirs))
    assert (ours.peak == theirs.peak).all() and (ours.group_of == theirs.group_of).all()
    assert (ours.edges / ours.divisor == theirs.edges / theirs.divisor).all()
