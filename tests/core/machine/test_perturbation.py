"""Degraded components and the moments at which they change."""

import numpy as np

from simfrontier.core.machine import (
    DegradedNic,
    Perturbation,
    SlowDevice,
    SlowMemory,
    SlowNode,
    SlowPackage,
    load_machine,
)
from simfrontier.core.network import Fabric

CLUSTER = load_machine("toy-cluster")  # nodes of 4 devices, 2 packages and 2 NICs of 1 GB/s


def slow(device: int, factor: float, **when: float) -> SlowDevice:
    return SlowDevice(device=device, factor=factor, **when)  # type: ignore[arg-type]


def test_a_moment_is_a_step_and_seconds_after_it_began() -> None:
    always = slow(0, 0.9)
    later = slow(1, 0.8, from_s=0.5)  # from then on, for good
    once = slow(2, 0.7, from_step=1, from_s=0.2, until_s=0.4)  # within step 1
    steps = slow(3, 0.6, from_step=2, until_step=4)  # in steps 2 and 3
    ill = Perturbation(slow=(always, later, once, steps))
    assert ill.is_timed and not Perturbation(slow=(always,)).is_timed and ill.last_step == 4

    def said(step: int) -> list[tuple[float, list[int]]]:
        return [(seconds, [each.device for each in state.slow]) for seconds, state in ill.states(step)]

    assert said(0) == [(0.0, [0]), (0.5, [0, 1])]
    assert said(1) == [(0.0, [0, 1]), (0.2, [0, 1, 2]), (0.4, [0, 1])]
    assert said(2) == said(3) == [(0.0, [0, 1, 3])]
    assert said(4) == said(400) == [(0.0, [0, 1])]
    assert not any(each.is_timed for _, state in ill.states(1) for _, each in state.troubles())


def test_what_lasts_longer_than_its_step_ends_with_the_next_moment() -> None:
    """Until 9 s of step 0, which may be over after 2: what is wrong in step 1 is what began before and did not end
    before its beginning."""
    ill = Perturbation(slow=(slow(0, 0.5, from_s=1.0, until_s=9.0),))
    assert [bool(state) for _, state in ill.states(1)] == [False]


def test_packages_nodes_memories_and_nics() -> None:
    ill = Perturbation(
        packages=(SlowPackage(package=1, factor=0.5),),
        nodes=(SlowNode(node=1, factor=0.8),),
        memories=(SlowMemory(device=3, factor=0.25),),
        nics=(DegradedNic(node=1, nic=1, factor=0.1),),
    )
    fabric = Fabric.build(CLUSTER, 2, ill)
    assert fabric.speed.tolist() == [1.0, 1.0, 0.5, 0.5, 0.8, 0.8, 0.8, 0.8]
    assert fabric.capacity[fabric.hbm_base : fabric.units_base].tolist() == [100e9] * 3 + [25e9] + [100e9] * 4
    healthy = Fabric.build(CLUSTER, 2).capacity
    changed = np.flatnonzero(fabric.capacity[: fabric.hbm_base] != healthy[: fabric.hbm_base])
    assert [fabric.describe(int(link)) for link in changed] == ["node 1 nic1>net", "node 1 net>nic1"]
    assert fabric.capacity[changed].tolist() == [0.1e9, 0.1e9]


def test_of_what_is_dead_nothing_moves() -> None:
    fabric = Fabric.build(CLUSTER, 2, Perturbation(slow=(slow(2, 0.0),), nodes=(SlowNode(node=1, factor=0.0),)))
    assert fabric.speed.tolist() == [1.0, 1.0, 0.0, 1.0] + [0.0] * 4
    memories = fabric.capacity[fabric.hbm_base : fabric.units_base]
    assert memories.tolist() == [100e9, 100e9, 0.0, 100e9] + [0.0] * 4
    wires = fabric.capacity[: fabric.hbm_base].reshape(2, -1)
    assert (wires[0] > 0.0).all() and (wires[1] == 0.0).all()
