"""Loads that traffic between groups puts on the pools of a dragonfly, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simfrontier.core.machine import load_machine
from simfrontier.core.network.dragonfly import DragonflyPools


def loads(num_groups: int, share: float, *demands: tuple[int, int, float]) -> dict[tuple[int, int], float]:
    """The load of every pool (from group, to group) that has one, of demands of one activity."""
    fly = load_machine("toy-cluster").dragonfly
    assert fly is not None
    pools = DragonflyPools(dragonfly=replace(fly, num_groups=num_groups, nonminimal_share=share))
    source, target, amount = (np.array(each) for each in zip(*demands, strict=True))
    _, pool, load = pools.loads(np.zeros(len(source), np.int64), source, target, amount.astype(float))
    return {divmod(key, num_groups): value for key, value in zip(pool.tolist(), load.tolist(), strict=True)}


def test_of_four_groups_each_third_one_carries_an_equal_part() -> None:
    """u = 1/2 of 8, over two third groups: 2 each way; 4 go straight."""
    expected = {(0, 1): 4.0, **{pool: 2.0 for third in (2, 3) for pool in ((0, third), (third, 1))}}
    assert loads(4, 0.5, (0, 1, 8.0)) == expected


def test_two_groups_have_no_way_round_and_traffic_inside_a_group_no_pool() -> None:
    assert loads(2, 0.5, (0, 1, 8.0), (1, 1, 3.0)) == {(0, 1): 8.0}
    assert loads(3, 0.5, (1, 1, 3.0)) == {}


def test_a_detour_needs_both_of_its_pools() -> None:
    """From group 0 to group 1 of four, 0>1 dead: by way of group 2 or 3; of neither whose first or second pool is
    dead."""
    fly = load_machine("toy-cluster").dragonfly
    assert fly is not None
    pools = DragonflyPools(dragonfly=replace(fly, num_groups=4))
    pool = {(a, b): 4 * a + b for a in range(4) for b in range(4)}

    def ways(*dead: tuple[int, int]) -> set[tuple[int, ...]]:
        is_dead = np.zeros(16, dtype=bool)
        is_dead[[pool[each] for each in ((0, 1), *dead)]] = True
        return set(pools.around(pool[0, 1], is_dead))

    by_2, by_3 = (pool[0, 2], pool[2, 1]), (pool[0, 3], pool[3, 1])
    assert ways() == {by_2, by_3}
    assert ways((2, 1)) == ways((0, 2)) == {by_3}
    assert ways((3, 1)) == ways((0, 3)) == {by_2}
    assert ways((1, 2), (2, 0)) == {by_2, by_3}
    assert ways((2, 1), (0, 3)) == set()
