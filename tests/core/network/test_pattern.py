"""Patterns: loads by hand on the toy cluster, on Frontier and on a bus, and against enumeration message by message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from numpy.typing import NDArray

from simfrontier.core.collectives import Recipe, algorithm, load_library, lower
from simfrontier.core.collectives.algorithms.direct import direct_loads as direct
from simfrontier.core.collectives.algorithms.ring import ring_loads as ring
from simfrontier.core.collectives.algorithms.tree import double_tree, tree_loads as tree
from simfrontier.core.machine import load_machine
from simfrontier.core.network import Fabric, Pattern, fold, solve
from simfrontier.core.network.messages import messages_loads, paired
from tests.core.network.brute import brute, wire_loads

CLUSTER = load_machine("toy-cluster")  # chains 0-1-2-3 and 3-2-1-0; NICs on devices 1 and 3; all shares 1
FRONTIER = load_machine("frontier")
Groups = NDArray[np.int64]


def world(fabric: Fabric) -> Groups:
    return np.arange(fabric.num_ranks)[None, :]


def named(fabric: Fabric, pattern: Pattern, activity: int = 0) -> dict[str, float]:
    return {fabric.describe(link): w for (a, link), w in wire_loads(pattern).items() if a == activity}


def test_world_ring_on_two_toy_nodes() -> None:
    fabric = Fabric.build(CLUSTER, 2)
    pattern = ring(fabric, world(fabric), {})
    # chain 0123: 0>1 1>2 2>3, out 3 nic1 | in nic0 1>0;  chain 3210: 3>2 2>1 1>0, out 0>1 nic0 | in nic1 3; half each
    node = {"xgmi 0>1": 1.0, "xgmi 1>0": 1.0} | dict.fromkeys(("xgmi 1>2", "xgmi 2>3", "xgmi 2>1", "xgmi 3>2"), 0.5)
    node |= dict.fromkeys(("pcie 1>nic0", "nic0>net", "pcie 3>nic1", "nic1>net"), 0.5)
    node |= dict.fromkeys(("net>nic0", "pcie nic0>1", "net>nic1", "pcie nic1>3"), 0.5)
    assert named(fabric, pattern) == {f"node {n} {name}": w for n in (0, 1) for name, w in node.items()}
    # per node and chain: 01 and 23 within packages, 12 between them, one message to the next node
    assert pattern.edges.tolist() == [[8, 4, 4]] and pattern.divisor == 2
    assert pattern.peak.tolist() == [1.0]


def test_ring_between_groups_goes_half_by_way_of_third_groups() -> None:
    fabric = Fabric.build(CLUSTER, 8)  # groups 0 and 1 of four; non-minimal share 1/2
    loads = {k: w for k, w in named(fabric, ring(fabric, world(fabric), {})).items() if k.startswith("global")}
    aside = ("0>2", "2>1", "0>3", "3>1", "1>2", "2>0", "1>3", "3>0")
    assert loads == pytest.approx({"global 0>1": 0.5, "global 1>0": 0.5} | {f"global {p}": 0.25 for p in aside})


def test_frontier_world_ring_puts_a_quarter_on_every_nic_each_way() -> None:
    fabric = Fabric.build(FRONTIER, 4)
    loads = named(fabric, ring(fabric, world(fabric), {}))
    share = FRONTIER.link_classes["nic"].share
    nics = {name: w for name, w in loads.items() if "net" in name}
    assert len(nics) == 4 * 4 * 2
    assert list(nics.values()) == pytest.approx([0.25 / share] * 32)


def test_frontier_groups_of_equal_position_share_nics_by_two() -> None:
    fabric = Fabric.build(FRONTIER, 4)
    pattern = ring(fabric, np.arange(32).reshape(4, 8).T, {"nic": 1.0, "pcie": 1.0, "xgmi4": 1.0})
    loads = wire_loads(pattern)
    for node in range(4):
        for k in range(4):
            for name in (f"nic{k}>net", f"net>nic{k}"):
                link = fabric.link_named(node, name)
                assert {a: w for (a, i), w in loads.items() if i == link} == pytest.approx({2 * k: 1.0, 2 * k + 1: 1.0})
    # the NIC hangs on the odd GCD: only even positions cross the package
    assert {a for (a, i) in loads if i == fabric.link_named(0, "xgmi 4>5")} == {4}
    assert {a for (a, i) in loads if i == fabric.link_named(0, "xgmi 5>4")} == {4}


def test_direct_on_two_toy_nodes() -> None:
    fabric = Fabric.build(CLUSTER, 2)
    loads = named(fabric, direct(fabric, world(fabric), {}))
    # each of 8 sends 1/7 to each other one. A NIC serves two devices, each with 4 peers outside: 8/7 out and 8/7 in.
    # 0>1: pairs 0-1, 0-1-2, 3-0-1, and the way out of device 0 (4);  1>0: 1-0, 2-1-0, 1-0-3, and the way in (4)
    # 1>2: 1-2, 0-1-2;  2>3: 2-3 and the way out of device 2 (4);  3>0: 3-0, 3-0-1
    sevenths = {"nic0>net": 8, "net>nic1": 8, "xgmi 0>1": 7, "xgmi 1>0": 7, "xgmi 1>2": 2, "xgmi 2>3": 5, "xgmi 3>0": 2}
    for name, count in sevenths.items():
        assert loads[f"node 0 {name}"] == loads[f"node 1 {name}"] == pytest.approx(count / 7), name


def test_double_tree_alternates_leaves_and_inner_nodes() -> None:
    for count in range(2, 40):
        places = np.arange(count)
        inner = []
        for parent in double_tree(places, np.full(count, count)):
            assert (parent < 0).sum() == 1
            up, steps = places, 0
            while (up >= 0).any():  # every place reaches the root
                up, steps = np.where(up >= 0, parent[up], -1), steps + 1
            assert steps <= np.ceil(np.log2(count)) + 2
            children = np.bincount(parent[parent >= 0], minlength=count)
            assert children.max() <= 2
            inner.append((children > 0) & (parent >= 0))
        assert not (inner[0] & inner[1]).any()


def test_tree_on_three_toy_nodes() -> None:
    fabric = Fabric.build(CLUSTER, 3)
    pattern = tree(fabric, world(fabric), {})
    loads = named(fabric, pattern)
    # first tree: 0 root, 2 below 0, 1 below 2; second, shifted by one: 1 root, 0 below 1, 2 below 0.
    # neighbours over both trees: node 0: 1 + 2 = 3; node 1: 1 + 1 = 2; node 2: 2 + 1 = 3.
    # each neighbour: half of the vector each way, over two heads (device 0 on nic0, device 3 on nic1): 1/4
    for node, neighbours in ((0, 3), (1, 2), (2, 3)):
        for name in ("nic0>net", "net>nic0", "nic1>net", "net>nic1"):
            assert loads[f"node {node} {name}"] == pytest.approx(neighbours / 4)
        # in-node: two chains, half of the vector each, both ways; device 0 also crosses to nic0 on device 1
        assert loads[f"node {node} xgmi 1>2"] == loads[f"node {node} xgmi 2>1"] == pytest.approx(1.0)
        assert loads[f"node {node} xgmi 0>1"] == pytest.approx(1.0 + neighbours / 4)
    # 3 nodes x 2 chains x 2 directions x 2 trees: two package edges, one node edge;
    # between nodes 2 trees x 2 edges x 2 directions x 2 chains
    assert pattern.edges.tolist() == [[48, 24, 16]] and pattern.divisor == 4
    # in all: 2 S (n-1) bytes for n ranks
    assert pattern.edges.sum() / pattern.divisor == 2 * (12 - 1)


def test_tree_within_a_node_is_chains_both_ways() -> None:
    fabric = Fabric.build(CLUSTER, 1)
    pattern = tree(fabric, world(fabric), {})
    assert named(fabric, pattern) == {f"node 0 xgmi {pair}": 1.0 for pair in ("0>1", "1>2", "2>3", "3>2", "2>1", "1>0")}
    assert pattern.edges.sum() / pattern.divisor == 2 * (4 - 1)


@pytest.mark.parametrize("shape", [ring, direct, tree])
def test_groups_of_one_send_nothing(shape: Callable[[Fabric, Groups, dict[str, float]], Pattern]) -> None:
    fabric = Fabric.build(CLUSTER, 2)
    pattern = shape(fabric, np.arange(8)[:, None], {})
    assert pattern.num_wire_loads == 0 and not pattern.edges.any() and pattern.divisor == 1


def share_of(fabric: Fabric, link: int) -> float:
    return fabric.machine.link_classes[fabric.class_names[fabric.link_class[link]]].share


def assert_like_brute(fabric: Fabric, groups: Groups, shape: str) -> None:
    pattern = (ring if shape == "ring" else direct)(fabric, groups, {})
    loads, edges = brute(fabric, groups, shape)
    assert wire_loads(pattern) == pytest.approx(loads, rel=1e-12)
    assert pattern.edges.tolist() == edges
    for activity in range(pattern.num):
        heaviest = max((w * share_of(fabric, link) for (a, link), w in loads.items() if a == activity), default=1.0)
        assert pattern.peak[activity] == pytest.approx(heaviest)
    messages = groups.shape[1] * (pattern.divisor if shape == "ring" else groups.shape[1] - 1)
    assert pattern.edges.sum(axis=1).tolist() == [messages] * pattern.num


@pytest.mark.parametrize("shape", ["ring", "direct"])
@pytest.mark.parametrize(
    ("name", "num_nodes"), [("toy-cluster", 16), ("toy-cluster", 3), ("frontier", 2), ("toy-tree", 5), ("lassen", 20)]
)
def test_loads_equal_those_of_single_messages(name: str, num_nodes: int, shape: str) -> None:
    fabric = Fabric.build(load_machine(name), num_nodes)
    per_node, ranks = fabric.machine.devices_per_node, np.arange(fabric.num_ranks)
    for groups in (
        ranks[None, :],
        ranks.reshape(-1, per_node),
        ranks.reshape(-1, per_node).T,
        ranks.reshape(-1, 2),
        ranks.reshape(-1, 2).T,  # several members per node and several nodes
        ranks.reshape(num_nodes, -1, 2).transpose(1, 0, 2).reshape(per_node // 2, -1),  # a package of every node
    ):
        assert_like_brute(fabric, groups, shape)


@given(st.data())
@settings(deadline=None, max_examples=40)
def test_loads_of_small_meshes_in_any_placement(data: st.DataObject) -> None:
    num_nodes = data.draw(st.sampled_from([1, 2, 3, 4, 5, 6, 9]), "nodes")
    num_ranks = num_nodes * 4
    placement = np.arange(num_ranks)
    if data.draw(st.booleans(), "shuffle nodes"):
        nodes = np.array(data.draw(st.permutations(range(num_nodes))))
        placement = (nodes[:, None] * 4 + np.array(data.draw(st.permutations(range(4))))).ravel()
    fabric = Fabric.build(CLUSTER, num_nodes, placement=placement)
    size = data.draw(st.sampled_from([d for d in range(2, num_ranks + 1) if num_ranks % d == 0]), "size")
    groups = np.arange(num_ranks).reshape(-1, size)
    if data.draw(st.booleans(), "strided"):
        groups = np.arange(num_ranks).reshape(size, -1).T
    spans = {len({int(fabric.device_of[r]) // 4 for r in group}) > 1 for group in groups.tolist()}
    shape = data.draw(st.sampled_from(["ring", "direct"]))
    assume(len(spans) == 1)
    assert_like_brute(fabric, groups, shape)


BOX = load_machine("box")  # 8 devices, one bus of 2 GB/s
PAIRS, QUADS, WORLD = (np.arange(8).reshape(-1, size) for size in (2, 4, 8))


def of_host(num_ranks: int = 8) -> Fabric:
    return Fabric.build(BOX, 1, num_devices=num_ranks)


@pytest.mark.parametrize(("groups", "size"), [(PAIRS, 2), (QUADS, 4), (WORLD, 8)])
@pytest.mark.parametrize("make", [ring, direct])
def test_a_group_of_n_loads_the_bus_n_times(make: object, groups: np.ndarray, size: int) -> None:
    # per byte that each of n ranks sends, n bytes pass the bus: a ring's two channels send half over n edges each, and
    # direct messages are n (n-1) of 1/(n-1)
    pattern: Pattern = make(of_host(), groups, {})  # type: ignore[operator]
    assert wire_loads(pattern) == pytest.approx({(group, 0): float(size) for group in range(8 // size)})
    assert pattern.peak.tolist() == pytest.approx([float(size)] * (8 // size))


def test_groups_of_a_large_host_are_found_without_searching() -> None:
    """The best cycle of half of 24 devices would be one of 11! orders; on a bus all are equal."""
    machine = load_machine("box", {"devices_per_node": 24.0})
    pattern = ring(Fabric.build(machine, 1), np.arange(24).reshape(2, 12), {})
    assert wire_loads(pattern) == pytest.approx({(0, 0): 12.0, (1, 0): 12.0})


def test_three_pairs_share_the_bus_fairly() -> None:
    """A third of the 2 GB/s each, of which either rank of a pair sends half."""
    on = of_host(6)
    pairs = ring(on, np.arange(6).reshape(3, 2), {})
    folding = fold(on, {"pairs": pairs}, exact=True)
    usage = np.zeros((folding.num_link_classes, 3))
    for cls in range(3):
        column = folding.column("pairs", cls)
        usage[column.rows, cls] = column.wire
    speeds = solve(usage, folding.capacity, np.full(3, np.inf))
    assert (speeds / pairs.peak).tolist() == pytest.approx([1e9 / 3] * 3)


def bytes_on_wires(groups: list[list[int]]) -> dict[str, float]:
    """Bytes on every wire per byte that a rank sends."""
    fabric = Fabric.build(load_machine("toy-cluster"), 2)
    pattern = ring(fabric, np.array(groups), {}, "ranks")
    out: dict[str, float] = {}
    for link, weight in zip(pattern.link[: pattern.num_wire_loads], pattern.weight, strict=False):
        out[fabric.describe(int(link))] = out.get(fabric.describe(int(link)), 0.0) + float(weight)
    return out


def test_a_ring_of_all_ranks_by_hand() -> None:
    """0>1>2>3, 3 by its own NIC 1 to device 0 of the next node, whose NIC 0 hangs on device 1: so 1>0 there."""
    inside = ("xgmi 0>1", "xgmi 1>2", "xgmi 2>3", "xgmi 1>0")
    outside = ("pcie 3>nic1", "nic1>net", "net>nic0", "pcie nic0>1")
    assert bytes_on_wires([list(range(8))]) == {
        f"node {node} {name}": 1.0 for node in (0, 1) for name in (*inside, *outside)
    }


PLAIN = replace(load_library("rccl"), ring_order="ranks", ring_shares={})


def by_link(fabric: Fabric, pattern: Pattern) -> np.ndarray:
    """[num groups, num links]"""
    out = np.zeros((pattern.num, len(fabric.capacity)))
    np.add.at(out, (pattern.act, pattern.link), pattern.weight)
    return out


def counted_loads(name: str, fabric: Fabric, ranks: np.ndarray) -> Pattern:
    """The transfers of an algorithm's first kind of call over one channel, as messages; per byte that a rank sends."""
    by, size = algorithm(name), ranks.shape[1]
    nodes = len(np.unique(fabric.device_of[ranks[0]] // fabric.machine.devices_per_node))
    made = lower(by.collectives[0], Recipe(algorithm=name, orders=(tuple(range(size)),), per_node=size // nodes))
    moved = np.array([(t.src, t.dst, t.count) for t in made.transfers if t.src != t.dst], np.int64)
    volume = by.sent_part(made.kind, size) * made.num_message_chunks
    moved[:, 2] *= volume.denominator
    return messages_loads(fabric, ranks, moved, volume.numerator, by.shares_on(PLAIN, FRONTIER))


@pytest.mark.parametrize("name", ["ring", "direct"])
@pytest.mark.parametrize(("num_ranks", "groups"), [(8, 1), (8, 4), (16, 1), (64, 8)])
def test_counted_loads_are_those_of_the_algorithm(name: str, num_ranks: int, groups: int) -> None:
    fabric = Fabric.build(FRONTIER, -(-num_ranks // 8), num_devices=num_ranks)
    ranks = np.arange(num_ranks).reshape(-1, groups).T
    counted, own = counted_loads(name, fabric, ranks), algorithm(name).loads(fabric, ranks, PLAIN)
    np.testing.assert_allclose(by_link(fabric, counted), by_link(fabric, own), rtol=1e-12)
    np.testing.assert_allclose(counted.peak, own.peak, rtol=1e-12)
    np.testing.assert_array_equal(counted.edges * own.divisor, own.edges * counted.divisor)


# ── messages between pairs of ranks ──


def test_one_message_inside_a_node_loads_its_way_only() -> None:
    fabric = Fabric.build(CLUSTER, 1)
    pattern = paired(fabric, np.array([[0, 1]]), 8, 0, {})
    assert named(fabric, pattern) == {"node 0 xgmi 0>1": 1.0}
    assert pattern.edges.tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]  # ranks 2 and 3 are idle, each by itself
    assert pattern.group_of.tolist() == [0, 0, 1, 2]
    assert pattern.peak.tolist() == [1.0, 1.0, 1.0]


def test_the_smaller_message_loads_less() -> None:
    """Six bytes ahead and four back: of the volume, six, two thirds go back; five messages of two bytes in parts of
    three."""
    fabric = Fabric.build(CLUSTER, 1)
    pattern = paired(fabric, np.array([[0, 1]]), 6, 4, {})
    assert named(fabric, pattern) == {"node 0 xgmi 0>1": 1.0, "node 0 xgmi 1>0": pytest.approx(2 / 3)}
    assert (pattern.edges[0].tolist(), pattern.divisor) == ([5, 0, 0], 3)


def test_between_nodes_messages_go_from_nic_to_nic() -> None:
    """Device 0 sends by the NIC of its package, which hangs on device 1; device 5 is position 1 of node 1."""
    fabric = Fabric.build(CLUSTER, 2)
    pattern = paired(fabric, np.array([[0, 5]]), 1, 0, {"nic": 0.5})
    names = set(named(fabric, pattern))
    assert {"node 0 xgmi 0>1", "node 0 nic0>net", "node 1 net>nic0"} <= names
    assert named(fabric, pattern)["node 0 nic0>net"] == 2.0  # half of the link is reached
    assert not any(">0" in name for name in names)
    assert pattern.edges[0].tolist() == [0, 0, 1]


@pytest.mark.parametrize("num_nodes", [2, 8, 16])
def test_pairs_of_all_ranks_are_direct_messages(num_nodes: int) -> None:
    """Both ways at once, with dragonfly pools: what `direct` says of groups of two."""
    fabric = Fabric.build(CLUSTER, num_nodes)
    pairs = np.arange(fabric.num_ranks).reshape(2, -1).T
    ours, theirs = paired(fabric, pairs, 3, 3, {"nic": 0.8}), direct(fabric, pairs, {"nic": 0.8})
    assert wire_loads(ours) == pytest.approx(wire_loads(theirs))
    assert (ours.peak == theirs.peak).all() and (ours.group_of == theirs.group_of).all()
    assert (ours.edges / ours.divisor == theirs.edges / theirs.divisor).all()
