"""Placement of a job on groups of nodes: loads of pools by hand, and folded = exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.core.collectives import load_library
from simfrontier.core.collectives.algorithms.direct import direct_loads as direct
from simfrontier.core.collectives.algorithms.ring import ring_loads as ring
from simfrontier.core.cost import FoldedPattern
from simfrontier.core.engine import SimulatedStep, simulate_step
from simfrontier.core.machine import BusyPools, JobNodes, Machine, Perturbation, load_machine
from simfrontier.core.network import Fabric, fold, groups_of_job
from simfrontier.core.network.groups import nodes_of_job
from simfrontier.core.program import Mesh
from tests.core.engine.steps import schedule
from tests.core.network.brute import brute, folded_rates, full_rates, wire_loads

CLUSTER = load_machine("toy-cluster")  # four groups of four nodes; nodes of four devices and two NICs of 1 GB/s
TREE = load_machine("toy-tree")  # leaves of two nodes
INF = float("inf")
LISTS = st.integers(2, 16).flatmap(lambda n: st.permutations(range(16)).map(lambda every: tuple(every[:n])))


def listed(*nodes: int, machine: Machine = CLUSTER) -> Machine:
    return replace(machine, job_nodes=JobNodes(placement="list", listed=nodes))


def lying(placement: str, seed: int = 1, machine: Machine = CLUSTER) -> Machine:
    return replace(machine, job_nodes=JobNodes(placement=placement, seed=seed))  # type: ignore[arg-type]


def pool_loads(fabric: Fabric, pattern: object) -> dict[str, float]:
    loads = wire_loads(pattern)  # type: ignore[arg-type]
    out: dict[str, float] = {}
    for (_, link), load in loads.items():
        if link >= fabric.pool_base:
            out[fabric.describe(link)] = out.get(fabric.describe(link), 0.0) + load
    return out


# ── which nodes, in which groups ──


def test_nodes_of_each_placement_by_hand() -> None:
    assert groups_of_job(CLUSTER, 6).tolist() == [0, 0, 0, 0, 1, 1]
    # in turn nodes 0, 4, 8, 12, then 1 and 5; in the order of their numbers 0 1 | 4 5 | 8 | 12
    assert nodes_of_job(lying("spread"), 6).tolist() == [0, 1, 4, 5, 8, 12]
    assert groups_of_job(lying("spread"), 6).tolist() == [0, 0, 1, 1, 2, 3]
    assert groups_of_job(listed(4, 0, 15), 3).tolist() == [1, 0, 3]
    assert groups_of_job(load_machine("box"), 1).tolist() == [0]


@given(st.integers(1, 16), st.integers(0, 2**40))
@settings(deadline=None)
def test_random_nodes_are_different_ones_and_a_larger_job_has_those_of_a_smaller(num_nodes: int, seed: int) -> None:
    machine = lying("random", seed)
    nodes = nodes_of_job(machine, num_nodes).tolist()
    assert nodes == sorted(set(nodes)) and len(nodes) == num_nodes and nodes[-1] < 16
    assert set(nodes) <= set(nodes_of_job(machine, 16).tolist())
    assert num_nodes == 1 or set(nodes_of_job(machine, num_nodes - 1).tolist()) < set(nodes)


@pytest.mark.parametrize(("machine", "most"), [(CLUSTER, 16), (TREE, 8)])
@given(data=st.data())
@settings(deadline=None, max_examples=30)
def test_the_first_nodes_in_a_list_are_the_fabric_of_always(machine: Machine, most: int, data: st.DataObject) -> None:
    num_nodes = data.draw(st.integers(1, most))
    usual, same = Fabric.build(machine, num_nodes), Fabric.build(listed(*range(num_nodes), machine=machine), num_nodes)
    assert usual.pools == same.pools and usual.class_names == same.class_names
    for name in ("capacity", "kind", "link_class", "group_of_node", "device_of", "speed"):
        assert getattr(usual, name).tolist() == getattr(same, name).tolist()
    per_group = machine.dragonfly.nodes_per_group if machine.dragonfly else 2
    assert usual.group_of_node.tolist() == [node // per_group for node in range(num_nodes)]


# ── loads and rates by hand ──


def across_nodes(num_nodes: int) -> np.ndarray:
    """The groups of the devices in the same place of all nodes."""
    return np.arange(4 * num_nodes).reshape(num_nodes, 4).T


def test_a_ring_over_nodes_that_alternate_between_groups_crosses_at_every_step() -> None:
    """Four rings over eight nodes. In order each goes from group 0 to 1 once and back once; of it a half (non-minimal
    share 1/2) takes the direct pool: 4 × 1/2 = 2, and a quarter each of the pools by groups 2 and 3: 4 × 1/4 = 1. Where
    nodes alternate between the groups, each ring crosses four times as often."""
    for nodes, times in ((range(8), 1.0), ((0, 4, 1, 5, 2, 6, 3, 7), 4.0), ((0, 1, 4, 5, 2, 3, 6, 7), 2.0)):
        fabric = Fabric.build(listed(*nodes), 8)
        loads = pool_loads(fabric, ring(fabric, across_nodes(8), {}))
        aside = ("0>2", "2>1", "0>3", "3>1", "1>2", "2>0", "1>3", "3>0")
        expected = {"global 0>1": 2.0 * times, "global 1>0": 2.0 * times} | {f"global {p}": times for p in aside}
        assert loads == pytest.approx(expected)


def test_the_rate_of_rings_is_held_up_by_pools_only_where_they_cross_often() -> None:
    """Two rings on each NIC of 1 GB/s: 0.5 GB/s each. The pool 0>1 of 2 GB/s has a load of 2: it would allow 1 GB/s; a
    load of 8 where nodes alternate: 0.25 GB/s."""
    for nodes, rate in ((range(8), 0.5e9), ((0, 4, 1, 5, 2, 6, 3, 7), 0.25e9)):
        fabric = Fabric.build(listed(*nodes), 8)
        pattern = ring(fabric, across_nodes(8), {})
        rates = FoldedPattern.alone(fabric, pattern).sent_per_s(INF)
        assert rates.tolist() == pytest.approx([rate] * len(rates))


@pytest.mark.parametrize(("left", "rate"), [(0.75, 0.5e9), (0.5, 0.5e9), (0.25, 0.25e9), (0.1, 0.1e9)])
def test_other_jobs_take_a_part_of_every_pool(left: float, rate: float) -> None:
    """The pool 0>1 has 2 GB/s × left for a load of 2: left × 1 GB/s for each ring, whose NICs allow 0.5 GB/s."""
    busy = Perturbation(background=(BusyPools(factor=left),))
    fabric = Fabric.build(CLUSTER, 8, busy)
    assert fabric.capacity[fabric.pool_base :].tolist() == pytest.approx([2e9 * left] * 16)
    assert (fabric.capacity[: fabric.pool_base] == Fabric.build(CLUSTER, 8).capacity[: fabric.pool_base]).all()
    pattern = ring(fabric, across_nodes(8), {})
    assert FoldedPattern.alone(fabric, pattern).sent_per_s(INF).min() == pytest.approx(rate)


@given(nodes=LISTS, shape=st.sampled_from(["ring", "direct"]))
@settings(deadline=None, max_examples=40)
def test_loads_are_those_of_every_single_message(nodes: tuple[int, ...], shape: str) -> None:
    fabric = Fabric.build(listed(*nodes), len(nodes))
    make = ring if shape == "ring" else direct
    for groups in (np.arange(fabric.num_ranks)[None, :], across_nodes(len(nodes))):
        pattern = make(fabric, groups, {})
        loads, edges = brute(fabric, groups, shape)
        assert wire_loads(pattern) == pytest.approx(loads, rel=1e-9)
        assert (pattern.edges * 1).tolist() == edges


# ── folded = exact ──


@given(nodes=LISTS)
@settings(deadline=None, max_examples=25)
def test_rates_of_classes_are_those_of_all(nodes: tuple[int, ...]) -> None:
    fabric = Fabric.build(listed(*nodes), len(nodes))
    num = len(nodes)
    patterns = {"ring": ring(fabric, across_nodes(num), {}), "pairs": direct(fabric, across_nodes(num), {})}
    patterns["world"] = direct(fabric, np.arange(4 * num)[None, :], {})
    traffic = {"ring": 1.0, "pairs": 2.0, "world": 1.0}
    whole, folded = full_rates(fabric, patterns, traffic), folded_rates(fold(fabric, patterns), patterns, traffic)
    for key in patterns:
        assert folded[key] == pytest.approx(whole[key], rel=1e-9), key


def step(machine: Machine, family: str, num_nodes: int, exact: bool = False) -> SimulatedStep:
    built = schedule(family, Mesh((("node", num_nodes), ("package", 2), ("gcd", 2))))
    return simulate_step(built, machine, load_library("rccl"), exact=exact)


NARROW = load_machine("toy-cluster", {"link_classes.global.bytes_per_s": 2e8})  # pools that hold every ring up


@pytest.mark.parametrize("family", ["zero3", "zero-topo"])
def test_a_folded_step_is_the_exact_one_on_random_nodes(family: str) -> None:
    machine = lying("random", 1, NARROW)
    folded, exact = step(machine, family, 6), step(machine, family, 6, exact=True)
    of_rank = folded.pricing.folding.rank_class
    for name in ("ready", "start", "end"):
        ours, theirs = getattr(folded.timeline, name)[of_rank], getattr(exact.timeline, name)
        assert np.abs(ours - theirs).max() <= 1e-9 * exact.step_s
    assert exact.step_s > 1.1 * step(lying("contiguous", 1, CLUSTER), family, 6).step_s  # pools are felt
